"""Reports in a notebook: short texts, escaped HTML, pictures, frames and files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import foltr_audit as fa
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.errors import UsageError
from foltr_audit.experiments.calibrated_noise import CalibratedNoise
from foltr_audit.report.calibrate import NoiseCalibrationReport
from foltr_audit.report.documents import Document
from foltr_audit.report.notebook import _STYLES, FramedPage, NotebookReport
from foltr_audit.report.settings import warning_row
from tests.fixtures.made_reports import attack_report, judged_lists

SMALL = {"data": {"source": "synthetic:mq2007:30"}, "population": {"clients": 10}, "train": {"rounds": 2}}

KINDS = ("attack", "train", "audit", "compare", "calibrate", "list")


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_is_ten_lines_in_a_cell_and_all_of_it_in_a_frame(kind: str, reports: dict[str, Any]) -> None:
    found = reports[kind]
    lines = repr(found).splitlines()
    assert 3 <= len(lines) <= 10
    assert all(len(line) <= 100 for line in lines)
    assert lines[0].startswith(type(found).__name__)
    assert found.to_frame().height == len(found.rows())
    assert len(found.summary(full=True)) >= len(found.summary()) - 200
    assert all(line == line.rstrip() for line in found.summary(full=True).splitlines())


@pytest.mark.parametrize("kind", KINDS)
def test_completion_offers_what_users_ask_for(kind: str, reports: dict[str, Any]) -> None:
    offered = {name for name in dir(reports[kind]) if not name.startswith("_")}
    assert {"summary", "plot", "to_frame", "to_pandas", "save", "json", "html", "rows"} <= offered
    assert not offered & {
        "FIELDS",
        "SCHEMA",
        "MORE",
        "of",
        "schema",
        "show",
        "short_answer",
        "figure",
        "plain",
    }
    assert vars(reports[kind]).keys() <= offered


@pytest.mark.parametrize("kind", ["attack", "audit"])
def test_a_call_runs_its_own_protocol_of_a_spec_alone(kind: str) -> None:
    protocols = {"attack": {"methods": ["map"]}, "audit": {"trials": 50, "views": ["aggregate"]}}
    found = getattr(fa, kind)(fa.Spec.parse({**SMALL, **protocols}, ""))
    assert set(found.config) & set(protocols) == {kind}
    assert found.results
    assert found._repr_html_()


# --- warnings ---------------------------------------------------------------------------------------

TOLD = [CodedWarning(code, f"<{code}>, nr {number}") for code in ("FA101", "FA103") for number in range(3)]
WARNED = (*KINDS[:-1], "recommend", "check", "membership", "unlearn", "function")


def warned(found: Any, told: list[CodedWarning]) -> Any:
    """The same report with other warnings."""
    if isinstance(found, NoiseCalibrationReport):
        noise = type("", (CalibratedNoise,), {"warnings": told})(**vars(found.noise))
        return replace(found, noise=noise)
    about = {"name": "a", "alternative": "a", "eps": 1.2, "learner": "fpdgd"}
    return replace(found, warnings=[warning_row(warning).with_values(**about) for warning in told])


def every(kind: type[NotebookReport]) -> Iterator[type[NotebookReport]]:
    for each in kind.__subclasses__():
        yield from (each, *every(each))


def test_every_kind_of_report_with_warnings_is_tested(reports: dict[str, Any]) -> None:
    ours = (kind for kind in every(Document) if kind.__module__.startswith("foltr_audit.report."))
    some = {kind for kind in ours if "FIELDS" in vars(kind) and _has_warnings(kind)}
    assert some == {type(reports[kind]) for kind in WARNED}


def _has_warnings(kind: Any) -> bool:
    return any(field.name == "warnings" and "array" in str(field.schema) for field in kind.FIELDS.fields)


@pytest.mark.parametrize("kind", WARNED)
def test_warnings_are_seen(kind: str, reports: dict[str, Any]) -> None:
    """The first of each code in a cell and in the summary; their number in the short text."""
    found = warned(reports[kind], TOLD)
    cell, summary = unescape(found._repr_html_()), " ".join(found.summary().split())
    for shown in (cell, summary):
        assert [code for code in ("FA101", "FA103") if f"<{code}>, nr 0" not in shown] == []
        assert "nr 1" not in shown
        assert "(2 more of FA103)" in shown
    for shown in (cell, summary, repr(found)):
        assert "6 warnings: FA101 FA103 (report.coded_warnings " in shown
    assert len(repr(found).splitlines()) <= 10
    assert len(found.coded_warnings) == 6
    assert "<FA" not in found._repr_html_()
    whole = " ".join(found.summary(full=True).split())
    assert [whole.count(f"<{warning.code}>, nr {n % 3}") for n, warning in enumerate(TOLD)] == [1] * 6


@pytest.mark.parametrize("kind", WARNED)
def test_one_warning_is_told_whole_and_none_not_at_all(kind: str, reports: dict[str, Any]) -> None:
    found = warned(reports[kind], TOLD[:1])
    assert unescape(found._repr_html_()).count("<FA101>, nr 0") == 1
    assert "1 warning: FA101" in repr(found)
    found = warned(reports[kind], [])
    assert not re.search("warning", found._repr_html_() + found.summary() + repr(found))


# --- pictures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "list"])
def test_a_picture_shows_itself(kind: str, reports: dict[str, Any]) -> None:
    figure: Any = reports[kind].plot()
    again: Any = reports[kind].plot()
    text = figure._repr_svg_()
    assert text == again._repr_svg_()
    root = ElementTree.fromstring(text)  # noqa: S314
    width, height = figure.get_size_inches() * 72
    assert root.get("viewBox") == f"0 0 {width:g} {height:g}"
    assert not [each for each in root.iter() if each.tag.endswith(("}script", "}date"))]
    ground = next(each for each in root.iter() if each.tag.endswith("}path"))
    assert "fill: #ffffff" in str(ground.get("style"))  # the ink is dark, the page may be too


def test_a_picture_is_shown_once(reports: dict[str, Any]) -> None:
    """What pyplot knows, the inline back end of a notebook would show a second time."""
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    reports["attack"].plot()
    assert pyplot.get_fignums() == before


def test_a_picture_changes_no_setting_of_matplotlib(reports: dict[str, Any]) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    reports["attack"].plot()
    assert dict(matplotlib.rcParams) == before


def test_texts_of_others_are_escaped() -> None:
    found = attack_report({1.2: judged_lists()})
    rows = tuple(
        row if row["baseline"] else row.with_values(method="<script>alert(1)</script>")
        for row in found.results
    )
    html = replace(found, results=rows)._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def luminance(colour: tuple[float, ...]) -> float:
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def rgb(text: str) -> tuple[float, ...]:
    return tuple(int(text[place : place + 2], 16) / 255 for place in (1, 3, 5))


@pytest.mark.parametrize(
    ("page", "ink"), [("#ffffff", "#000000"), ("#111111", "#dddddd"), ("#1e1e1e", "#d4d4d4")]
)
@pytest.mark.parametrize("mark", [mark for mark in _STYLES if mark != "dim"])
def test_marked_cells_can_be_read_on_any_ground(mark: str, page: str, ink: str) -> None:
    """Also in a dim row; contrast as WCAG 2.2 computes it."""
    opacity = float(_STYLES["dim"].removeprefix("opacity:"))
    own = dict(part.split(":") for part in _STYLES[mark].split(";") if part)
    pair = [rgb(own.get("color", ink)), rgb(own.get("background", page))]
    assert ("color" in own) == ("background" in own)
    for share in (1.0, opacity):
        seen = [[share * a + (1 - share) * b for a, b in zip(one, rgb(page), strict=True)] for one in pair]
        low, high = sorted(luminance(tuple(one)) for one in seen)
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_tables_name_their_rows_and_columns(reports: dict[str, Any]) -> None:
    html = reports["compare"]._repr_html_()
    assert html.count('<th scope="col"') == len(re.findall("<th ", html)) - html.count("<tr") + 1
    assert "<caption>" in html


def test_the_page_of_a_comparison_is_framed_and_saved(reports: dict[str, Any], tmp_path: Path) -> None:
    found = reports["compare"]
    page = found.page()
    frame = re.fullmatch("<iframe ([^>]*) srcdoc='([^']*)'></iframe>.*", page._repr_html_())
    assert frame is not None
    assert 'sandbox="allow-scripts"' in frame[1]
    assert re.search('title="[^"]+"', frame[1])
    assert unescape(frame[2]) == found.html()
    found.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == found.html().rstrip("\n") + "\n"
    assert "<iframe" not in found._repr_html_()


def test_the_script_of_a_framed_page_runs(reports: dict[str, Any]) -> None:
    """Also without the rights of the notebook around it, and the notebook is out of its reach."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium is installed")
    with playwright.sync_playwright() as started:
        page = started.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.set_content(f"<!doctype html><title>notebook</title>{reports['compare'].page()._repr_html_()}")
        frame = page.frames[1]
        frame.wait_for_selector("main svg")  # the chart is drawn by the script
        assert frame.title() in reports["compare"].html()
        assert frame.evaluate("(() => { try { return parent.document.title } catch { return 0 } })()") == 0
        assert errors == []


def test_nothing_ends_the_attribute_of_a_frame() -> None:
    html = FramedPage("<b>'\"", 'it\'s <p title="a">&lt;b&gt;&#39;').__getattribute__("_repr_html_")()
    inside = re.search("srcdoc='([^']*)'", html)
    assert inside is not None
    assert unescape(inside[1]) == 'it\'s <p title="a">&lt;b&gt;&#39;'
    assert "<b>" not in html


@pytest.mark.parametrize("name", ["found.json", "found.csv", "found.txt", "found.html", "found.svg"])
def test_a_report_is_saved_as_its_ending_says(name: str, reports: dict[str, Any], tmp_path: Path) -> None:
    found = reports["attack"]
    found.save(str(tmp_path / name))
    text = (tmp_path / name).read_text()
    if name.endswith(".json"):
        assert json.loads(text)["results"] == json.loads(found.json())["results"]
    elif name.endswith(".csv"):
        assert len(text.splitlines()) == 1 + len(found.rows())
    elif name.endswith(".svg"):
        assert "<svg" in text
    elif name.endswith(".html"):
        assert found.short_answer().conclusion[0] in unescape(text)
        assert "<table>" in text
    else:
        assert text.strip() == found.summary(full=True).strip()


def test_refusals(reports: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a name that ends in .json, .csv"):
        reports["attack"].save(tmp_path / "found.xlsx")
    with pytest.raises(UsageError, match="no such folder"):
        reports["attack"].save(tmp_path / "no" / "found.json")
    with pytest.raises(UsageError, match="has no picture"):
        reports["list"].plot()
