"""A whole recommendation: proofs, then the search on the validation split, then the test split once."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import ValidationError

from foltr_audit.core.field_errors import first_problem
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.defaults import NO_DEFENSE, TRIALS
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.runner import CellFailure
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.data_facts import DataFacts
from foltr_audit.experiments.recommend.candidates import CandidateEvaluator, CandidateResult
from foltr_audit.experiments.recommend.choice import choose
from foltr_audit.experiments.recommend.confirm import confirm, confirmation_grid
from foltr_audit.experiments.recommend.limits import PrivacyLimits
from foltr_audit.experiments.recommend.search import search
from foltr_audit.experiments.recommend.space import (
    CandidateAccountant,
    CandidatePoint,
    CandidateRejection,
    SearchSpace,
)
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
    data: DataFacts
    refused: tuple[CandidateRejection, ...]
    judged: tuple[CandidateResult, ...]
    chosen: int | None
    lost: list[CellFailure] = field(default_factory=list)

    @property
    def winner(self) -> CandidateResult | None:
        """The chosen candidate."""
        return None if self.chosen is None else self.judged[self.chosen]


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
    confirmation_grid(base, CandidatePoint(NO_DEFENSE), limits, runs=effort.runs, trials=effort.trials)
    setup = study.setup(base)
    accountant = CandidateAccountant(setup, limits)
    space = SearchSpace.of(accountant)
    candidates = CandidateEvaluator(
        accountant, folder, workers, total=effort.candidates, runs=effort.search_runs, progress=progress
    )
    found = search(space, candidates, effort.candidates, setup.streams) if space.defenses else []
    if candidates.lost and not any(one.score for one in candidates.judged):
        lost = candidates.lost[0]
        raise type(lost.error)(f"recommend: no candidate could be run; the first: {lost.why}")
    chosen = choose(candidates.judged)
    failed = []
    if chosen is not None:
        failed = confirm(
            base,
            found[chosen][0],
            limits,
            study,
            folder,
            workers,
            first_run=effort.search_runs,
            runs=effort.runs,
            trials=effort.trials,
            progress=progress,
        )
    return Recommendation(
        base=base,
        limits=limits,
        effort=effort,
        data=DataFacts.of(setup.collection),
        refused=space.refused,
        judged=tuple(candidates.judged),
        chosen=chosen,
        lost=failed,
    )
