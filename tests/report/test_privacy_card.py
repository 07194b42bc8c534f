"""Privacy cards: their numbers are those of the report, false claims come first, and nothing is hidden."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.expansion import CellPlan, DefenseLabel
from foltr_audit.privacy.events import UNITS
from foltr_audit.privacy.tradeoff import TradeOff
from foltr_audit.report.render.card_document import card_document
from foltr_audit.report.render.html import html_page
from foltr_audit.report.render.markdown import markdown
from foltr_audit.report.results.card_gaps import ALWAYS, HONEST, gaps
from foltr_audit.report.results.card_limits import NO_LIMIT, limit_text, most_by_auc, most_of_hundred
from foltr_audit.report.results.card_sentences import (
    attack_sentence,
    cost_sentence,
    limit_sentences,
    model_sentence,
    run_sentences,
)
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import ClaimRow, ComparedRefusal, ViewCeiling
from foltr_audit.report.results.privacy_card import PrivacyCard, privacy_cards
from tests.fixtures.comparisons import (
    LEARNER,
    checked,
    claim,
    failed,
    provenance,
    report,
    run_bound,
    setting,
    several,
    unfinished,
    where,
)
from tests.report.test_compare_page import EVIL, Reader

SPEC = Spec(
    train={"learner": LEARNER, "rounds": 7},
    population={"clients": 40, "cohort": 10},
    attack={"click_models": ["perfect"]},
)


def cells(found: CompareReport) -> list[CellPlan]:
    """A cell for each row of a report."""
    return [
        CellPlan(SPEC, "attack", DefenseLabel(row.setting.alternative, row.setting.eps))
        for row in found.results
    ]


def cards(found: CompareReport, *names: str) -> list[PrivacyCard]:
    rows = [row for row in found.results if row.setting.name != "none"]
    return privacy_cards(found, cells(found), [row for row in rows if not names or row.setting.name in names])


def card_of(*claims: ClaimRow, ceilings: tuple[ViewCeiling, ...] = (), **more: Any) -> PrivacyCard:
    """The card of a defense whose audit found these claims."""
    noisy = setting("laplace", 1.2, auc=0.55, ceilings=ceilings, **checked("proven"))
    rows = setting("none", auc=0.99, ndcg=0.45), noisy
    (found,) = cards(report(*rows, claims=claims, **more))
    return found


def text_of(*found: PrivacyCard) -> str:
    return markdown(card_document(found, provenance()))


@cache
def published() -> PrivacyCard:
    return cards(several(), "published, eps 1.2")[0]


def table(text: str, title: str) -> list[dict[str, str]]:
    """The rows of a table in Markdown, by header."""
    lines = text.partition(f"**{title}**\n\n")[2].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


# --- its numbers -------------------------------------------------------------------------------------


def test_its_epsilons_are_those_of_the_report() -> None:
    found = several()
    stored = {(row["name"], row["sees"]): row for row in json.loads(found.json())["claims"]}
    for card in cards(found, "published, eps 1.2", "laplace, eps 1.2"):
        first = table(text_of(card), "Epsilon: claimed, proven and measured")[0]
        row = stored[card.name, "message"]
        shown = [
            first[header].strip("*").replace("∞", "inf")
            for header in ("claimed", "proven at most: one round", "measured at least")
        ]
        assert [float(one.partition(" ")[0]) for one in shown] == pytest.approx(
            [float(row[name]) for name in ("eps_claimed", "eps_upper", "eps_lower")], rel=5e-3
        )
        assert first["verdict"].strip("*") == row["verdict"]


def test_its_attacks_and_costs_are_those_of_the_report() -> None:
    (row,) = [row for row in json.loads(several().json())["results"] if row["name"] == "published, eps 1.2"]
    first = table(text_of(published()), "Attacks that were run")[0]
    assert first["attack"] == row["attack"]
    assert float(first["AUC"].partition(" ")[0]) == pytest.approx(row["auc"], abs=5e-4)
    said = attack_sentence(published().worlds[0])
    assert "98 times in 100 (AUC .980, 95 % interval .960 to 1.000)" in said
    cost = cost_sentence(published().worlds[0])
    numbers = [float(one) for one in re.findall(r"(?<![\d@])\.\d+", cost)]
    expected = [row["ndcg@10"], 0.45, abs(row["ndcg@10_difference"])]
    assert numbers[:3] == pytest.approx(expected, abs=5e-4)


@given(eps=st.floats(0, 20), delta=st.floats(0, 0.5))
def test_the_limit_in_words_is_that_of_kairouz(eps: float, delta: float) -> None:
    """Total variation of (eps, delta)-DP: Kairouz, Oh & Viswanath 2015, theorem 1."""
    apart = (math.expm1(eps) + 2 * delta) / (math.exp(eps) + 1)
    exact = 50 * (1 + apart)
    assert exact - 1e-6 <= most_of_hundred(eps, delta) < exact + 1 + 1e-6


@given(bounds=st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1)), min_size=1, max_size=5))
def test_no_test_is_right_more_often_than_its_auc(bounds: list[tuple[float, float]]) -> None:
    curve = TradeOff.of_bounds(bounds)
    assert 100 * float(curve.accuracy()) <= most_by_auc(curve.auc) + 1e-6


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_has_its_limit_in_words(unit: str) -> None:
    assert "77" in limit_text(unit, 77)
    assert "too weak" in limit_text(unit, most_of_hundred(30.0, 0.0))


# --- what comes first, and what is not known -----------------------------------------------------------


def test_false_claims_come_first() -> None:
    found = cards(several())
    assert [bool(card.false) for card in found] == [True, False, False]
    lines = [line for line in text_of(published()).splitlines() if line]
    assert lines[3].startswith(
        "**The claim is false where the server sees the message: epsilon 1.2 is claimed"
    )
    assert "at least 4.5 (95 % confidence)" in lines[3]


def test_the_worst_pair_of_an_observer_counts() -> None:
    place = where("laplace", 1.2)
    mild, bad = claim(place, "not refuted", measured=0.2), claim(place, "refuted", measured=3.0)
    for order in ((mild, bad), (bad, mild)):
        (row,) = card_of(*order).claims
        assert row.eps_lower == 3.0


@pytest.mark.parametrize("verdict", ["refuted", "not refuted", "declared law broken"])
def test_nothing_proven_is_said_so(verdict: str) -> None:
    card = card_of(claim(where("laplace", 1.2), verdict))
    for sentence in (*limit_sentences(card), model_sentence(card)):
        assert NO_LIMIT in sentence
    assert "no attack guesses" not in text_of(card)


def test_without_an_audit_no_limit_is_known() -> None:
    card = card_of()
    assert list(limit_sentences(card)) == [f"No claim was checked: {NO_LIMIT}."]
    assert "The claim itself: no audit was run." in gaps(card)


def test_a_contradiction_is_told_first() -> None:
    text = text_of(card_of(claim(where("laplace", 1.2), "contradiction")))
    assert text.splitlines()[6].startswith("**Rely on no number where the server sees the message: proof and")


def test_a_proof_above_a_false_claim_still_is_a_limit() -> None:
    row = replace(claim(where("laplace", 1.2), "refuted", measured=1.5), eps_upper=2.0)
    assert limit_text("interaction", 89) in text_of(card_of(row))  # e^2 / (1 + e^2) is .881


def test_observers_of_one_limit_share_a_sentence() -> None:
    place = where("laplace", 1.2)
    rows = [claim(place, "proven", view=view) for view in ("individual", "aggregate")]
    (said,) = limit_sentences(card_of(*rows))
    assert said.startswith("Where the server sees the message or the sum: of 100 clicks")


CEILINGS = (
    ViewCeiling(view="individual", auc=0.7, how="a curve"),
    ViewCeiling(view="individual+lists", auc=1.0, how="lists tell"),
    ViewCeiling(view="aggregate", auc=0.6, how="a sum"),
)


def test_observers_without_an_audit_have_their_proofs() -> None:
    card = card_of(claim(where("laplace", 1.2), "proven"), ceilings=CEILINGS)
    first, second, third = limit_sentences(card)
    assert "message: of 100 clicks that are as likely as not, no attack guesses more than 70 right" in first
    assert "Proven: epsilon 1.2" in first
    assert second == f"Where the server sees the message and lists: {NO_LIMIT}. Why: lists tell."
    assert "more than 60 right" in third
    assert "Proven, but not checked by trials" in third
    assert "more than 60 right" in model_sentence(card)
    rows = table(text_of(card), "Epsilon: claimed, proven and measured")
    shown = [row["any attack, right in 100"] for row in rows]
    assert shown[:3] == ["70", "-", "60"]
    assert [row["verdict"] for row in rows[1:]] == ["not checked"] * 5


def test_the_whole_run_has_a_limit_of_its_own() -> None:
    place = where("laplace", 1.2)
    bounded = replace(run_bound(2.0), unit="client", rounds=7, sampled=0.25, eps_always=9.0)
    clicks = replace(run_bound(30.0), unit="query", rounds=7, sampled=1.0)
    nothing = replace(run_bound(), rounds=7, how="too many rounds")
    rows = [
        replace(claim(place, "proven", view=view), run=run)
        for view, run in (("individual", nothing), ("aggregate", bounded), ("colluding", clicks))
    ]
    unlimited = claim(place, "not refuted", view="individual+lists")
    first, second, third = run_sentences(card_of(*rows, unlimited))
    start = "Over all 7 rounds, where the server sees the message: "
    assert first == (f"{start}{NO_LIMIT} about one person. Why: too many rounds.")
    assert "no attack says rightly from which more than 89 times in 100" in second  # e^2 / (1 + e^2) is .881
    assert "as often as possible: epsilon 9" in second
    assert "too weak to limit an attack" in third


@pytest.mark.parametrize("verdict", ["contradiction", "declared law broken"])
def test_a_broken_proof_takes_all_limits_away(verdict: str) -> None:
    row = replace(claim(where("laplace", 1.2), verdict), eps_upper=1.0)
    assert "no attack guesses" not in text_of(card_of(row, ceilings=CEILINGS))


def test_what_was_not_tested_is_named() -> None:
    place = where("laplace", 1.2)
    row = replace(claim(place, "proven"), declared="not looked", declared_why="laplace: too few trials")
    found = card_of(
        row,
        failed=[replace(failed("out of luck"), learner=SPEC.train.learner, defense="laplace")],
        unfinished=[replace(unfinished(3, 1, "laplace, eps 1.2"), learner=SPEC.train.learner)],
        refused=[ComparedRefusal(method="tukey", setting=place, reason="no features")],
    )
    text = "\n".join(gaps(found))
    for words in (
        HONEST,
        *ALWAYS,
        "2 cells of the comparison not done yet",
        "out of luck",
        "sees the message and lists",
        "everything of one person",
        "data:worst",
        "laplace: too few trials",
        "tukey, which could not run: no features",
        "lad",
        "here all search and click alike",
        "synthetic:mq2007",
    ):
        assert words in text
    assert "olsr" not in text.replace("olsr-theta", "")  # it ran


def test_the_system_is_described() -> None:
    rows = {
        row["property"]: row["value"] for row in table(text_of(published()), "Clients, messages and rounds")
    }
    assert rows["clients"] == "40; 10 take part in each round"
    assert rows["rounds"] == "7"
    assert "nothing hides it" in rows["what the server gets"]
    assert SPEC.hash[:12] in rows["experiments (first digits of the SHA-256 of each Spec)"]


# --- its form -----------------------------------------------------------------------------------------


def test_the_same_results_are_the_same_bytes() -> None:
    for render in (markdown, html_page):
        pages = {render(card_document(cards(several()), provenance())) for _ in range(2)}
        assert len(pages) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_the_page_is_whole(count: int) -> None:
    reader = Reader(html_page(card_document(cards(several())[:count], provenance())))
    names = [values["id"] for tag, values in reader.tags if "id" in values]
    assert len(set(names)) == len(names)
    links = [values["href"] for tag, values in reader.tags if tag == "a"]
    assert links == [f"#{values['id']}" for tag, values in reader.tags if tag == "section"]
    assert "What was not tested" in reader.text


def evil() -> PrivacyCard:
    place = where(EVIL, 1.2, click_model=EVIL, scenario=EVIL, data=EVIL)
    rows = setting(EVIL, 1.2, click_model=EVIL, scenario=EVIL, data=EVIL, **checked("refuted"))
    found = report(
        rows,
        claims=[replace(claim(place, "refuted"), upper_how=EVIL, why=EVIL)],
        refused=[ComparedRefusal(method=EVIL, setting=place, reason=EVIL)],
    )
    assert found.dataset is not None
    attacks = [replace(row, method=EVIL) for row in found.attacks]
    found = replace(found, attacks=attacks, dataset=replace(found.dataset, source=EVIL))
    return privacy_cards(found, [], found.results)[0]


def test_what_comes_from_outside_is_shown_and_never_run() -> None:
    reader = Reader(html_page(card_document([evil()], provenance())))
    assert "script" not in {tag for tag, _ in reader.tags}
    assert reader.text.count("<script>alert(1)</script>") > 5
    text = text_of(evil())
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert "<script" not in outside
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\|\\`\\*&amp;" in text
