"""`foltr-audit report` on a small stored comparison, finished and not."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from foltr_audit.core.results import GapRecord
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.runs.folder import RECORDS
from foltr_audit.report.compare import CompareReport
from tests.fixtures.bundles import GRID, content, write_comparison
from tests.fixtures.command import answer, files, run

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
    (last,) = [
        c.spec for c in folder.cells() if c.label.alternative == "published" and c.spec.repetition == 1
    ]
    (folder.cell(last) / RECORDS).unlink()
    return path


def of_done(path: Path) -> CompareReport:
    """The report on the cells that are done."""
    return CompareReport.of(ComparisonFolder.open(path), partial=True)


def cells_of(path: Path) -> int:
    return len(ComparisonFolder.open(path).cells())


def test_the_page_tells_what_the_results_tell(cut: Path) -> None:
    page = cut / "report.html"
    page.write_text("that of an earlier call")
    done = run("report", cut)
    assert (done.code, done.out, done.err.splitlines()[-1]) == (0, "", f"wrote {page}")
    (found,) = (row["auc"] for row in of_done(cut).rows() if row["name"] == "none")
    shown = f"{found:.3f}".removeprefix("0")
    assert f">{shown} <small>" in page.read_text()
    assert run("report", cut, "--out", "-").out == page.read_text()


def test_the_page_is_a_part_of_the_folder_that_nothing_reads(stored: Path, tmp_path: Path) -> None:
    study, before = tmp_path / "study", files(stored)
    shutil.copytree(stored, study)
    (study / "report.html").write_bytes(b"\xff no page")
    assert run("report", study, "--out", tmp_path / "page.html").code == 0
    assert (tmp_path / "page.html").read_text() == run("report", stored, "--out", "-").out
    assert run("report", study, "--zip", tmp_path / "packed.zip").code == 0
    assert "report.html" not in content(tmp_path / "packed.zip")
    assert run("compare --resume --jobs 1 --out", study).code == 0
    assert files(study) == before | {"report.html": b"\xff no page"}
    assert run("compare --overwrite --jobs 1 --config", stored / "grid.toml", "--out", study).code == 0
    assert files(study) == before
    (study / "mine.html").touch()
    assert "holds 'mine.html'" in run("compare --resume --out", study).one_error()


def test_commands_in_the_report_repeat_a_cell(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stored)
    commands = re.findall(r'"foltr-audit (attack [^"]*)"', run("report", ".", "--out", "-").out)
    attacks = {row["method"]: row["auc"] for row in answer(commands[0])["results"]}
    assert 0.5 < attacks["olsr"] <= 1.0
    assert ComparisonGrid.from_toml(Path("grid.toml").read_text(), "grid.toml") == ComparisonGrid.parse(TABLE)


def test_an_unfinished_comparison_tells_what_is_done(cut: Path) -> None:
    done = run("report", cut, "--out", "-")
    assert done.code == 0
    asked = cells_of(cut)
    assert done.err == f"unfinished: {asked - 1} of {asked} cells are done; compare --resume runs the rest\n"
    assert f"{asked - 1} of {asked} cells are done" in done.out
    assert "published, eps 1.2 (1 of 2 runs)" in done.out
    found = of_done(cut)
    assert [row["runs"] for row in found.rows()] == [2, 1]
    (waiting,) = found.unfinished
    assert (waiting["name"], waiting["done"], waiting["cells"]) == ("published, eps 1.2", 1, 2)


def test_why_a_cell_failed_is_known_from_the_last_run(cut: Path) -> None:
    folder = ComparisonFolder.open(cut)
    specs = [cell.spec for cell in folder.cells()]
    gaps = [
        GapRecord(what="failed", run=spec.hash, why=f"reason {number}") for number, spec in enumerate(specs)
    ]
    folder.save_failures(specs, gaps)
    (missing,) = [number for number, spec in enumerate(specs) if not folder.done(spec)]
    assert [row["why"] for row in of_done(cut).failed] == [f"reason {missing}"]
    folder.save_failures(specs[missing:], [])
    assert of_done(cut).failed == []


def test_a_comparison_of_which_nothing_is_done(cut: Path) -> None:
    for records in cut.glob(f"cells/*/{RECORDS}"):
        records.unlink()
    done = run("report", cut)
    assert done.code == 0
    assert f"0 of {cells_of(cut)} cells" in done.err
    assert f"0 of {cells_of(cut)} cells" in (cut / "report.html").read_text()
    of_done(cut).save(cut.parent / "none.csv")
    assert (cut.parent / "none.csv").read_text() == "\n"


def test_a_folder_that_cannot_be_written(cut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)  # of root it would be true
    assert f"{cut}: cannot be written; --out" in run("report", cut).one_error()
    assert not (cut / "report.html").exists()
    assert run("report", cut, "--out", cut.parent / "page.html").code == 0
