"""Cells that fail, disks that are full, folders that somebody meddles with, and workers that die."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.experiments.comparison import runner, workers
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.runner import run_cell, run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.stages import TrainResult, train
from foltr_audit.experiments.store import read_run
from foltr_audit.experiments.versions import cell_name
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.progress import Progress, Tick
from tests.fixtures.cell_grids import begun, run_all, stored, tiny_cells
from tests.fixtures.command import files
from tests.fixtures.there import there

ALONE = Workers(jobs=1)


def deadly(piece: int) -> int:
    """Die over every piece below zero, once others are done."""
    if piece < 0:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    return piece


def test_a_worker_that_dies_ends_the_work_with_one_line_and_the_next_work_has_new_workers() -> None:
    found: list[int] = []
    with pytest.raises(FoltrAuditError, match=r"a worker process died, .*; finished cells are kept"):
        found.extend(Workers(jobs=2).results(deadly, [1, 2, -1, 3]))
    assert set(found) >= {1, 2}
    assert sorted(Workers(jobs=2).results(deadly, [1, 2, 3])) == [1, 2, 3]


def threads(_: int) -> tuple[int, str]:
    """Threads of kernels, and what BLAS is told."""
    import numba

    return numba.get_num_threads(), os.environ["OPENBLAS_NUM_THREADS"]


def test_without_shared_semaphores_this_process_does_the_work() -> None:
    """As where /dev/shm is missing or read-only."""
    program = "from foltr_audit.experiments.comparison.workers import Workers\n"
    program += "print([*Workers(jobs=2).results(abs, [-1, -2])])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "JOBLIB_MULTIPROCESSING": "0"},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[1, 2]\n", "")


def first_only(piece: tuple[str, int]) -> int:
    """The number of a piece: at once of the first one, of the others as soon as a file is there."""
    while piece[1] and not Path(piece[0]).exists():
        time.sleep(0.01)
    return piece[1]


def test_each_worker_has_one_thread() -> None:
    assert set(Workers(jobs=2).results(threads, range(4))) == {(1, "1")}


def test_pieces_are_asked_for_as_workers_get_free(tmp_path: Path) -> None:
    """While both workers have a piece that does not end, only a few more are asked for."""
    asked: list[int] = []

    def pieces() -> Iterator[tuple[str, int]]:
        for number in range(20):
            asked.append(number)
            yield str(tmp_path / "go"), number

    results = Workers(jobs=2).results(first_only, pieces())
    with closing(results):
        assert next(results) == 0
        assert len(asked) <= 1 + 2 + 2  # one is done, two are at work, one waits, and one is next
    assert len(asked) <= 1 + 2 + 2


def test_no_piece_starts_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_on_this_machine", None)
    assert list(Workers(jobs=2).results(threads, [])) == []


def test_a_problem_of_who_asks_ends_the_work_with_that_problem() -> None:
    def pieces() -> Iterator[int]:
        yield 1
        raise UsageError("no such piece")

    with pytest.raises(UsageError, match="no such piece"):
        list(Workers(jobs=2).results(threads, pieces()))


class Noting(Progress):
    """A progress that keeps which calls it got."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @contextmanager
    def task(self, name: str, total: int, interactions: int = 0, /) -> Iterator[Tick]:
        told = self.told

        class Ticker(Tick):
            def __call__(self, metrics: Any = None, /) -> None:
                told.append("done")

            def skip(self, done: int, /) -> None:
                told.extend(["skipped"] * done)

        yield Ticker()


def test_cells_that_cannot_be_run_stop_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells, real = tiny_cells(5), runner.run_cell

    def failing(spec: Spec, study: Runner) -> dict[str, bytes]:
        if spec.repetition == 1:
            raise UsageError("not this one")
        if spec.repetition == 2:
            raise MemoryError
        return real(spec, study)

    monkeypatch.setattr(runner, "run_cell", failing)
    folder, progress = begun(tmp_path / "folder", cells), Noting()
    run_cells([cells[4].spec], folder, ALONE)
    failed = run_cells([cell.spec for cell in cells], folder, ALONE, progress)
    assert [(gap.run, gap.exit_code) for gap in failed] == [(cells[1].spec.hash, 2), (cells[2].spec.hash, 1)]
    assert "not this one" in failed[0].why
    assert "memory" in failed[1].why
    assert progress.told == ["skipped", *["done"] * 4]
    assert len(stored(folder.path)) == 3
    assert folder.failures() == failed
    monkeypatch.setattr(runner, "run_cell", real)
    assert run_cells([cells[2].spec], folder, ALONE) == []
    assert folder.failures() == failed[:1], "what is known of other cells stays"


def test_a_full_disk_is_one_line_and_finished_cells_stay_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, path = tiny_cells(4), tmp_path / "folder"
    folder = begun(path, cells)
    run_cells([cells[0].spec], folder, ALONE)
    calls = iter(range(10))

    def full(_: int) -> None:
        if next(calls) >= 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            FoltrAuditError, match=r"cells/[\w-]+: cannot be written: No space left on device"
        ):
            run_cells([cell.spec for cell in cells], folder, ALONE)
    assert len(stored(path)) == 2
    assert not [name for name in files(path) if name.endswith(".tmp")]
    assert run_all(path, cells, ALONE) == []
    assert run_all(tmp_path / "other", cells, ALONE) == []
    assert files(path) == files(tmp_path / "other")


def test_a_cell_whose_folder_is_deleted_while_it_runs_is_stored_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, path, real = tiny_cells(2), tmp_path / "folder", runner.run_cell

    def meddled(spec: Spec, study: Runner) -> dict[str, bytes]:
        shutil.rmtree(path / "cells" / cell_name(spec))
        return real(spec, study)

    folder = begun(path, cells)
    monkeypatch.setattr(runner, "run_cell", meddled)
    assert run_cells([cell.spec for cell in cells], folder, ALONE) == []
    assert folder.read(cells[1].spec).spec == cells[1].spec


def test_going_on_with_more_or_other_cells_keeps_those_that_are_done(tmp_path: Path) -> None:
    path, cells = tmp_path / "folder", tiny_cells(4)
    assert run_all(path, cells[:2], ALONE) == []
    before = {name: os.stat(path / name).st_mtime_ns for name in files(path) if "cells" in name}
    assert run_all(path, cells, ALONE) == []
    others = tiny_cells(2, seed=9)
    assert run_all(path, others, ALONE) == []
    assert {name: os.stat(path / name).st_mtime_ns for name in before} == before
    assert ComparisonFolder.open(path).cells() == others
    assert len(stored(path)) == 6


def test_a_spec_that_a_power_cut_emptied_is_written_again(tmp_path: Path) -> None:
    path, cells = tmp_path / "folder", tiny_cells(2)
    (begun(path, cells).cell(cells[1].spec) / "spec.toml").write_bytes(b"")
    assert begun(path, cells).cells() == cells


def test_a_comparison_at_work_is_not_overwritten(tmp_path: Path) -> None:
    path, cells = tmp_path / "folder", tiny_cells(2)
    folder = begun(path, cells)
    handle = there(folder.claim(cells[1].spec))
    with pytest.raises(UsageError, match="is being written by another comparison"):
        ComparisonFolder.create(path, resume=False, overwrite=True)
    os.close(handle)
    assert files(ComparisonFolder.create(path, resume=False, overwrite=True).path) == {}


def test_a_stored_cell_is_what_was_run_and_damage_is_found(tmp_path: Path) -> None:
    table = {"data": {"source": "synthetic:mq2007:60"}, "population": {"clients": 5}, "train": {"rounds": 2}}
    attack = {"methods": ["olsr"], "click_models": ["perfect"], "min_documents": 5}
    spec = Spec.parse({**table, "attack": attack})
    study = Runner(with_undefended=False)
    folder = ComparisonFolder.create(tmp_path, resume=False, overwrite=False)
    folder.write(spec, run_cell(spec, study))
    cell, found = study.run(spec), folder.read(spec)
    assert found.utility.ndcg == cell.trained.ndcg
    assert found.query_ndcg.mean() == pytest.approx(cell.trained.ndcg)
    evidence = cell.attacks.evidence["perfect"]
    np.testing.assert_array_equal(there(found.evidence).clicks, evidence.clicks)
    for label, guessed in evidence.guessed.items():
        np.testing.assert_array_equal(there(found.evidence).guessed[label].scores, guessed.scores)
    where = folder.cell(spec)
    packed = bytearray((where / "arrays.npz").read_bytes())
    packed[len(packed) // 2] ^= 1
    (where / "arrays.npz").write_bytes(bytes(packed))
    with pytest.raises(TraceError, match=r"arrays\.npz: damaged"):
        read_run(where, spec)


def test_cells_of_one_training_train_once_and_are_as_if_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"data": {"source": "synthetic:mq2007:60"}, "population": {"clients": 5}, "train": {"rounds": 2}}
    chain = ["clip:norm=1", "gamma-laplace:eps=2,sensitivity=2", "secure-aggregation"]
    attacks = ({"interactions": 2, "methods": ["shown-lists"]}, {"view": "cohort", "methods": ["olsr"]})
    usual = {"click_models": ["perfect"], "min_documents": 5}
    specs = [Spec.parse({**table, "defense": chain, "attack": usual | attack}) for attack in attacks]
    alone = [run_cell(spec, Runner(with_undefended=False)) for spec in specs]
    trained: list[Spec] = []

    def counted(setup: Setup, *given: Any, **options: Any) -> TrainResult:
        trained.append(setup.spec)
        return train(setup, *given, **options)

    monkeypatch.setattr("foltr_audit.experiments.runner.train", counted)
    together = Runner(with_undefended=False)
    assert [run_cell(spec, together) for spec in specs] == alone
    assert len(trained) == 1
