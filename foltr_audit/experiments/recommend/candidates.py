"""Scores candidates on the validation split: accounting first, then training and attacks for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from foltr_audit.core.results import GapRecord, Interval
from foltr_audit.core.settings.attack import changed_protocol
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.runner import run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.recommend.space import (
    CandidateAccountant,
    CandidatePoint,
    CandidateProof,
    CandidateRejection,
    SearchSpace,
)
from foltr_audit.experiments.store import StoredRun
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import AttackScorer
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.optional_dependencies import package, quiet
from foltr_audit.utils.progress import SILENT, Progress

# --- the search ------------------------------------------------------------------------------------
# Source: Bergstra et al. 2011, "Algorithms for hyper-parameter optimization", section 4. Optuna ranks
# candidates that break a limit below all others, by how far they exceed it.

BATCH = 4
"""Candidates that are drawn before any score is reported; fixed, so that a seed gives the same search for any
number of processes."""

_EXCESS = "excess"


@dataclass(frozen=True, kw_only=True)
class CandidateScore:
    """How good a candidate is.

    Attributes:
        utility: 0 to 1, higher is better.
        excess: by how much it breaks a limit; at most 0 where it keeps it, never above 1.
    """

    utility: float
    excess: float

    @property
    def feasible(self) -> bool:
        """Whether it keeps the limit."""
        return self.excess <= 0


class ScoredTrial(Protocol):
    """What the limits ask of an Optuna trial."""

    @property
    def user_attrs(self) -> Mapping[str, float]: ...


_WORST = CandidateScore(utility=0.0, excess=1.0)

Judge = Callable[[Sequence[CandidatePoint]], Sequence[CandidateScore | None]]
"""Scores candidates; None for one that was not run."""


def search(
    space: SearchSpace, judge: Judge, candidates: int, streams: Streams
) -> list[tuple[CandidatePoint, CandidateScore | None]]:
    """Draw candidates in batches and score them; the order is the same for a seed.

    `SearchSpace.starts` fixes the first candidates. The sampler sees a candidate without a score as the worst
    possible one.

    Args:
        space: the candidates that exist.
        judge: called once per batch of at most `BATCH`.
        candidates: how many.
        streams: named random streams; the sampler's seed is drawn from one.

    Raises:
        UsageError: the extra is not installed.
    """
    optuna = package("optuna", "recommend")
    seed = int(streams.generator("recommend/search").integers(2**31))
    found: list[tuple[CandidatePoint, CandidateScore | None]] = []
    with quiet(optuna):
        # All candidates of a batch are drawn before one of them has a score: the constant liar keeps them
        # apart. Defenses have different parameters, so the sampler models each set of them as a group.
        sampler = optuna.samplers.TPESampler(
            seed=seed, constraints_func=_constraints, multivariate=True, group=True, constant_liar=True
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for parameters in space.starts(candidates):
            study.enqueue_trial(parameters)
        while len(found) < candidates:
            trials = [study.ask() for _ in range(min(BATCH, candidates - len(found)))]
            points = [space.suggest(trial) for trial in trials]
            scores = judge(points)
            # Told in the order of the draws, not as cells finish: the next draws depend on this order.
            for trial, score in zip(trials, scores, strict=True):
                known = score or _WORST
                trial.set_user_attr(_EXCESS, known.excess)
                study.tell(trial, known.utility)
            found += zip(points, scores, strict=True)
    return found


def _constraints(trial: ScoredTrial) -> tuple[float]:
    return (trial.user_attrs[_EXCESS],)


# --- scores ----------------------------------------------------------------------------------------

VALIDATION = "vali"


@dataclass(frozen=True)
class LeakEstimate:
    """The AUC of an attack over the documents of lists with a click.

    Attributes:
        method: the attack.
        auc: its AUC.
        interval: the 95 % interval over queries; None where fewer than two have a value.
        queries: with a click, which were attacked.
    """

    method: str
    auc: float
    interval: Interval | None
    queries: int = 0

    @property
    def upper(self) -> float | None:
        """The upper end of the interval."""
        return None if self.interval is None else self.interval[1]


@dataclass(frozen=True, kw_only=True)
class CandidateResult:
    """One candidate and its results.

    Attributes:
        point: the candidate.
        proven: its chain and bound; None where accounting rejected it.
        refused: why accounting rejected it.
        failed: why it could not be run; empty where it was run.
        ndcg: mean nDCG@10 on the validation split over repetitions; NaN where it was not run.
        queries: the same of each query, float64 (Q,), NaN where it does not count; None where it was not run.
        leak: the attack with the largest upper end; None where no attack ran.
        score: None where it was not run.
    """

    point: CandidatePoint
    proven: CandidateProof | None = None
    refused: CandidateRejection | None = None
    failed: str = ""
    ndcg: float = math.nan
    queries: Floats | None = None
    leak: LeakEstimate | None = None
    score: CandidateScore | None = None


class CandidateEvaluator:
    """Runs batches of candidates and stores their results in `judged`."""

    def __init__(
        self,
        accountant: CandidateAccountant,
        folder: ComparisonFolder,
        workers: Workers,
        *,
        total: int,
        runs: int = 1,
        progress: Progress = SILENT,
    ) -> None:
        """Nothing is run yet.

        Args:
            accountant: of the experiment, whose Spec holds the attack protocol.
            folder: where cells are stored, and found again.
            workers: who runs them.
            total: number of candidates of the whole search, for the progress.
            runs: repetitions of each candidate, numbered from 0.
            progress: shows every cell.
        """
        self.accountant = accountant
        self.folder = folder
        self.workers = workers
        self.total = total
        self.runs = runs
        self.progress = progress
        self.judged: list[CandidateResult] = []
        self.lost: list[GapRecord] = []

    def __call__(self, points: Sequence[CandidatePoint]) -> list[CandidateScore | None]:
        """Score candidates; None for one that accounting rejected or that could not be run."""
        answers = {point: self.accountant.prove(point) for point in points}
        proven = {point: found for point, found in answers.items() if isinstance(found, CandidateProof)}
        specs = {point: self.specs(found) for point, found in proven.items()}
        every = list(dict.fromkeys(spec for several in specs.values() for spec in several))
        first = len(self.judged) + 1
        name = f"candidates {first} to {first + len(points) - 1} of {self.total}"
        failed = run_cells(every, self.folder, self.workers, self.progress, name) if every else []
        self.lost += failed
        why = {gap.run: gap.why for gap in failed}
        for point in points:
            self.judged.append(self._evaluate(point, answers[point], specs.get(point, []), why))
        return [one.score for one in self.judged[first - 1 :]]

    def specs(self, proven: CandidateProof) -> list[Spec]:
        """The repetitions of a candidate: attacked on the validation split if attacks are limited."""
        base, attack = self.accountant.setup.spec, None
        if base.attack is not None and self.accountant.limits.max_auc is not None:
            attack = changed_protocol(base.attack, {"on": (VALIDATION,)})
        # Only the trained model counts, so that the rounds before it need no evaluation.
        train = base.train.model_copy(update={"evaluate_every": base.train.rounds})
        blank = base.model_copy(update={"train": train, "attack": attack}).table()
        defended = Spec.parse({**blank, "defense": list(proven.defense)}, "")
        return [defended.model_copy(update={"repetition": run}) for run in range(self.runs)]

    def _evaluate(
        self,
        point: CandidatePoint,
        answer: CandidateProof | CandidateRejection,
        specs: Sequence[Spec],
        why: dict[str | None, str],
    ) -> CandidateResult:
        if isinstance(answer, CandidateRejection):
            return CandidateResult(point=point, refused=answer)
        lost = [why[spec.hash] for spec in specs if spec.hash in why]
        if lost:
            return CandidateResult(point=point, proven=answer, failed=lost[0])
        cells = [self.folder.read(spec) for spec in specs]
        ndcg = float(np.mean(np.array([cell.utility.validation for cell in cells], dtype=np.float64)))
        if math.isnan(ndcg):
            return CandidateResult(
                point=point, proven=answer, failed="no query of the validation split counts"
            )
        leak = worst_leak(cells)
        excess = self.accountant.limits.excess(None if leak is None else leak.upper)
        return CandidateResult(
            point=point,
            proven=answer,
            ndcg=ndcg,
            queries=np.mean([cell.validation_ndcg for cell in cells], axis=0),
            leak=leak,
            score=CandidateScore(utility=ndcg, excess=excess),
        )


def worst_leak(cells: Sequence[StoredRun]) -> LeakEstimate | None:
    """The attack with the largest upper end of its AUC's interval, pooled over repetitions; None without one.

    Baselines, which read no message, do not count.
    """
    pieces = [cell.evidence for cell in cells if cell.evidence is not None]
    if not pieces:
        return None
    evidence = ClickEvidence.combined(pieces)
    scorer = AttackScorer(evidence, Streams(cells[0].spec.seed))
    queries = np.unique(evidence.query[evidence.clicks.any(axis=1)]).size
    leaks = []
    for label in evidence.guessed:
        if label not in evidence.baselines:
            score = scorer.ranked(label).auc(scorer.resamples)
            leaks.append(LeakEstimate(label, score.value, score.ci95, queries))
    return max(leaks, key=lambda leak: -1.0 if leak.upper is None else leak.upper, default=None)
