"""A whole comparison: chooses sensitivities on the validation split, then runs every missing cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.expansion import (
    CellPlan,
    GridExpansion,
    Point,
    SensitivityTrial,
)
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.comparison.runner import CellFailure, run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.progress import SILENT, Progress


def refuse_other_data(specs: Sequence[Spec], folder: ComparisonFolder, study: Runner) -> None:
    """Refuse to resume a comparison whose data have changed.

    Raises:
        UsageError: a finished cell has another fingerprint than the data have now.
        TraceError: a cell is damaged.
    """
    first: dict[object, Spec] = {}
    for spec in specs:
        if folder.done(spec):
            first.setdefault((spec.data, spec.seed), spec)
    for spec in first.values():
        then, now = folder.read(spec).facts.data.fingerprint, study.setup(spec).collection.fingerprint
        if then != now:
            raise UsageError(
                f"--resume: {folder.path} holds cells of other data: {spec.data.source} had the fingerprint "
                f"{then[:12]} and has {now[:12]}; expected the same data, or --overwrite"
            )


def compare(
    grid: ComparisonGrid, folder: ComparisonFolder, workers: Workers, progress: Progress = SILENT
) -> list[CellFailure]:
    """Run every cell of a grid that the folder does not hold yet, and return the failures.

    Raises:
        FoltrAuditError: nothing can be run, a training that chooses a sensitivity failed, or the folder
            cannot be written.
    """
    study = Runner(progress, with_undefended=False)
    tried = choose_sensitivities(grid, folder, workers, study, progress)
    expansion = GridExpansion(grid, study, {row.point: row.sensitivity for row in tried if row.chosen})
    cells = expansion.cells()
    specs = [cell.spec for cell in cells]
    refuse_other_data(specs, folder, study)
    folder.save_index(grid, cells, list(expansion.left_out), tried)
    return run_cells(specs, folder, workers, progress)


def plan_cells(grid: ComparisonGrid, study: Runner) -> list[CellPlan]:
    """Every cell that a grid will run; of sensitivities that are still to be chosen, the published ones.

    Raises:
        UsageError: nothing can be run.
    """
    expansion = GridExpansion(grid, study, {})
    return [*expansion.selection(grid.sensitivity_grid), *expansion.cells()]


def choose_sensitivities(
    grid: ComparisonGrid, folder: ComparisonFolder, workers: Workers, study: Runner, progress: Progress
) -> list[SensitivityTrial]:
    """Train the published chain with each Delta of the grid, and mark the best on the validation split.

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    section 4.2, chooses among 1, 3, 5, 7 and 9 for each epsilon.

    Raises:
        UsageError: clients have several intents, so that nothing is held out to choose on.
        FoltrAuditError: a training could not be run.
    """
    if not grid.sensitivity_grid:
        return []
    cells = list(GridExpansion(grid, study, {}).selection(grid.sensitivity_grid))
    _refuse_intents({(cell.spec.data, cell.spec.population): cell.spec for cell in cells}.values(), study)
    failed = run_cells([cell.spec for cell in cells], folder, workers, progress, "choose sensitivity")
    if failed:
        raise failed[0].error
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
    """The sensitivities of finished trainings that choose one, the best of each point marked.

    Raises:
        TraceError: a training is missing or damaged.
    """
    found: dict[tuple[Point, float], list[float]] = {}
    for cell in cells:
        spec, label = cell.spec, cell.label
        point = (spec.train.learner, spec.population.scenario, spec.train.click_model, label.eps or 0.0)
        found.setdefault((point, label.sensitivity or 0.0), []).append(folder.read(spec).facts.validation)
    return _mark_best({key: float(np.mean(values)) for key, values in found.items()})


def _mark_best(found: Mapping[tuple[Point, float], float]) -> list[SensitivityTrial]:
    rows = [
        SensitivityTrial(
            learner=learner,
            scenario=scenario,
            click_model=click_model,
            eps=eps,
            sensitivity=delta,
            ndcg=ndcg,
        )
        for ((learner, scenario, click_model, eps), delta), ndcg in found.items()
    ]
    best: dict[Point, SensitivityTrial] = {}
    for row in sorted(rows, key=lambda row: row.sensitivity):
        if row.point not in best or row.ndcg > best[row.point].ndcg:
            best[row.point] = row
    return [replace(row, chosen=row == best[row.point]) for row in rows]


def worst_failure(failed: Sequence[CellFailure]) -> CellFailure | None:
    """The failure that a command ends with: the first one with the lowest exit code."""
    return min(failed, key=lambda one: one.exit_code, default=None)
