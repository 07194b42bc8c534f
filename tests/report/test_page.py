"""The page of a comparison: what it says, that it escapes, and that nothing else runs."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.privacy.observer_views import SEES
from foltr_audit.report import page as pages
from foltr_audit.report.compare import CompareReport
from foltr_audit.report.documents import Row
from foltr_audit.report.page import Page, _tiles, defense_table, html_page, page_of, page_row, plain_words
from tests.fixtures.comparisons import (
    against,
    attack,
    audit,
    cells,
    checked,
    failed,
    left_out,
    proofs,
    report,
    setting,
    unfinished,
    warned,
)

EVIL = "<script>alert(1)</script>|`*&\"'"

EMPTY_TAGS = {"meta", "link", "br", "line"}


class Reader(HTMLParser):
    """The tags of a page with their attributes, its text, and whether every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in EMPTY_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


AUC_OF = {"individual": 0.0, "individual+lists": 0.2, "aggregate": -0.02}
"""By how much the AUC of each observer differs from that of one who sees messages."""


def observed(row: Row) -> Row:
    """The same result of three observers, of whom the one with sums does not attack `none`."""
    (one,) = row["attacked"]
    several = []
    for view, more in AUC_OF.items():
        auc, above = (Estimate(min(one.number(name) + more, 1.0)) for name in ("auc", "above_guess"))
        if not (view == "aggregate" and row["name"] == "none"):
            values = {"view": view, "sees": SEES[view], "auc": auc, "above_guess": above}
            several.append(one.with_values(**values, shown="reads" if more > 0 else "guess"))
    return row.with_values(attacked=several)


def study() -> CompareReport:
    """Two click models and three observers; under the second, attacks are weaker and ranking is worse."""
    (proof,) = proofs(0.8, runs=1)["proofs"]
    ceilings = [
        proof.model_copy(update={"of": "all rounds", "view": view, "auc": auc})
        for view, auc in (("individual", 0.8), ("individual+lists", 1.0), ("aggregate", 0.7))
    ]
    audits = audit("not refuted", "individual+lists", claim=None)
    pools = [
        setting(
            name, eps, auc=auc - weaker, ndcg=ndcg - 2 * weaker, click_model=clicks, proofs=tuple(ceilings),
            audits=(audit("proven", proven=eps or math.inf), audits),
            **({} if eps is None else against(-loss - weaker / 10, 0.9)),
        )
        for clicks, weaker in (("perfect", 0.0), ("informational", 0.1))
        for name, eps, auc, ndcg, loss in (
            ("none", None, 0.79, 0.6, 0.0),
            ("laplace", 1.2, 0.55, 0.5, 0.02),
            ("laplace", 4.5, 0.58, 0.55, 0.01),
        )
    ]  # fmt: skip
    compared = report(*pools)
    return replace(compared, results=[observed(row) for row in compared.results])


@cache
def usual() -> Page:
    return page_of(study())


@cache
def read() -> Reader:
    return Reader(html_page(usual()))


# --- what it says -----------------------------------------------------------------------------------


def test_it_begins_with_what_to_use_and_its_numbers() -> None:
    page = usual()
    assert page.headline.startswith("Use laplace, eps 1.2")
    tiles = dict(page.tiles)
    assert [cell.text for cell in tiles.values()] == [".550", "ε 1.2", ".300", "184"]
    attack, *others = (cell.mark for cell in tiles.values())
    assert (attack, {*others}) == ("warn", {"good"})  # without an interval nobody knows how little it adds
    assert ".600" in tiles["Best attack, AUC"].below, "the guess"
    assert ".030 less" in tiles["Ranking quality, nDCG@10"].below, "of the clicks with the largest loss"
    assert "informational" in tiles["Ranking quality, nDCG@10"].below


def test_a_tile_warns_of_what_is_bad() -> None:
    """Nothing proven, an attack that reads, and more bytes than without a defense."""
    compared = report(
        setting("none"),
        setting("a", 1.2, auc=0.55, utility={"bytes_per_client": 1840.0}, **checked("proven")),
    )
    (none, row) = compared.results
    leaks = row["attacked"][0].with_values(shown="reads")
    row = row.with_values(attacked=[leaks], **{f"eps_proven_{leaks['view']}": math.inf})
    marks = {name: cell.mark for name, cell in _tiles([none, row], [row], leaks["view"])}
    assert [*marks.values()] == ["bad", "warn", "good", "warn"]
    assert dict(_tiles([none, row], [row], "aggregate"))["Best attack, AUC"].text == "-"


def table(page: Page) -> dict[str, list[str]]:
    """The texts of the other cells by defense."""
    (only,) = page.defenses
    return {line.cells[0].text: [cell.text for cell in line.cells[1:]] for line in only.lines}


def test_the_table_without_scripts_is_the_worst_case_of_the_smallest_epsilon() -> None:
    rows = table(usual())
    assert set(rows) == {"none", "laplace"}
    assert rows["laplace"] == [
        *("✔ recommended", "1.2", "∞", ".550", ".600", "−.050", ".900", ".300", "−.030", "184")  # noqa: RUF001
    ]


def test_the_table_has_the_epsilon_of_the_recommended_defense() -> None:
    bad, good = (
        setting("laplace", eps, auc=0.55, ndcg=0.5, **checked("proven", proven=eps), **against(-loss, 0.001))
        for eps, loss in ((0.1, 0.3), (4.5, 0.01))
    )
    page = page_of(report(setting("none", auc=0.99), bad, good))
    assert page.headline == "Use laplace, eps 4.5"
    assert table(page)["laplace"][1] == "4.5"
    (eps,) = (each for each in page.selectors if each.name == "eps")
    assert (eps.options[0], eps.chosen) == (("4.5", "4.5"), "4.5")


def test_not_audited_nothing_proven_and_proven_are_three_things() -> None:
    both = (audit("refuted"), audit("proven", "aggregate", proven=3.0))
    page = page_of(report(setting("a", 1.2, **checked("proven")), setting("b", 1.2, audits=both)))
    cells = {name: row[1:3] for name, row in table(page).items()}
    assert cells == {"a": ["1.2", "-"], "b": ["∞", "3"]}


def test_there_is_a_choice_for_what_rows_differ_in() -> None:
    choices = {each.name: each for each in usual().selectors}
    several = [name for name, each in choices.items() if len(each.options) > 1]
    assert several == ["click_model", "eps", "observer"]
    assert choices["click_model"].options[0][0] == choices["click_model"].chosen == "worst"
    assert [view for view, _ in choices["observer"].options] == [*AUC_OF]


def test_the_first_observer_is_one_that_was_attacked() -> None:
    pool = setting("a", 1.2, **checked("proven"))
    spec = pool.spec.model_copy(update={"attack": AttackSpec(interactions=2)})
    page = page_of(report(replace(pool, spec=spec)))
    assert page.observers == ["individual+lists", "individual"]


def test_of_several_learners_that_of_the_recommended_defense_is_chosen() -> None:
    """Its verdict is not that of the others, and the table says what the headline says."""
    pools = [
        setting(name, eps, auc=auc, learner=learner, **({"audits": ()} if eps is None else checked("proven")))
        for learner, auc in (("x", 0.99), ("y", 0.55))
        for name, eps in (("none", None), ("a", 1.2))
    ]
    page = page_of(report(*pools))
    (learner,) = (each for each in page.selectors if each.name == "learner")
    assert (learner.options[0][0], learner.chosen) == ("worst", "y")
    assert "recommended" in table(page)["a"][0]


def test_attack_and_ceiling_are_of_one_observer() -> None:
    row = next(row for row in usual().rows if row.places["eps"] == "1.2")
    drawn = {view: row.parts[f"attack {view}"].drawn for view in AUC_OF}
    assert {view: (each["auc"][0], each["cap"]) for view, each in drawn.items()} == {
        "individual": (0.55, 0.8), "individual+lists": (0.75, 1.0), "aggregate": (0.53, 0.7),
    }  # fmt: skip
    assert not usual().rows[0].parts["attack aggregate"].drawn


@pytest.mark.parametrize(
    ("shown", "ends", "mark"),
    [
        ("guess", (-0.6, 0.05), "good"),
        ("guess", (-0.6, 0.7), ""),
        ("guess", None, ""),
        ("reads", (0.01, 0.05), "bad"),
    ],
)
def test_only_what_is_shown_to_be_little_is_good(
    shown: str, ends: tuple[float, float] | None, mark: str
) -> None:
    compared = report(setting("none"))
    (row,) = compared.results
    seen = row["attacked"][0].with_values(above_guess=Estimate(0.03, ends), shown=shown)
    page = page_of(replace(compared, results=[row.with_values(attacked=[seen])]))
    (line,) = page.defenses[0].lines
    assert [cell.mark for cell in line.cells if cell.text == "+.030"] == [mark]


def test_the_verdict_is_about_what_the_observer_sees() -> None:
    row = study().results[1].with_values(verdict="holds", verdict_lists="no proof")
    rows = [page_row(row, [], [*AUC_OF])]
    verdicts = {
        view: defense_table(rows, [], view).lines[0].cells[1].text.split(maxsplit=1)[1] for view in AUC_OF
    }
    assert verdicts == {"individual": "holds", "individual+lists": "no proof", "aggregate": "holds"}


def test_what_a_defense_does_is_said_where_it_is_installed() -> None:
    laplace, both, gone = (
        plain_words(study().results[0].with_values(defense=chain))
        for chain in ("laplace:eps=1,sensitivity=2", "clip:norm=1+laplace:eps=1,sensitivity=2", "gone:a=1")
    )
    assert laplace == both
    assert (bool(laplace), gone) == (True, "")


def test_a_row_of_a_folded_table_takes_few_bytes() -> None:
    """A default comparison has 1,700 attacks, and its page shall stay below 400 kB."""
    once, attacks = study(), study().attacks
    often = replace(once, attacks=[*attacks, *attacks])
    sizes = [len(html_page(page_of(compared))) for compared in (once, often)]
    assert 20 < (sizes[1] - sizes[0]) / len(attacks) < 90


def test_odd_values_are_dashes() -> None:
    nothing = setting("a", 1.2, auc=None, ndcg=None, utility={"bytes_per_client": None})
    text = html_page(page_of(report(nothing, setting("none"))))
    assert "None" not in text
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)


def test_without_a_cell_it_says_so() -> None:
    page = page_of(report(cells=cells(3), unfinished=[unfinished(3, 0)]))
    assert page.headline == "No cell is done yet"
    assert Reader(html_page(page)).text.count("0 of 3 cells are done") == 1


def test_long_tables_are_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_ROWS", 2)
    page = page_of(report(setting("a", 1.2)))
    fold = next(fold for fold in page.folds if fold.title == "Every attack")
    assert len(fold.tables[0].lines) == 2
    assert "the first 2; all in results.json" in fold.note


# --- nothing from outside, nothing that users named runs ----------------------------------------------


def test_what_several_tables_have_in_common_is_explained_once() -> None:
    clicks = [setting("laplace", 1.2, auc=0.6, click_model=name) for name in ("perfect", "informational")]
    found = report(*clicks)
    (tables,) = (fold.tables for fold in page_of(found).folds if fold.title == "Every result")
    texts = {table.explained for table in tables}
    assert len(texts) < len(tables)
    words = "\n".join(Reader(html_page(page_of(found))).words)
    assert [words.count(text) for text in texts] == [1] * len(texts)


def test_only_its_own_script_and_style_are_allowed() -> None:
    page = html_page(usual())
    (policy,) = (values["content"] for tag, values in read().tags if "Policy" in values.get("http-equiv", ""))
    assert policy.startswith("default-src 'none';")
    for tag in ("script", "style"):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[-1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert page.count("<script") == 2, "the data and the script"
    assert not {tag for tag, _ in read().tags} & {"iframe", "img", "object", "embed", "base"}
    for _, values in read().tags:
        assert not [name for name in values if name.startswith("on")]
        for name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert values.get(name, "#").startswith(("#", "data:")), values
    assert "@import" not in page
    assert "url(" not in page


def evil() -> Page:
    """A page of names that users choose, each of which would run if it were not escaped."""
    place: dict[str, Any] = {"click_model": EVIL, "scenario": EVIL, "learner": EVIL}
    best = attack(EVIL, 0.7)
    claims = (audit("proven", why=EVIL, canary=EVIL),)
    pools = [
        setting(EVIL, 1.2, attacks=(best,), audits=claims, **warned(EVIL), **place),
        setting("none", served={EVIL: 0.2}, **place),
    ]
    gaps = {"failed": [failed(EVIL)], "left_out": [left_out(EVIL, EVIL, EVIL)]}
    return page_of(report(*pools, unfinished=[unfinished(3, 0, EVIL)], **gaps))


def test_what_users_named_is_shown_and_never_run() -> None:
    page = html_page(evil())
    assert Reader(page).text.count(EVIL) > 5
    assert page.count("<script") == 2
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert "<" not in data[1]
    assert EVIL in json.loads(data[1])["texts"]


# --- colours ----------------------------------------------------------------------------------------


def contrast(one: str, other: str) -> float:
    """How far two colours are apart (WCAG 2.2, "contrast ratio")."""
    shares = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in (one, other)])
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return float((high + 0.05) / (low + 0.05))


def test_words_and_letters_stand_out_in_light_dark_and_print() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    blocks = re.findall(r":root \{(.*?)\}", html_page(usual()), re.DOTALL)
    schemes: list[dict[str, Any]] = [dict(re.findall(r"--([\w-]+): (#\w{6})", text)) for text in blocks]
    assert len(schemes) == 3
    for scheme in schemes:
        for paper in (scheme["paper"], scheme["card"]):
            words = ("ink", "dim", "good", "bad", "warn", *(f"c{number}" for number in range(7)))
            assert min(contrast(scheme[name], paper) for name in words) >= 4.5
