"""Results are resumed by the code that made them alone, and a changed plug-in is run again."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError
from foltr_audit.evidence.bundle import BundleContents
from foltr_audit.experiments import versions
from foltr_audit.experiments.comparison import runner
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.runner import run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.versions import OURS, cell_name, code_of
from foltr_audit.utils.code_version import plugin_version
from tests.fixtures.cell_grids import begun, stored, tiny_cells
from tests.fixtures.command import SMALL, Done, files, run
from tests.fixtures.plugin_packages import Installer

ALONE = Workers(jobs=1)
OTHER = "f" * 64
TINY = "--data synthetic:mq2007:60 --clients 6 --rounds 2 --method olsr --defense noisy45.py:Noisy --out out"

NOISY = """
from foltr_audit.plugins import Defense
from foltr_audit.privacy.noise import GammaShare
from scale45 import SCALE

class Noisy(Defense):
    def on_message(self, models, context):
        return models + GammaShare(n=1, scale=SCALE).sample(context.streams("noisy"), models.shape[1])
"""


def other_code(patch: pytest.MonkeyPatch) -> None:
    """Make this process another version of foltr-audit."""
    patch.setattr(versions, "code_version", lambda *_: OTHER)


def times(folder: Path, pattern: str) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.glob(pattern)}


# --- a plug-in that is changed between two runs ----------------------------------------------------


def command(place: Path, *arguments: str) -> Done:
    """A command of a process of its own, in the folder of the plug-in."""
    python = [sys.executable, "-m", "foltr_audit", *arguments]
    done = subprocess.run(python, capture_output=True, text=True, cwd=place, check=False)
    assert done.returncode == 0, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def changed(place: Path, scale: float) -> Path:
    """A folder with the plug-in, whose helper has another scale of noise."""
    place.mkdir(exist_ok=True)
    (place / "noisy45.py").write_text(NOISY)
    (place / "scale45.py").write_text(f"SCALE = {scale}\n")
    return place


def test_a_comparison_of_a_changed_plug_in_runs_its_cells_again_and_no_others(tmp_path: Path) -> None:
    asked = [
        *f"compare {TINY} --runs 1 --jobs 1 --no-audit --click-model perfect".split(),
        "--defense",
        "none",
    ]
    place = changed(tmp_path / "a", 0.001)
    first = command(place, *asked)
    before, cells = times(place / "out", "cells/*/records.jsonl"), stored(place / "out")
    assert len(cells) == 6  # of each defense: messages, lists and sums are attacked
    assert "other code" not in first.err
    same = command(place, *asked, "--resume")
    assert times(place / "out", "cells/*/records.jsonl") == before
    assert (same.out, "other code" in same.err) == (first.out, False)
    changed(place, 50.0)
    again = command(place, *asked, "--resume")
    assert "other code made 3 cells, computed again now" in again.err
    assert times(place / "out", "cells/*/records.jsonl").items() > before.items()
    assert len(stored(place / "out")) == 9
    fresh = command(changed(tmp_path / "b", 50.0), *asked)
    assert again.out == fresh.out != first.out
    assert files(tmp_path / "b" / "out").items() <= files(place / "out").items()
    changed(place, 0.001)
    back = command(place, *asked, "--resume")
    assert (back.out, len(stored(place / "out"))) == (first.out, 9)


def test_runs_of_a_changed_plug_in_begin_anew(tmp_path: Path) -> None:
    asked = f"attack {TINY} --threads 1 --runs 2".split()
    place = changed(tmp_path / "a", 0.001)
    command(place, *asked)
    before = files(place / "out")
    changed(place, 50.0)
    again = command(place, *asked, "--resume")
    assert "other code made 2 Runs, computed again now" in again.err
    command(changed(tmp_path / "b", 50.0), *asked)
    assert files(place / "out") == files(tmp_path / "b" / "out") != before


# --- another version of foltr-audit ---------------------------------------------------------------


def test_other_code_has_cells_of_its_own_and_a_reader_takes_those_that_the_index_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, cells = tmp_path / "folder", tiny_cells(3)
    specs = [cell.spec for cell in cells]
    run_cells(specs, begun(path, cells), ALONE)
    mine = stored(path)
    assert mine == sorted(map(cell_name, specs))
    with monkeypatch.context() as patch:
        other_code(patch)
        listed = ComparisonFolder.open(path)
        assert [listed.cell(spec).name in mine for spec in specs] == [True] * 3
        assert not any(ComparisonFolder(path, resumed=True).done(spec) for spec in specs)
        folder = begun(path, cells)
        with caplog.at_level(logging.WARNING):
            run_cells(specs[:2], folder, ALONE)
        assert caplog.messages == ["other code made 2 cells, computed again now"]
        theirs = set(stored(path)) - set(mine)
        assert [folder.read(spec).record.code for spec in specs[:2]] == [{OURS: OTHER}] * 2
    reader = ComparisonFolder.open(path)
    assert {reader.cell(spec).name for spec in specs[:2]} == theirs
    assert (reader.done(specs[2]), len(stored(path))) == (False, 5), "no table mixes two states of the code"
    caplog.clear()
    assert run_cells(specs, begun(path, cells), ALONE) == []
    assert (caplog.messages, len(stored(path))) == ([], 5)


def test_a_run_that_other_code_began_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        other_code(patch)
        assert run("train", *SMALL, "--out", tmp_path / "run").code == 0
    for name in ("records.jsonl", "results.json", "model.npy"):
        (tmp_path / "run" / name).unlink()
    assert "other code made 1 Run" in run("train", *SMALL, "--out", tmp_path / "run", "--resume").err
    assert run("train", *SMALL, "--out", tmp_path / "whole").code == 0
    assert files(tmp_path / "run") == files(tmp_path / "whole")


def test_a_run_of_another_spec_is_refused_and_stays_whatever_code_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("train", *SMALL, "--out", tmp_path).code == 0
    before = files(tmp_path)
    other_code(monkeypatch)
    assert "seed is 1 there" in run("train", *SMALL, "--seed", "2", "--out", tmp_path, "--resume").one_error()
    assert files(tmp_path) == before


def test_a_worker_of_other_code_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = tiny_cells(1)
    monkeypatch.setattr(runner, "cell_name", lambda _: "another")
    with pytest.raises(FoltrAuditError, match="a worker runs other code"):
        run_cells([cells[0].spec], begun(tmp_path, cells), ALONE)
    assert stored(tmp_path) == []


# --- what counts ----------------------------------------------------------------------------------

THEIRS = """
from typing import ClassVar
from foltr_audit.plugins import Attack, Inference

class Guess(Attack):
    name: ClassVar[str] = "their-guess"
    baseline: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"shown"})
    def infer(self, view, rng):
        return Inference(scores=0.0 * view.shown, guess=view.shown < 0)
"""


def test_the_code_of_a_spec_is_ours_and_that_of_the_plug_ins_it_names(
    tmp_path: Path, install: Installer
) -> None:
    def names(**table: object) -> dict[str, str]:
        return code_of(Spec.parse(table))

    assert list(names()) == [OURS]
    assert names()[OURS] != versions.versions()["code"], "a command changes no number"
    clicks = THEIRS.replace("Guess", "Other").replace("their-guess", "other").replace("True", "False")
    points = {"foltr_audit.attacks": {"their-guess": "their45:Guess", "other": "other45:Other"}}
    install(tmp_path / "site", "their", points, {"their45": THEIRS, "other45": clicks})
    assert list(names()) == [OURS]
    assert names(attack={"methods": ["olsr"]}) == {**names(), "their45": plugin_version("their45")}
    assert list(names(attack={"methods": ["other", "olsr"]})) == [OURS, "other45", "their45"]


def test_hashes_of_a_spec_do_not_depend_on_code(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Spec()
    before, name = spec.hash, cell_name(spec)
    other_code(monkeypatch)
    assert (spec.hash, cell_name(spec) != name) == (before, True)
    assert cell_name(spec)[:13] == name[:13] == f"{spec.hash[:12]}-"


# --- bundles --------------------------------------------------------------------------------------


def test_trainings_beside_the_index_are_packed_if_its_code_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = tiny_cells(3)
    specs = [cell.spec for cell in cells]
    with monkeypatch.context() as patch:
        other_code(patch)
        run_cells(specs, begun(tmp_path, cells[:1]), ALONE)
    run_cells(specs[:2], begun(tmp_path, cells[:1]), ALONE)
    assert len(stored(tmp_path)) == 5
    contents = BundleContents.of(tmp_path, lists=True, trace=False)
    assert sorted(contents.finished) == sorted(f"cells/{cell_name(spec)}/" for spec in specs[:2])
