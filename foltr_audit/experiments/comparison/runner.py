"""Runs the cells of a comparison that are not finished yet, each in one process, and stores them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import NamedTuple

import numpy as np

from foltr_audit.core.plugins.registry import refuse_fleeting
from foltr_audit.core.results import GapRecord, plain_text
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import (
    CellPlan,
    ComparisonGrid,
    GridExpansion,
    Point,
    SensitivityTrial,
)
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Table
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.store import Files, pack_run
from foltr_audit.experiments.versions import cell_name, computed_again
from foltr_audit.utils.array_memo import ArrayMemo, remembering
from foltr_audit.utils.progress import SILENT, Progress, Tick

_LOG = logging.getLogger(__name__)

_MOST_SHARED = 160 << 20
"""Bytes of arrays that a process keeps for its next cells.

An audit plays a thousand clients some hundred times, and draws 125 MiB of noise.
"""
_LOOK_AGAIN = 0.5
"""Seconds between checks of a cell that another process runs."""


class CellRun(NamedTuple):
    """The results of a cell by its number, or why it could not be run, and the seconds that this took.

    Its name says which code the worker has.
    """

    number: int
    found: Files | FoltrAuditError
    seconds: float
    name: str


def failure_error(failed: GapRecord, before: str = "") -> FoltrAuditError:
    """The error to raise for a cell that could not be run."""
    kinds = {kind.exit_code: kind for kind in (FoltrAuditError, UsageError, TraceError)}
    return kinds.get(failed.exit_code, FoltrAuditError)(before + failed.why)


def run_cell(spec: Spec, study: Runner) -> Files:
    """Run one Spec and pack its results."""
    return pack_run(study.run(spec), study.setup(spec))


@cache
def _shared_runner() -> Runner:
    """The runner of this process, whose data the next cell may need too."""
    return Runner(with_undefended=False)


@cache
def _shared_arrays() -> ArrayMemo:
    """The arrays of this process that the next cell may need too."""
    return ArrayMemo(_MOST_SHARED)


def work(piece: tuple[int, Table]) -> CellRun:
    """Run one cell in a worker process."""
    number, table = piece
    start = time.perf_counter()
    found: Files | FoltrAuditError
    name = ""
    try:
        spec = Spec.parse(table, "")
        name = cell_name(spec)
        with remembering(_shared_arrays()):
            found = run_cell(spec, _shared_runner())
    except FoltrAuditError as error:
        found = error
    except MemoryError:
        found = FoltrAuditError("not enough memory; take fewer queries or clients, or fewer --jobs")
    return CellRun(number, found, time.perf_counter() - start, name)


def run_cells(
    specs: Sequence[Spec],
    folder: ComparisonFolder,
    workers: Workers,
    progress: Progress = SILENT,
    name: str = "cells",
) -> list[GapRecord]:
    """Run every cell that is not stored yet; store and return which could not be run.

    Another process may work on the same folder: no cell is run by both, and this one waits for the other.
    """
    if not workers.alone:
        why = "worker processes cannot import it; expected jobs=1, or a class of a module"
        refuse_fleeting([spec.table() for spec in specs], why)
    if stale := folder.of_other_code(specs):
        _LOG.warning(computed_again(stale, "cell"))
    with progress.task(name, len(specs)) as tick:
        return _CellRunner(list(specs), folder, workers, tick).failures()


class _CellRunner:
    def __init__(self, specs: list[Spec], folder: ComparisonFolder, workers: Workers, tick: Tick) -> None:
        self.specs = specs
        self.folder = folder
        self.workers = workers
        self.tick = tick
        self.held: dict[int, int] = {}
        self.elsewhere: list[int] = []
        self.claiming = Lock()
        self.closed = False
        self.failed: list[GapRecord] = []

    def failures(self) -> list[GapRecord]:
        # Audits take longest: with one of them at the end, all other workers would wait. They stay together,
        # since neighbours draw the same noise.
        todo = sorted(range(len(self.specs)), key=lambda number: self.specs[number].audit is None)
        try:
            while todo:
                self.elsewhere = []
                self._run_free_cells(todo)
                todo = self.elsewhere
                if todo:
                    time.sleep(_LOOK_AGAIN)
        finally:
            self.folder.save_failures(self.specs, self.failed)
        return self.failed

    def _run_free_cells(self, todo: Sequence[int]) -> None:
        """One pass over the cells; those that another process holds are left for the next pass."""
        self.closed = False
        missing = [number for number in todo if not self._finished(number)]
        try:
            # An error or Ctrl-C leaves this loop early: closing the iterator kills the local workers at once.
            with closing(self.workers.results(work, self._claim_cells(missing))) as results:
                for ran in results:
                    spec = self.specs[ran.number]
                    if isinstance(ran.found, FoltrAuditError):
                        why, code = plain_text(str(ran.found)), ran.found.exit_code
                        self.failed.append(GapRecord(what="failed", run=spec.hash, why=why, exit_code=code))
                    elif ran.name != self.folder.cell(spec).name:
                        raise FoltrAuditError(
                            "a worker runs other code than this process; start both again, and give --resume"
                        )
                    else:
                        self.folder.write(spec, ran.found)
                        _LOG.info("cell %s: done in %.1f s", spec.hash[:12], ran.seconds)
                    # Only after the cell is stored: a process that gets the lock earlier would run the cell
                    # again.
                    with self.claiming:
                        os.close(self.held.pop(ran.number))
                    self.tick()
        finally:
            self._release_all()

    def _release_all(self) -> None:
        """Release all claims, and take no more: joblib asks for cells in a thread of its own."""
        with self.claiming:
            self.closed = True
            for handle in self.held.values():
                os.close(handle)
            self.held.clear()

    def _finished(self, number: int) -> bool:
        if self.folder.done(self.specs[number]):
            self.tick.skip(1)
            return True
        return False

    def _claim_cells(self, numbers: Sequence[int]) -> Iterator[tuple[int, Table]]:
        """The cells that no other process runs, claimed one by one as workers ask for them."""
        for number in numbers:
            with self.claiming:
                if self.closed:
                    return
                spec = self.specs[number]
                handle = self.folder.claim(spec)
                if handle is None:
                    self.elsewhere.append(number)
                    continue
                if self._finished(number):  # by another process, since the check in `_run_free_cells`
                    os.close(handle)
                    continue
                self.held[number] = handle
            yield number, spec.table()


def refuse_other_data(specs: Sequence[Spec], folder: ComparisonFolder, study: Runner) -> None:
    """Refuse to resume a comparison whose data have changed: a finished cell has another fingerprint."""
    first: dict[object, Spec] = {}
    for spec in specs:
        if folder.done(spec):
            first.setdefault((spec.data, spec.seed), spec)
    for spec in first.values():
        then, now = folder.read(spec).data.fingerprint, study.setup(spec).collection.fingerprint
        if then != now:
            raise UsageError(
                f"--resume: {folder.path} holds cells of other data: {spec.data.source} had the fingerprint "
                f"{then[:12]} and has {now[:12]}; expected the same data, or --overwrite"
            )


def compare(
    grid: ComparisonGrid, folder: ComparisonFolder, workers: Workers, progress: Progress = SILENT
) -> list[GapRecord]:
    """Run every cell of a grid that the folder does not hold yet, and return the failures."""
    study = Runner(progress, with_undefended=False)
    tried = choose_sensitivities(grid, folder, workers, study, progress)
    expansion = GridExpansion(grid, study, {row.point: row.sensitivity for row in tried if row.chosen})
    cells = expansion.cells()
    specs = [cell.spec for cell in cells]
    refuse_other_data(specs, folder, study)
    folder.save_index(grid, cells, list(expansion.left_out), tried)
    return run_cells(specs, folder, workers, progress)


def plan_cells(grid: ComparisonGrid, study: Runner) -> list[CellPlan]:
    """Every cell that a grid will run; of sensitivities that are still to be chosen, the published ones."""
    expansion = GridExpansion(grid, study, {})
    return [*expansion.selection(grid.sensitivity_grid), *expansion.cells()]


def choose_sensitivities(
    grid: ComparisonGrid, folder: ComparisonFolder, workers: Workers, study: Runner, progress: Progress
) -> list[SensitivityTrial]:
    """Train the published chain with each Delta of the grid, and mark the best on the validation split.

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank", section
    4.2, chooses among 1, 3, 5, 7 and 9 for each epsilon.
    """
    if not grid.sensitivity_grid:
        return []
    cells = list(GridExpansion(grid, study, {}).selection(grid.sensitivity_grid))
    _refuse_intents({(cell.spec.data, cell.spec.population): cell.spec for cell in cells}.values(), study)
    failed = run_cells([cell.spec for cell in cells], folder, workers, progress, "choose sensitivity")
    if failed:
        raise failure_error(failed[0])
    return read_trials(folder, cells)


def _refuse_intents(specs: Iterable[Spec], study: Runner) -> None:
    for spec in specs:
        intents = study.setup(spec).clients.intents
        if intents > 1:
            raise UsageError(
                f"--sensitivity-grid: {spec.data.source}, scenario {spec.population.scenario}: clients have "
                f"{intents} intents, which are judged on the training split; expected one intent, since "
                "nothing is held out to choose on"
            )


def read_trials(folder: ComparisonFolder, cells: Sequence[CellPlan]) -> list[SensitivityTrial]:
    """The sensitivities of finished trainings that choose one, the best of each point marked."""
    found: dict[tuple[Point, float], list[float | None]] = {}
    for cell in cells:
        spec, label = cell.spec, cell.label
        point = (spec.train.learner, spec.population.scenario, spec.train.click_model, label.eps or 0.0)
        found.setdefault((point, label.sensitivity or 0.0), []).append(folder.read(spec).utility.validation)
    return _mark_best(
        {key: float(np.mean(np.array(values, dtype=np.float64))) for key, values in found.items()}
    )


def _mark_best(found: Mapping[tuple[Point, float], float]) -> list[SensitivityTrial]:
    rows = [
        SensitivityTrial(
            learner=learner, scenario=scenario, click_model=click_model, eps=eps, sensitivity=delta, ndcg=ndcg
        )
        for ((learner, scenario, click_model, eps), delta), ndcg in found.items()
    ]
    best: dict[Point, SensitivityTrial] = {}
    for row in sorted(rows, key=lambda row: row.sensitivity):
        if row.point not in best or row.ndcg > best[row.point].ndcg:
            best[row.point] = row
    return [replace(row, chosen=row == best[row.point]) for row in rows]


def worst_failure(failed: Sequence[GapRecord]) -> GapRecord | None:
    """The failure that a command ends with: the first one with the lowest exit code."""
    return min(failed, key=lambda one: one.exit_code, default=None)
