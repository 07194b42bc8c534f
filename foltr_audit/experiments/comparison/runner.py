"""Runs the cells of a comparison that are not finished yet, each in one process, and stores them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
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
from foltr_audit.utils.plugin_failures import names_plugins
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


@names_plugins  # here, since a traceback stays in its process
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
    # Audits take longest: with one of them at the end, all other workers would wait. They stay together,
    # since neighbours draw the same noise. So do cells of one training, which is not repeated.
    first: dict[Spec, int] = {}
    places = [first.setdefault(spec.only_trained, number) for number, spec in enumerate(specs)]
    todo = sorted(range(len(specs)), key=lambda number: (specs[number].audit is None, places[number]))
    failed: list[GapRecord] = []
    with progress.task(name, len(specs)) as tick:
        try:
            while todo:
                missing = [number for number in todo if not folder.done(specs[number])]
                tick.skip(len(todo) - len(missing))
                claims = _Claims(specs, folder, tick)
                # An error or Ctrl-C closes the results, which kills the local workers at once.
                with closing(claims), closing(workers.results(work, claims.cells(missing))) as results:
                    for ran in results:
                        failed += _store(ran, specs[ran.number], folder)
                        # Only now: a process that gets the lock earlier would run the cell again.
                        claims.release(ran.number)
                        tick()
                todo = claims.elsewhere
                if todo:
                    time.sleep(_LOOK_AGAIN)
        finally:
            folder.save_failures(specs, failed)
    return failed


def _store(ran: CellRun, spec: Spec, folder: ComparisonFolder) -> list[GapRecord]:
    """Store the results of a cell, or say why it could not be run."""
    if isinstance(ran.found, FoltrAuditError):
        why, code = plain_text(str(ran.found)), ran.found.exit_code
        return [GapRecord(what="failed", run=spec.hash, why=why, exit_code=code)]
    if ran.name != folder.cell(spec).name:
        raise FoltrAuditError(
            "a worker runs other code than this process; start both again, and give --resume"
        )
    folder.write(spec, ran.found)
    _LOG.info("cell %s: done in %.1f s", spec.hash[:12], ran.seconds)
    return []


class _Claims:
    """The cells that this process has locked; those that another process has are `elsewhere`."""

    def __init__(self, specs: Sequence[Spec], folder: ComparisonFolder, tick: Tick) -> None:
        self.specs = specs
        self.folder = folder
        self.tick = tick
        self.elsewhere: list[int] = []
        self._held: dict[int, int] = {}
        self._claiming = Lock()  # joblib asks for cells in a thread of its own
        self._closed = False

    def cells(self, numbers: Sequence[int]) -> Iterator[tuple[int, Table]]:
        """The cells that nobody runs, locked one by one as workers ask for them."""
        for number in numbers:
            spec = self.specs[number]
            with self._claiming:
                if self._closed:
                    return
                handle = self.folder.claim(spec)
                if handle is None:
                    self.elsewhere.append(number)
                    continue
                if self.folder.done(spec):  # by another process, since `run_cells` looked
                    os.close(handle)
                    self.tick.skip(1)
                    continue
                self._held[number] = handle
            yield number, spec.table()

    def release(self, number: int) -> None:
        with self._claiming:
            os.close(self._held.pop(number))

    def close(self) -> None:
        """Release all cells, and take no more."""
        with self._claiming:
            self._closed = True
            for handle in self._held.values():
                os.close(handle)
            self._held.clear()


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
    for spec in {(cell.spec.data, cell.spec.population): cell.spec for cell in cells}.values():
        intents = study.setup(spec).clients.intents
        if intents > 1:
            raise UsageError(
                f"--sensitivity-grid: {spec.data.source}, scenario {spec.population.scenario}: clients have "
                f"{intents} intents, which are judged on the training split; expected one intent, since "
                "nothing is held out to choose on"
            )
    failed = run_cells([cell.spec for cell in cells], folder, workers, progress, "choose sensitivity")
    if failed:
        raise failure_error(failed[0])
    found: dict[tuple[str, str, str, float, float], list[float | None]] = {}
    for cell in cells:
        spec, eps, delta = cell.spec, cell.label.eps or 0.0, cell.label.sensitivity or 0.0
        key = (spec.train.learner, spec.population.scenario, spec.train.click_model, eps, delta)
        found.setdefault(key, []).append(folder.read(spec).utility.validation)
    rows = [
        SensitivityTrial(*key, float(np.mean(np.array(values, dtype=np.float64))))
        for key, values in found.items()
    ]
    best: dict[Point, SensitivityTrial] = {}
    for row in sorted(rows, key=lambda row: row.sensitivity):
        if row.point not in best or row.ndcg > best[row.point].ndcg:
            best[row.point] = row
    return [replace(row, chosen=row == best[row.point]) for row in rows]


def worst_failure(failed: Sequence[GapRecord]) -> GapRecord | None:
    """The failure that a command ends with: the first one with the lowest exit code."""
    return min(failed, key=lambda one: one.exit_code, default=None)
