"""`foltr-audit report` on a small stored comparison, finished and not."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from foltr_audit.core.results import GapRecord
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.runs.folder import RECORDS
from tests.fixtures.bundles import GRID, write_comparison
from tests.fixtures.command import answer, run

TABLE = {**GRID, "runs": 2}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished comparison."""
    path = tmp_path_factory.mktemp("comparison") / "c"
    write_comparison(path, TABLE)
    return path


@pytest.fixture
def cut(stored: Path, tmp_path: Path) -> Path:
    """The same, but one run of the published defense is not done."""
    path = tmp_path / "cut"
    shutil.copytree(stored, path)
    folder = ComparisonFolder.open(path)
    last = next(cell for cell in folder.cells()[::-1] if cell.label.alternative == "published")
    (folder.cell(last.spec) / RECORDS).unlink()
    return path


def test_every_form_tells_the_same(stored: Path, tmp_path: Path) -> None:
    done = run("report", stored, "--to", "json")
    assert (done.code, done.err) == (0, "")
    found = done.json()
    assert found["unfinished"] == []
    auc = found["results"][1]["auc"]
    rows = list(csv.DictReader(io.StringIO(run("report", stored, "--to", "csv").out)))
    assert [float(row["auc"]) for row in rows] == [row["auc"] for row in found["results"]]
    shown = f"{auc:.3f}".removeprefix("0")
    assert f"| {shown} " in run("report", stored, "--to", "md").out
    page = tmp_path / "page.html"
    done = run("report", stored, "--out", page)
    assert (done.code, done.out, done.err) == (0, "", f"wrote {page}\n")
    assert f">{shown} <small>" in page.read_text()


def test_commands_in_the_report_repeat_a_cell(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stored)
    lines = run("report", ".", "--to", "md").out.splitlines()
    line = next(line for line in lines if "foltr-audit attack" in line)
    command = line.replace("\\", "").split("foltr-audit ")[1].removesuffix(" |").split()
    attacks = {row["method"]: row["auc"] for row in answer(*command)["results"]}
    assert 0.5 < attacks["olsr"] <= 1.0
    assert ComparisonGrid.from_toml(Path("grid.toml").read_text(), "grid.toml") == ComparisonGrid.parse(TABLE)


def test_an_unfinished_comparison_tells_what_is_done(cut: Path) -> None:
    done = run("report", cut, "--to", "json")
    assert done.code == 0
    assert done.err == "unfinished: 3 of 4 cells are done; compare --resume runs the rest\n"
    found = done.json()
    assert [row["runs"] for row in found["results"]] == [2, 1]
    (waiting,) = found["unfinished"]
    assert (waiting["name"], waiting["done"], waiting["cells"]) == ("published, eps 1.2", 1, 2)
    text = run("report", cut, "--to", "md").out
    assert "3 of 4 cells are done" in text
    assert "published, eps 1.2 (1 of 2 runs)" in text


def test_why_a_cell_failed_is_known_from_the_last_run(cut: Path) -> None:
    folder = ComparisonFolder.open(cut)
    specs = [cell.spec for cell in folder.cells()]
    gaps = [
        GapRecord(what="failed", run=spec.hash, why=f"reason {number}") for number, spec in enumerate(specs)
    ]
    folder.save_failures(specs, gaps)
    (missing,) = [number for number, spec in enumerate(specs) if not folder.done(spec)]
    failed = run("report", cut, "--to", "json").json()["failed"]
    assert [row["why"] for row in failed] == [f"reason {missing}"]
    folder.save_failures(specs[missing:], [])
    assert run("report", cut, "--to", "json").json()["failed"] == []


def test_a_comparison_of_which_nothing_is_done(cut: Path) -> None:
    for records in cut.glob(f"cells/*/{RECORDS}"):
        records.unlink()
    for form in ("html", "md", "json", "csv"):
        done = run("report", cut, "--to", form)
        assert done.code == 0
        assert "0 of 4 cells" in done.err
    assert run("report", cut, "--to", "csv").out == "\n"


def test_damage_is_told_and_not_reported(cut: Path) -> None:
    next(cut.glob(f"cells/*/{RECORDS}")).write_text("{}")
    done = run("report", cut)
    assert done.code == 3
    assert "made by another version" in done.err
    (cut / "comparison.json").write_text("[]")
    assert run("report", cut).code == 3


@pytest.mark.parametrize(
    ("name", "start"),
    [("x.md", "#"), ("x.markdown", "#"), ("x.csv", "data,"), ("x.JSON", "{"), ("x.htm", "<!"), ("x", "<!")],
)
def test_the_form_is_as_the_name_ends(name: str, start: str, stored: Path, tmp_path: Path) -> None:
    assert run("report", stored, "--out", tmp_path / name).code == 0
    assert (tmp_path / name).read_text().startswith(start)


def test_refusals(stored: Path, tmp_path: Path) -> None:
    there = tmp_path / "there.html"
    there.write_text("mine")
    for arguments, words in (
        (["--out", there], "--overwrite"),
        (["--out", tmp_path], "is a folder"),
        (["--out", tmp_path / "no" / "x.html"], "no such folder"),
        (["--overwrite"], "only with --out"),
        (["--to", "pdf"], "pdf"),
        (["--to", "md", "--out", tmp_path / "x.html"], "has the ending of html; expected that of --to md"),
    ):
        done = run("report", stored, *arguments)
        assert (done.code, done.out) == (2, "")
        assert words in done.err
    assert there.read_text() == "mine"
    page = tmp_path / "page.json"
    assert run("report", stored, "--to", "json", "--out", page, "--overwrite").code == 0
    assert json.loads(page.read_text())["results"]
    assert run("report", tmp_path / "nothing").code == 2
    assert "no comparison" in run("report", tmp_path).one_error()
