"""The page of a comparison: what it says, that it escapes, and that nothing else runs."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from foltr_audit.experiments.comparison.grid import CellPlan, DefenseLabel
from foltr_audit.report import page as pages
from foltr_audit.report.page import Page, html_page, page_of
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
    spec_of,
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


MADE = (
    "runs = 2\n",
    {"a-b": CellPlan(spec_of("none", "perfect", "uniform"), "attack", DefenseLabel("none"))},
)
"""The grid and the cells of a made-up comparison."""


@cache
def usual() -> Page:
    """Two click models: under the second one, attacks are weaker and ranking is worse."""
    (proof,) = proofs(0.8, runs=1)["proofs"]
    ceilings = [
        proof.model_copy(update={"of": "all rounds", "view": view})
        for view in ("individual", "individual+lists")
    ]
    pools = [
        setting(
            name, eps, auc=auc - weaker, ndcg=ndcg - 2 * weaker, click_model=clicks, proofs=tuple(ceilings),
            **checked("proven", proven=eps or math.inf),
            **({} if eps is None else against(-loss - weaker / 10, 0.9)),
        )
        for clicks, weaker in (("perfect", 0.0), ("informational", 0.1))
        for name, eps, auc, ndcg, loss in (
            ("none", None, 0.99, 0.6, 0.0),
            ("laplace", 1.2, 0.55, 0.5, 0.02),
            ("laplace", 4.5, 0.58, 0.55, 0.01),
        )
    ]  # fmt: skip
    return page_of(report(*pools), *MADE)


@cache
def read() -> Reader:
    return Reader(html_page(usual()))


# --- what it says -----------------------------------------------------------------------------------


def test_it_begins_with_what_to_use_and_its_numbers() -> None:
    page = usual()
    assert page.headline == "Use laplace, eps 1.2"
    values = {name: cell.text for name, cell in page.tiles}
    assert (values["proven ε, server sees message"], values["AUC of the best attack"]) == ("1.2", ".550")
    assert values["difference to no defense"] == "−.030", "of the clicks with the largest loss"  # noqa: RUF001
    assert "informational" in page.notices[0]


def table(page: Page) -> dict[str, dict[str, str]]:
    """The cells of each defense by their headers."""
    (only,) = page.defenses.tables
    heads = [column.header for column in only.columns]
    return {
        line.cells[0].text: {head: cell.text for head, cell in zip(heads, line.cells, strict=True)}
        for line in only.lines
    }


def test_the_table_without_scripts_is_the_worst_case_of_the_smallest_epsilon() -> None:
    rows = table(usual())
    assert set(rows) == {"none", "laplace, eps 1.2"}
    laplace = rows["laplace, eps 1.2"]
    assert laplace["AUC of the best attack"] == ".550"
    assert laplace["nDCG@10"] == ".300"
    assert laplace["difference to no defense"] == "−.030"  # noqa: RUF001


def test_the_table_has_the_epsilon_of_the_recommended_defense() -> None:
    bad, good = (
        setting("laplace", eps, auc=0.55, ndcg=0.5, **checked("proven", proven=eps), **against(-loss, 0.001))
        for eps, loss in ((0.1, 0.3), (4.5, 0.01))
    )
    page = page_of(report(setting("none", auc=0.99), bad, good), *MADE)
    assert page.headline == "Use laplace, eps 4.5"
    assert set(table(page)) == {"none", "laplace, eps 4.5"}
    assert "for 0.1 see Every result" in " ".join(page.defenses.texts)
    assert next(each for each in page.selectors if each.name == "eps").options[0] == ("4.5", "4.5")


def test_not_audited_nothing_proven_and_proven_are_three_things() -> None:
    both = (audit("refuted"), audit("proven", "aggregate", proven=3.0))
    page = page_of(report(setting("a", 1.2, **checked("proven")), setting("b", 1.2, audits=both)), *MADE)
    cells = {name: [*row.values()][2:4] for name, row in table(page).items()}
    assert cells == {"a, eps 1.2": ["1.2", "-"], "b, eps 1.2": ["∞", "3"]}


def test_there_is_a_choice_for_what_rows_differ_in() -> None:
    assert [each.name for each in usual().selectors] == ["click_model", "eps", "observer"]
    assert usual().selectors[0].options[0][0] == "worst"
    assert usual().selectors[2].options[0][0] == "individual+lists", "the observer that was attacked"


def test_the_guess_beside_an_attack_does_not_know_the_grades() -> None:
    row = usual().data["rows"][0]
    assert (row["baseline_auc"], row["guess_by"], row["grades_auc"]) == (0.6, "position-prior", 0.9)


def test_odd_values_are_dashes() -> None:
    nothing = setting("a", 1.2, auc=None, ndcg=None, utility={"bytes_per_client": None})
    text = html_page(page_of(report(nothing, setting("none")), *MADE))
    assert "None" not in text
    assert not re.search(r"\bnan\b", text)


def test_without_a_cell_it_says_so() -> None:
    page = page_of(report(cells=cells(3), unfinished=[unfinished(3, 0)]), *MADE)
    assert page.headline == "No cell is done yet"
    assert Reader(html_page(page)).text.count("0 of 3 cells are done") == 1


def test_headings_are_in_order() -> None:
    levels = [int(tag[1]) for tag, _ in read().tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - level <= 1 for level, later in pairwise(levels))


def test_long_tables_are_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_ROWS", 2)
    page = page_of(report(setting("a", 1.2)), *MADE)
    fold = next(fold for fold in page.folds if fold.title == "Every attack")
    assert len(fold.tables[0].lines) == 2
    assert "the first 2; all in results.json" in fold.note


# --- nothing from outside, nothing that users named runs ----------------------------------------------


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
    return page_of(report(*pools, unfinished=[unfinished(3, 0, EVIL)], **gaps), *MADE)


def test_what_users_named_is_shown_and_never_run() -> None:
    page = html_page(evil())
    assert Reader(page).text.count(EVIL) > 10
    assert page.count("<script") == 2
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert "<" not in data[1]
    assert json.loads(data[1])["rows"][0]["learner"] == EVIL


def test_the_same_results_are_the_same_bytes() -> None:
    assert html_page(evil()) == html_page(evil())


# --- colours ----------------------------------------------------------------------------------------


def contrast(one: str, other: str) -> float:
    """How far two colours are apart (WCAG 2.2, "contrast ratio")."""
    shares = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in (one, other)])
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return float((high + 0.05) / (low + 0.05))


def test_words_and_lines_stand_out_in_light_dark_and_print() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    blocks = re.findall(r":root \{(.*?)\}", html_page(usual()), re.DOTALL)
    schemes: list[dict[str, Any]] = [dict(re.findall(r"--([\w-]+): (#\w{6})", text)) for text in blocks]
    assert len(schemes) == 3
    for scheme in schemes:
        for paper in (scheme["paper"], scheme["card"]):
            words = ("ink", "dim", "good", "bad", "warn")
            assert min(contrast(scheme[name], paper) for name in words) >= 4.5
            assert min(contrast(scheme[f"c{number}"], paper) for number in range(7)) >= 3.0
