"""Which defense a comparison recommends, when it recommends none, and what it says of that."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from foltr_audit.core.results import Estimate, GapRecord
from foltr_audit.experiments.decide import ABOVE_GUESS, MOST_AUC, MOST_LOSS, UNBOUNDED, Decision
from foltr_audit.experiments.table import NOT_TESTED, ComparedPool
from foltr_audit.report.compare import CompareReport
from foltr_audit.report.decision import decision_sentences
from tests.fixtures.comparisons import (
    LISTS,
    SUM,
    against,
    attack,
    audit,
    beside_guesses,
    checked,
    guesses,
    lost,
    proofs,
    report,
    run_bound,
    seen_as,
    setting,
    warned,
)


def decision(found: CompareReport) -> Decision:
    assert found.decision is not None
    return found.decision


def sentences(*pools: ComparedPool) -> list[str]:
    return decision_sentences(decision(report(*pools)))


def chosen(*pools: ComparedPool) -> str:
    best = decision(report(*pools)).best
    return "" if best is None else best.name


def audited(verdicts: dict[str, str]) -> dict[str, Any]:
    """The audits of several views."""
    return {"audits": tuple(audit(verdict, view) for view, verdict in verdicts.items())}


NONE = setting("none", auc=0.99, ndcg=0.45)
PROVEN = setting("laplace", 1.2, auc=0.52, ndcg=0.40, **checked("proven"))


def test_a_proven_defense_under_which_attacks_fail_is_recommended() -> None:
    found = decision(report(NONE, PROVEN))
    assert found.best is not None
    assert found.best.name == "laplace, eps 1.2"
    said = decision_sentences(found)
    assert said[0] == "Use laplace, eps 1.2."
    proof = "and epsilon 1.2 is proven for one interaction; for one client over 20 rounds nothing is."
    beside = "AUC .520, .600 by position-prior, difference -.080 [-.10, -.06]; perfect clicks"
    assert f"({beside}), {proof}" in said[1]
    assert said[-1].startswith("Not tested: ")
    assert "since no audit was run" not in said[-1]
    judged = {one.name: one.judgement for one in found.judged}
    assert judged == {"none": "leaks", "laplace, eps 1.2": "holds"}


def test_the_bound_of_a_run_stands_beside_that_of_an_interaction() -> None:
    bounded = audit("proven", whole_run=run_bound(6.1))
    said = sentences(NONE, setting("laplace", 1.2, auc=0.52, ndcg=0.40, audits=(bounded,)))
    assert said[1].endswith("for one interaction; for one client over 20 rounds epsilon 6.1.")


def test_what_secure_aggregation_needs_is_counted_in_clients() -> None:
    """More than half of the cohort, unless the defense sets another threshold."""

    def needs(chain: str) -> str:
        pool = setting("skellam", 1.2, auc=0.52, ndcg=0.44, chain=chain, **checked("proven"))
        clients = pool.spec.population.model_copy(update={"clients": 400, "cohort": 20})
        said = sentences(
            NONE, replace(pool, spec=pool.spec.model_copy(update={"population": clients}))
        )  # fmt: skip
        return next(line for line in said if line.startswith("Needs"))

    assert needs("secure-aggregation").endswith("of a round, each sum with at least 11 of 20 clients.")
    assert "at least 15 of 20 clients" in needs("secure-aggregation:threshold=15")


def test_costs_name_the_clicks_that_they_are_of() -> None:
    """The worst of all click models, which need not be that of the table beside it."""
    cheap = setting("laplace", 1.2, auc=0.51, **against(-0.001, 0.9), **checked("proven"))
    costly = setting(
        "laplace", 1.2, auc=0.52, click_model="informational", **against(-0.04, 0.9), **checked("proven")
    )
    said = sentences(NONE, cheap, setting("none", click_model="informational"), costly)
    assert (
        "Costs: at most .040 of nDCG@10 compared with no defense, for informational clicks (.400" in said[2]
    )
    assert (
        "(AUC .520, .600 by position-prior, difference -.080 [-.10, -.06]; informational clicks)" in said[1]
    )


def test_the_decision_as_json_names_what_to_use() -> None:
    found = json.loads(report(NONE, PROVEN).json())["decision"]
    assert (found["use"], found["use_with_lists"]) == ("laplace, eps 1.2", "laplace, eps 1.2")
    assert [one["verdict"] for one in found["verdicts"]] == ["leaks", "recommended"]
    assert json.loads(report(NONE).json())["decision"]["use"] is None
    assert json.loads(report().json())["decision"] is None


def test_no_defense_is_never_recommended_even_if_no_attack_succeeds() -> None:
    assert chosen(setting("none", auc=0.5, ndcg=0.45)) == ""


@pytest.mark.parametrize(
    "verdict", ["refuted", "false by exact loss", "declared law broken", "contradiction"]
)
def test_a_false_claim_is_never_recommended(verdict: str) -> None:
    false = setting("published", 1.2, auc=0.5, ndcg=0.45, **checked(verdict))
    found = report(NONE, false)
    assert decision(found).best is None
    said = decision_sentences(decision(found))
    assert said == ["Use none of these defenses: the claim is false for published, eps 1.2."]
    assert chosen(NONE, false, PROVEN) == "laplace, eps 1.2"


def test_of_several_that_hold_the_smallest_epsilon_is_recommended() -> None:
    """A larger epsilon promises less, and more nDCG is no reason for it."""
    larger = setting("laplace", 10, auc=0.51, ndcg=0.44, **checked("proven", claim=10, proven=10))
    assert chosen(NONE, larger) == "laplace, eps 10"
    assert chosen(NONE, PROVEN, larger) == "laplace, eps 1.2"


def test_what_is_proven_comes_before_what_is_claimed() -> None:
    """Of a claim of 10 an epsilon of .8 is proven; and 1.1999 is no safer than 1.2, which is more useful."""
    better = setting("laplace", 10, auc=0.51, ndcg=0.39, **checked("proven", claim=10, proven=0.8))
    assert chosen(NONE, PROVEN, better) == "laplace, eps 10"
    assert "epsilon 0.8 is proven" in sentences(NONE, PROVEN, better)[1]
    about = setting("skellam", 1.2, auc=0.5, ndcg=0.39, **checked("proven", proven=1.1999))
    assert chosen(NONE, PROVEN, about) == "laplace, eps 1.2"
    small = setting("top-k", 0.1, auc=0.5, ndcg=0.45, **checked("not refuted", claim=0.1))
    assert chosen(NONE, PROVEN, small) == "laplace, eps 1.2"


def test_without_an_audit_the_proof_of_all_rounds_tells_which_is_safer() -> None:
    def unaudited(name: str, eps: float, ndcg: float) -> ComparedPool:
        attacked = proofs(0.7)["proofs"]
        upper = replace(attacked[0].upper, epsilon=eps)
        whole = attacked[0].model_copy(update={"of": "all rounds", "upper": upper})
        return setting(name, 2 * eps, auc=0.52, ndcg=ndcg, proofs=(*attacked, whole))

    assert chosen(NONE, unaudited("a", 1.2, 0.41), unaudited("b", 0.6, 0.4)) == "b, eps 1.2"


def test_noise_without_a_clip_is_never_recommended() -> None:
    """However well it hides clicks in this sample: nothing bounds what it has to hide."""
    assert chosen(NONE, setting("gaussian", auc=0.52, ndcg=0.44)) == "gaussian"
    noise = setting("gaussian", auc=0.52, ndcg=0.44, **warned("no clip before the noise", UNBOUNDED))
    assert chosen(NONE, noise) == ""
    assert "not computed for what the clip allows under gaussian" in sentences(NONE, noise)[0]
    assert chosen(NONE, noise, PROVEN) == "laplace, eps 1.2"


def test_where_nothing_is_proven_with_lists_the_first_sentence_says_so() -> None:
    unproven = {"individual": "proven", "individual+lists": "not refuted"}
    said = sentences(NONE, setting("skellam", 1.2, auc=0.52, ndcg=0.44, **audited(unproven)))
    start = "Use skellam, eps 1.2, if the server does not see the shown lists."
    assert said[0] == f"{start} Where it sees them, nothing is proven of this defense."


def test_a_view_without_a_claim_is_not_proven() -> None:
    audits = (audit("proven"), audit("not refuted", "individual+lists", claim=None))
    hidden = setting("skellam", 1.2, auc=0.52, ndcg=0.44, audits=audits)
    clicks = audited(dict.fromkeys(("individual", "individual+lists"), "proven"))
    said = sentences(NONE, hidden, setting("click-rr", 2.3, auc=0.53, ndcg=0.40, **clicks))
    assert said[0].endswith("shown lists. Where it sees them, use click-rr, eps 2.3.")


def test_a_proof_comes_before_ndcg_and_ndcg_before_the_attack() -> None:
    unproven = setting("top-k", 1.2, auc=0.51, ndcg=0.45, **checked("not refuted"))
    assert chosen(NONE, unproven) == "top-k, eps 1.2"
    assert chosen(NONE, unproven, PROVEN) == "laplace, eps 1.2"
    better = setting("skellam", 1.2, auc=0.53, ndcg=0.42, **checked("proven"))
    assert chosen(NONE, PROVEN, better) == "skellam, eps 1.2"
    equal = setting("skellam", 1.2, auc=0.51, ndcg=0.40, **checked("proven"))
    assert chosen(NONE, PROVEN, equal) == "skellam, eps 1.2"


@pytest.mark.parametrize(
    ("loss", "width", "judgement"),
    [
        (0.04, 0.005, "holds"), (0.045, 0.01, "cost not known"), (0.055, 0.01, "cost not known"),
        (0.07, 0.01, "costs too much"), (-0.1, 0.2, "cost not known"),
    ],
)  # fmt: skip
def test_a_loss_has_to_be_shown_to_be_within_the_limit(loss: float, width: float, judgement: str) -> None:
    """Whatever its p-value, which says something about a loss of 0."""
    for p in (1e-9, 0.9):
        costly = replace(PROVEN, difference=lost(loss, width, p))
        (_, judged) = decision(report(NONE, costly)).judged
        assert judged.judgement == judgement
        assert (chosen(NONE, costly) == "laplace, eps 1.2") == (judgement == "holds")


def test_a_defense_that_nothing_is_compared_with_is_not_known_to_be_cheap() -> None:
    alone = replace(PROVEN, difference=NOT_TESTED)
    first, last = sentences(alone)
    assert first.endswith("not known whether more than .05 of nDCG@10 is lost under laplace, eps 1.2.")
    assert last == "Cost not known: laplace, eps 1.2: no run without a defense was compared."


def test_the_answer_says_how_many_queries_would_show_what_a_defense_costs() -> None:
    """By the square root of the queries: bounds of .04 to either side of .03 have to halve, of .055 to
    become .005, and of .05 no number would do."""

    def unknown(eps: float, loss: float) -> ComparedPool:
        return setting("laplace", eps, auc=0.52, difference=lost(loss, 0.04), **checked("proven", proven=eps))

    said = sentences(NONE, PROVEN, unknown(0.1, 0.03), unknown(0.2, 0.055), unknown(0.3, MOST_LOSS))
    assert said[0] == "Use laplace, eps 1.2."
    counts = re.findall(r"eps (0\.\d)(?: \(about ([\d,]+)\))?", said[-1])
    assert [eps for eps, _ in counts] == ["0.1", "0.2", "0.3"]
    near, far = (int(count.replace(",", "")) for _, count in counts[:2])
    assert near == pytest.approx(400, rel=0.02)
    assert far == pytest.approx(6400, rel=0.02)
    assert counts[2][1] == ""
    assert "(100 here)" in said[-1]
    assert "Cost not known" not in " ".join(sentences(NONE, PROVEN))


def test_where_lists_are_seen_another_defense_is_recommended() -> None:
    listed = {"individual": "proven", "individual+lists": "refuted"}
    hidden = setting("skellam", 1.2, auc=0.52, ndcg=0.44, **audited(listed))
    clicks = setting("click-rr", 1.2, auc=0.53, ndcg=0.40, **audited(dict.fromkeys(listed, "proven")))
    start = "Use skellam, eps 1.2, if the server does not see the shown lists."
    assert sentences(NONE, hidden)[0] == f"{start} Where it sees them, none of these defenses holds."
    assert sentences(NONE, hidden, clicks)[0] == f"{start} Where it sees them, use click-rr, eps 1.2."


def test_a_defense_must_hold_in_every_world() -> None:
    leaks = setting(
        "laplace", 1.2, auc=0.9, ndcg=0.40, click_model="informational", **checked("proven")
    )  # fmt: skip
    pools = (NONE, PROVEN, setting("none", auc=0.99, ndcg=0.45, click_model="informational"), leaks)
    assert chosen(*pools[:2]) == "laplace, eps 1.2"
    assert chosen(*pools) == ""
    found = decision(report(*pools))
    (laplace,) = (one for one in found.judged if one.name == "laplace, eps 1.2")
    assert laplace.judgement == "leaks"
    assert math.isclose(laplace.auc, 0.9)
    assert {found.judgement(row) for row in report(*pools).results if row["eps"]} == {"leaks"}


def test_rows_of_a_world_stand_together() -> None:
    """Also where a comparison has them apart: all click models of one learner, then those of the next."""
    clicks = ("perfect", "informational")
    found = report(*(setting("none", learner=name, click_model=model) for name in "xy" for model in clicks))
    assert [(row["click_model"], row["learner"]) for row in found.results] == [
        *(("perfect", "x"), ("perfect", "y"), ("informational", "x"), ("informational", "y"))
    ]
    assert [row["learner"] for row in found.curves] == ["x", "x", "y", "y"]


def test_nothing_is_decided_without_results() -> None:
    assert report().decision is None


def test_a_server_that_cheats_is_named() -> None:
    def said(server: str) -> str:
        train = PROVEN.spec.train.model_copy(update={"server": server})
        return sentences(NONE, replace(PROVEN, spec=PROVEN.spec.model_copy(update={"train": train})))[-1]

    assert said("honest").endswith("servers that cheat (--server).")
    assert said("saturate").endswith("servers other than saturate.")


def test_an_attack_that_may_be_good_on_few_lists_is_no_success_of_a_defense() -> None:
    """An AUC of .7 from .45 to .95 is not shown to beat a guess, and no defense holds by that."""
    few = attack("map", Estimate(0.7, (0.45, 0.95)))
    wide = replace(PROVEN, attacks=beside_guesses((*guesses(), few)))
    assert chosen(NONE, wide) == ""
    assert sentences(NONE, wide)[0].endswith("too few lists were attacked under laplace, eps 1.2.")


def test_few_lists_are_judged_by_one_sided_bounds() -> None:
    def ends(tail: float) -> tuple[float, float]:
        return (0.5, 0.76 if tail < 0.05 else 0.74)

    few = attack("map", Estimate(0.6, ends))
    pool = replace(PROVEN, attacks=beside_guesses((*guesses(), few)))
    assert pool.attacks[-1].metric("auc").ci95 == (0.5, 0.76)
    assert chosen(NONE, pool) == PROVEN.name


def test_the_thresholds_of_verdicts_stand_below_their_table() -> None:
    costly = replace(PROVEN, difference=lost(0.1))
    found = report(NONE, costly, setting("b", 1.2, auc=0.7, **checked("refuted")))
    answer = found.short_answer()
    assert answer is not None
    assert answer.table is not None
    caption = answer.table.caption
    assert f"costs too much: shown to lose more than .0{MOST_LOSS * 100:g} of nDCG@10" in caption
    assert "false claim: " in caption
    assert "too few lists" not in caption
    few = setting("c", 1.2, attacks=(*guesses(), attack("map", Estimate(0.7, (0.45, 0.95)))))
    below = report(NONE, few).short_answer()
    assert below is not None
    assert below.table is not None
    caption = below.table.caption
    assert f"may be above .{MOST_AUC * 100:g}, and what" in caption
    assert f"adds to the guess above .{ABOVE_GUESS * 10:g}" in caption


def test_an_attack_that_cannot_run_is_named_with_the_server_that_it_would_be_of() -> None:
    refusal = GapRecord(what="refused", method="map", why="it decodes one interaction")
    others = tuple(replace(seen_as(sees, 0.5), gaps=(refusal,)) for sees in (LISTS, SUM))
    found = report(setting("none", others=others)).refused
    assert [(row["method"], row["view"]) for row in found] == [
        ("map", "individual+lists"),
        ("map", "aggregate"),
    ]


def test_where_lists_leak_the_attack_that_reads_them_is_named() -> None:
    """By what it adds to the guess in the world where that is most."""
    pools = [
        setting("a", 1.2, click_model=clicks, auc=0.52, others=(seen_as(LISTS, auc), seen_as(SUM, 0.5)))
        for clicks, auc in (("informational", None), ("perfect", 0.83), ("navigational", 0.77))
    ]
    made = report(*(setting("none", click_model=pool.spec.train.click_model) for pool in pools), *pools)
    assert made.decision is not None
    first = decision_sentences(made.decision)[0]
    assert "map" in first
    assert ".830" in first
    assert "perfect clicks" in first
    for tables in made.world_tables:
        others = tables.others()
        assert others is not None
        shown = [(line.cells[1].text, line.cells[3].text) for line in others.lines]
        assert [sees for sees, _ in shown] == ["message and lists", "sum"]
        assert shown[1][1] == ".500"
    assert report(setting("a", 1.2)).world_tables[0].others() is None
