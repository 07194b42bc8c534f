"""Reports in a notebook: short texts, escaped HTML, pictures, frames and files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import foltr_audit as fa
from foltr_audit.errors import UsageError
from tests.fixtures.audits import leave_out_law_tests
from tests.fixtures.comparisons import several
from tests.fixtures.made_reports import attack_report, judged_lists

SMALL = {"data": {"source": "synthetic:mq2007:30"}, "population": {"clients": 10}, "train": {"rounds": 2}}


@pytest.fixture(scope="module")
def reports() -> dict[str, Any]:
    audit = {**SMALL, "audit": {"trials": 50, "views": ["aggregate"]}}
    with pytest.MonkeyPatch.context() as patch:
        leave_out_law_tests(patch)
        audited = fa.audit(audit, defense=fa.published_chain(eps=1.2))
    return {
        "attack": attack_report({1.2: judged_lists()}),
        "train": fa.simulate(fa.Spec(**SMALL)),
        "audit": audited,
        "compare": several(),
        "calibrate": fa.calibrate(1.2, parameters=46),
        "list": fa.list_defenses(),
    }


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


@pytest.mark.parametrize("kind", ["attack", "audit"])
def test_a_call_runs_its_own_protocol_of_a_spec_alone(kind: str) -> None:
    protocols = {"attack": {"methods": ["map"]}, "audit": {"trials": 50, "views": ["aggregate"]}}
    found = getattr(fa, kind)(fa.Spec.parse({**SMALL, **protocols}, ""))
    assert set(found.config) & set(protocols) == {kind}
    assert found.results
    assert found._repr_html_()


def test_a_notebook_is_told_where_python_keeps_the_warnings(reports: dict[str, Any]) -> None:
    assert "(report.warnings shows them; " in reports["audit"]._repr_html_()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "list"])
def test_a_report_has_a_picture(kind: str, reports: dict[str, Any], tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    assert isinstance(reports[kind].plot(), Figure)
    reports[kind].save(tmp_path / "picture.svg")
    assert "<svg" in (tmp_path / "picture.svg").read_text()


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


@pytest.mark.parametrize("name", ["found.json", "found.csv", "found.txt", "found.html"])
def test_a_report_is_saved_as_its_ending_says(name: str, reports: dict[str, Any], tmp_path: Path) -> None:
    found = reports["attack"]
    found.save(str(tmp_path / name))
    text = (tmp_path / name).read_text()
    if name.endswith(".json"):
        assert json.loads(text)["results"] == json.loads(found.json())["results"]
    elif name.endswith(".csv"):
        assert len(text.splitlines()) == 1 + len(found.rows())
    elif name.endswith(".html"):
        assert found._repr_html_() in text
    else:
        assert text.strip() == found.summary(full=True).strip()


def test_refusals(reports: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a name that ends in .json, .csv"):
        reports["attack"].save(tmp_path / "found.xlsx")
    with pytest.raises(UsageError, match="no such folder"):
        reports["attack"].save(tmp_path / "no" / "found.json")
    with pytest.raises(UsageError, match="has no picture"):
        reports["list"].plot()


def test_frames_of_pandas_need_no_pyarrow(reports: dict[str, Any]) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert isinstance(reports["attack"].to_pandas(), pandas.DataFrame)
