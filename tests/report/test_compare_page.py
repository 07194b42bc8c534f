"""A comparison as HTML, Markdown and CSV: complete, escaped, self-contained, the same bytes again."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from foltr_audit.experiments.comparison.grid import GridExclusion
from foltr_audit.report.render import compare_document
from foltr_audit.report.render.compare_document import PACKAGES, document, versions
from foltr_audit.report.render.csv import csv_text, every_column
from foltr_audit.report.render.document import html_page, markdown
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import ServedRow
from tests.fixtures.comparisons import checked, provenance, report, setting, several, warning

EVIL = "<script>alert(1)</script>|`*&\"'"

EMPTY_TAGS = {"meta", "link", "br"}


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
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(found: CompareReport) -> str:
    return html_page(document(found, provenance()))


@cache
def page() -> str:
    return page_of(several())


@cache
def read() -> Reader:
    return Reader(page())


# --- what is in it ----------------------------------------------------------------------------------


def test_it_has_every_section_and_its_links_go_there() -> None:
    titles = {"In short", "At a glance", "Privacy against utility", "What epsilon buys", "Attack ladder"}
    titles |= {"Learning curves", "Claims", "All results", "Warnings and gaps", "How it was made"}
    links = [values["href"] for tag, values in read().tags if tag == "a"]
    anchors = [values["id"] for tag, values in read().tags if tag == "section"]
    assert links == [f"#{anchor}" for anchor in anchors]
    assert titles <= set(read().words)
    assert "Groups of clients" not in read().words  # they do not differ


def test_headings_are_in_order() -> None:
    levels = [int(tag[1]) for tag, _ in read().tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - level <= 1 for level, later in pairwise(levels))


def test_pictures_and_tables_have_names() -> None:
    names = [values["id"] for tag, values in read().tags if "id" in values]
    assert len(set(names)) == len(names)
    pictures = [values for tag, values in read().tags if tag == "svg"]
    assert len(pictures) >= 6
    assert all(values["role"] == "img" and values["aria-labelledby"] in names for values in pictures)
    tables = [tag for tag, _ in read().tags].count("table")
    assert [tag for tag, _ in read().tags].count("caption") == tables
    boxes = [values for tag, values in read().tags if values.get("class") == "box"]
    assert len(boxes) == tables
    assert all(values["tabindex"] == "0" and values["aria-label"] for values in boxes)


def test_versions_are_those_of_what_is_installed() -> None:
    found = versions()
    assert {"Python", *PACKAGES} == set(found)
    assert found["numpy"] == np.__version__


def test_large_comparisons_have_fewer_pictures_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_document, "MOST_DRAWN", 10_000)
    monkeypatch.setattr(compare_document, "MOST_ATTACKS", 5)
    monkeypatch.setattr(compare_document, "MOST_CELLS", 0)
    found = report(setting("none", auc=0.9), setting("none", auc=0.9, click_model="informational"))
    reader = Reader(page_of(found))
    assert [tag for tag, _ in reader.tags].count("svg") == 1
    told = ["1 of 2 are drawn", "2 pictures are left out", "see --to json"]
    told += ["The other cells (1) are run in the same way"]
    assert [words for words in told if words not in reader.text] == []


def test_odd_values_are_dashes() -> None:
    nothing = [setting("a", auc=None, ndcg=None, bytes_per_client=None), setting("b", auc=math.nan)]
    text = Reader(page_of(report(*nothing, setting("c", ndcg=math.nan)))).text
    assert "None" not in text
    assert "nan" not in re.sub("[a-z]nan|nan[a-z]", "", text)


# --- nothing from outside, nothing that runs ----------------------------------------------------------


def test_it_needs_no_network_and_no_script() -> None:
    tags = read().tags
    assert not {tag for tag, _ in tags} & {"script", "iframe", "img", "object", "embed", "base", "form"}
    for _, values in tags:
        assert not [name for name in values if name.startswith("on")]
        for name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert values.get(name, "#").startswith(("#", "data:")), values
    assert set(re.findall(r"url\((.)", page())) <= {"#"}
    assert "@import" not in page()
    assert "/work" not in page()


def evil() -> CompareReport:
    place: dict[str, Any] = {"click_model": EVIL, "scenario": EVIL, "data": EVIL, "learner": EVIL}
    found = report(
        setting(EVIL, **place, **checked(EVIL), worst_served_group=EVIL, worst_served_online=0.1, groups=1),
        setting("none", **place),
        warnings=[warning(EVIL, EVIL)],
        left_out=[GridExclusion(defense=EVIL, learner=EVIL, why=EVIL)],
    )
    assert found.dataset is not None
    fold = replace(found.dataset.folds[0], fingerprint=EVIL)
    return replace(
        found,
        attacks=[replace(row, method=EVIL) if row.method == "map:guess=x" else row for row in found.attacks],
        results=[replace(row, attack=EVIL) for row in found.results],
        served=[ServedRow(setting=found.results[0].setting, group=EVIL, online_mean=0.1)],
        dataset=replace(found.dataset, source=EVIL, folds=(fold,)),
    )


def test_what_users_named_is_shown_and_never_run() -> None:
    reader = Reader(page_of(evil()))
    assert "script" not in {tag for tag, _ in reader.tags}
    assert reader.text.count(EVIL) > 10
    assert any(EVIL in values.get("aria-label", "") for _, values in reader.tags)


def test_markdown_shows_it_as_text_too() -> None:
    text = markdown(document(evil(), provenance(), pictures=False))
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\|\\`\\*&amp;" in text


# --- other forms --------------------------------------------------------------------------------------


def test_csv_has_one_line_per_row_and_two_columns_per_interval() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(every_column(several().rows())))))
    names = [row["name"] for row in rows]
    assert names == ["none", "published, eps 1.2", "laplace, eps 1.2", "skellam, eps 1.2"]
    ends = [float(rows[2][f"auc_ci95_{end}"]) for end in ("low", "high")]
    assert tuple(ends) == several().results[2].auc.ci95
    assert (rows[0]["eps_claimed"], rows[0]["eps"], rows[1]["verdict_individual"]) == ("inf", "", "refuted")
    assert rows[0]["verdict_individual"] == rows[0]["ndcg@10_difference_ci95_low"] == ""
    assert [row["pareto"] for row in rows] == ["True", "False", "True", "True"]
    assert not [name for name in rows[0] if name.endswith("_ci95")]
    odd = csv_text(every_column([{"a": math.nan, "b": 'x,"y"\nz', "c_ci95": None}]))
    head, line = csv.reader(io.StringIO(odd))
    assert (head, line) == (["a", "b", "c_ci95_low", "c_ci95_high"], ["", 'x,"y"\nz', "", ""])


@pytest.mark.parametrize("text", ["=1+1", "+1", "-a", "@sum(a)", "\t=1", "\r=1"])
def test_no_text_is_a_formula_to_a_spreadsheet(text: str) -> None:
    row = {"text": text, "names": [text, "b"], "number": -1.5, "infinite": -math.inf, "later": "a=1"}
    (found,) = csv.DictReader(io.StringIO(csv_text(every_column([row])), newline=""))
    safe = "'" + text.replace("\r", "\n")
    assert list(found.values()) == [safe, f"{safe}; b", "-1.5", "-inf", "a=1"]


def test_the_same_results_are_the_same_bytes() -> None:
    assert page_of(several()) == page()


def contrast(one: str, other: str) -> float:
    """How far two colours are apart (WCAG 2.2, "contrast ratio")."""
    shares = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in (one, other)])
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return float((high + 0.05) / (low + 0.05))


def test_words_and_lines_stand_out_in_light_dark_and_print() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    blocks = re.findall(r":root \{(.*?)\}", page(), re.DOTALL)
    schemes = [dict(re.findall(r"--([\w-]+): (#\w{6})", text)) for text in blocks]
    assert len(schemes) == 3
    for scheme in schemes:
        for paper in (scheme["paper"], scheme["card"]):
            assert min(contrast(scheme[name], paper) for name in ("ink", "dim", "link")) >= 4.5
            assert min(contrast(scheme[f"c{number}"], paper) for number in range(1, 8)) >= 3.0
        assert min(contrast(scheme[name], scheme[f"{name}-paper"]) for name in ("good", "bad")) >= 4.5
