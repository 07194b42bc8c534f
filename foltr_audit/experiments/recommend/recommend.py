"""A whole recommendation: proofs, then the search on the validation split, then the test split once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import ValidationError

from foltr_audit.core.results import DataRecord, GapRecord
from foltr_audit.core.settings.attack import AttackSpec, changed_protocol
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.defaults import NO_DEFENSE, TRIALS
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError, first_problem
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import CellPlan, ComparisonGrid, GridExpansion
from foltr_audit.experiments.comparison.runner import failure_error, run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.recommend.candidates import CandidateEvaluator, CandidateResult, search
from foltr_audit.experiments.recommend.space import (
    CandidateAccountant,
    CandidatePoint,
    CandidateRejection,
    PrivacyLimits,
    SearchSpace,
)
from foltr_audit.experiments.run import data_record
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.rows import ResultRow


@dataclass(frozen=True, kw_only=True)
class SearchBudget(ResultRow):
    """How much is run.

    Attributes:
        candidates: candidates of the search.
        search_runs: repetitions of each candidate.
        runs: repetitions that confirm the chosen candidate.
        trials: of its audit, under each hypothesis.

    Raises:
        UsageError: a number out of range.
    """

    candidates: int = 40
    search_runs: int = 1
    runs: int = 3
    trials: int = TRIALS

    def __post_init__(self) -> None:
        for name in ("candidates", "search_runs", "runs"):
            if getattr(self, name) < 1:
                option = name.replace("_", "-")
                raise UsageError(f"--{option}: {getattr(self, name)}; expected at least 1")
        try:
            AuditSpec(trials=self.trials)
        except ValidationError as error:
            raise UsageError(first_problem(error, {"trials": "--trials"})) from error


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The result of a search.

    Attributes:
        base: the experiment without a defense.
        limits: the limits of the search.
        effort: how much was run.
        data: facts of the data.
        refused: defenses that cannot be proven to keep the limit, with any amount of noise.
        judged: the candidates in the order of the search; a candidate may occur twice.
        chosen: index of the chosen candidate; None where none keeps the limits.
        lost: cells of the confirmation that could not be run.
    """

    base: Spec
    limits: PrivacyLimits
    effort: SearchBudget
    data: DataRecord
    refused: tuple[CandidateRejection, ...]
    judged: tuple[CandidateResult, ...]
    chosen: int | None
    lost: list[GapRecord] = field(default_factory=list)

    @property
    def winner(self) -> CandidateResult | None:
        return None if self.chosen is None else self.judged[self.chosen]


# --- the candidate that is confirmed ---------------------------------------------------------------

LARGEST_TIE = 0.005
"""A candidate whose nDCG@10 is further below the best one's is never chosen for its bound."""


def choose(judged: Sequence[CandidateResult]) -> int | None:
    """Index of the chosen candidate; None where none is within the limits.

    A candidate ties with the best one if its mean nDCG@10 on the validation split is less than one standard
    error of their paired difference below, and less than `LARGEST_TIE`. Among those the smallest proven
    epsilon comes first, then the smallest upper end of an attack's interval, then the highest nDCG@10.

    Source: Breiman, Friedman, Olshen & Stone 1984, "Classification and regression trees", section 3.4.3 (the
    1 SE rule), here for paired queries.
    """
    kept = [number for number, one in enumerate(judged) if one.score is not None and one.score.feasible]
    if not kept:
        return None
    best = max(kept, key=lambda number: judged[number].ndcg)
    tied = [number for number in kept if ties(judged[number], judged[best])]
    return min(tied, key=lambda number: _order(judged[number]))


def ties(one: CandidateResult, best: CandidateResult) -> bool:
    """Whether a candidate is as good as the best one, up to chance."""
    below = best.ndcg - one.ndcg
    if below <= 0:
        return True
    if one.queries is None or best.queries is None:
        return False
    differences = best.queries - one.queries
    differences = differences[~np.isnan(differences)]
    if differences.size < 2:
        return False
    error = float(differences.std(ddof=1)) / math.sqrt(differences.size)
    return below < min(error, LARGEST_TIE)


def _order(one: CandidateResult) -> tuple[float, float, float]:
    proven = math.inf if one.proven is None else one.proven.upper.epsilon
    upper = 1.0 if one.leak is None or one.leak.upper is None else one.leak.upper
    return proven, upper, -one.ndcg


# --- its cells on the test split -------------------------------------------------------------------
# None of their results is used for the choice.

TEST = "test"


def confirm(
    base: Spec,
    point: CandidatePoint,
    limits: PrivacyLimits,
    study: Runner,
    folder: ComparisonFolder,
    workers: Workers,
    effort: SearchBudget,
    progress: Progress = SILENT,
) -> list[GapRecord]:
    """Run a candidate and no defense again, and audit the candidate; the folder's index lists these cells.

    Args:
        base: the experiment without a defense, with its attack protocol.
        point: the candidate.
        limits: whose view and delta are audited.
        study: with the data of the experiment.
        folder: where cells are stored.
        workers: who runs them.
        effort: how often; repetitions follow those of the search.
        progress: shows every cell.

    Raises:
        FoltrAuditError: the folder cannot be written, or a worker died.
    """
    grid = confirmation_grid(base, point, limits, effort)
    cells = [
        _fresh(cell, limits, effort.search_runs)
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
    base: Spec, point: CandidatePoint, limits: PrivacyLimits, effort: SearchBudget
) -> ComparisonGrid:
    """The grid of one candidate and no defense, on the test split."""
    attack = changed_protocol(base.attack or AttackSpec(), {"on": (TEST,)})
    audit = AuditSpec(trials=effort.trials, views=(limits.view,))
    table = ComparisonGrid.of_spec(base.model_copy(update={"attack": attack, "audit": audit})).table()
    table |= {"runs": effort.runs, "delta": limits.delta, "eps": [point.eps or 1.0]}
    table["defenses"] = list(dict.fromkeys([NO_DEFENSE, point.alternative]))
    if point.label.sensitivity is not None:
        table["sensitivity"] = point.label.sensitivity
    return ComparisonGrid.parse(table)


# --- the whole recommendation ----------------------------------------------------------------------


def recommend(
    base: Spec,
    limits: PrivacyLimits,
    effort: SearchBudget,
    folder: ComparisonFolder,
    workers: Workers,
    progress: Progress = SILENT,
) -> Recommendation:
    """Search for the defense with the best nDCG@10 within limits, and confirm it; see `choose` for ties.

    The folder stores all cells; a search with the same Spec, limits and effort finds them there again.

    Args:
        base: the experiment, with its attack protocol; its own defense does not matter.
        limits: the limits that the defense must keep.
        effort: how much is run.
        folder: where cells are stored.
        workers: who runs them.
        progress: shows every cell.

    Raises:
        UsageError: messages that no bound is known for, or the extra is not installed.
        FoltrAuditError: the folder cannot be written, or no candidate at all could be run.
    """
    study = Runner(progress, with_undefended=False)
    trace = base.trace.model_copy(update={"every": 0})
    base = base.model_copy(update={"defense": (NO_DEFENSE,), "repetition": 0, "trace": trace})
    # An audit that cannot be confirmed in the end is refused before the search.
    confirmation_grid(base, CandidatePoint(NO_DEFENSE), limits, effort)
    setup = study.setup(base)
    accountant = CandidateAccountant(setup, limits)
    space = SearchSpace.of(accountant)
    candidates = CandidateEvaluator(
        accountant, folder, workers, total=effort.candidates, runs=effort.search_runs, progress=progress
    )
    found = search(space, candidates, effort.candidates, setup.streams) if space.defenses else []
    if candidates.lost and not any(one.score for one in candidates.judged):
        raise failure_error(candidates.lost[0], "recommend: no candidate could be run; the first: ")
    chosen = choose(candidates.judged)
    failed = []
    if chosen is not None:
        failed = confirm(base, found[chosen][0], limits, study, folder, workers, effort, progress)
    return Recommendation(
        base=base,
        limits=limits,
        effort=effort,
        data=data_record(setup.collection),
        refused=space.refused,
        judged=tuple(candidates.judged),
        chosen=chosen,
        lost=failed,
    )
