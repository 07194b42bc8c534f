"""Cells that confirm a chosen candidate: an audit, and new repetitions on the test split next to no defense.

None of their results is used for the choice.
"""

from __future__ import annotations

from foltr_audit.core.settings.attack import AttackSpec, changed_protocol
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.expansion import CellPlan, GridExpansion
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.comparison.runner import CellFailure, run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.recommend.limits import PrivacyLimits
from foltr_audit.experiments.recommend.space import CandidatePoint
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.progress import SILENT, Progress

TEST = "test"


def confirm(
    base: Spec,
    point: CandidatePoint,
    limits: PrivacyLimits,
    study: Runner,
    folder: ComparisonFolder,
    workers: Workers,
    *,
    first_run: int,
    runs: int,
    trials: int,
    progress: Progress = SILENT,
) -> list[CellFailure]:
    """Run a candidate and no defense again, and audit the candidate; the folder's index lists these cells.

    Args:
        base: the experiment without a defense, with its attack protocol.
        point: the candidate.
        limits: whose view and delta are audited.
        study: with the data of the experiment.
        folder: where cells are stored.
        workers: who runs them.
        first_run: the first repetition that the search did not use.
        runs: repetitions.
        trials: of the audit, under each hypothesis.
        progress: shows every cell.

    Raises:
        FoltrAuditError: the folder cannot be written, or a worker died.
    """
    grid = confirmation_grid(base, point, limits, runs=runs, trials=trials)
    cells = [
        _fresh(cell, limits, first_run)
        for cell in GridExpansion(grid, study, {}).cells()
        if cell.kind == "attack" or cell.label.alternative == point.alternative
    ]
    folder.save_index(grid, cells, [])
    return run_cells([cell.spec for cell in cells], folder, workers, progress, "confirm")


def _fresh(cell: CellPlan, limits: PrivacyLimits, first_run: int) -> CellPlan:
    """A cell in a new repetition; without attacks where the observer sees no single message."""
    update: dict[str, object] = {"repetition": first_run + cell.spec.repetition}
    if cell.kind == "attack" and not limits.single:
        update["attack"] = None
    return cell._replace(spec=cell.spec.model_copy(update=update))


def confirmation_grid(
    base: Spec, point: CandidatePoint, limits: PrivacyLimits, *, runs: int, trials: int
) -> ComparisonGrid:
    """The grid of one candidate and no defense, on the test split."""
    attack = changed_protocol(base.attack or AttackSpec(), {"on": (TEST,)})
    audit = AuditSpec(trials=trials, views=(limits.view,))
    table = ComparisonGrid.of_spec(base.model_copy(update={"attack": attack, "audit": audit})).table()
    table |= {"runs": runs, "delta": limits.delta, "eps": [point.eps or 1.0]}
    table["defenses"] = list(dict.fromkeys([NO_DEFENSE, point.alternative]))
    if point.label.sensitivity is not None:
        table["sensitivity"] = point.label.sensitivity
    return ComparisonGrid.parse(table)
