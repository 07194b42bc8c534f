"""Scores candidates on the validation split: accounting first, then training and attacks for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from foltr_audit.core.results import AttackRecord, GapRecord
from foltr_audit.core.settings.attack import changed_protocol
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.runner import run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.decide import MOST_LOSS
from foltr_audit.experiments.recommend.space import (
    Candidate,
    CandidateAccountant,
    CandidatePoint,
    CandidateScore,
    SearchSpace,
    interval_end,
)
from foltr_audit.experiments.store import StoredRun
from foltr_audit.experiments.table import NOT_TESTED, NOTHING_LOST, over_queries
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import click_records
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.optional_dependencies import package, quiet
from foltr_audit.utils.progress import SILENT, Progress

# Source: Bergstra et al. 2011, "Algorithms for hyper-parameter optimization", section 4. Optuna ranks
# candidates that break a limit below all others, by how far they exceed it.

BATCH = 4
"""Candidates that are drawn before any score is reported; fixed, so that a seed gives the same search for any
number of processes."""

_EXCESS = "excess"


_WORST = CandidateScore(utility=0.0, excess=1.0)

Judge = Callable[[Sequence[CandidatePoint]], Sequence[CandidateScore | None]]
"""Scores candidates; None for one that was not run."""


def search(
    space: SearchSpace, judge: Judge, candidates: int, streams: Streams
) -> list[tuple[CandidatePoint, CandidateScore | None]]:
    """Draw candidates in batches and score them; the order is the same for a seed.

    `SearchSpace.starts` fixes the first candidates. The sampler sees a candidate without a score as the worst
    possible one.
    """
    optuna = package("optuna", "recommend")
    seed = int(streams.generator("recommend/search").integers(2**31))
    found: list[tuple[CandidatePoint, CandidateScore | None]] = []
    with quiet(optuna):
        # All candidates of a batch are drawn before one of them has a score: the constant liar keeps them
        # apart. Defenses have different parameters, so the sampler models each set of them as a group.
        sampler = optuna.samplers.TPESampler(
            seed=seed,
            constraints_func=lambda trial: (trial.user_attrs[_EXCESS],),
            multivariate=True,
            group=True,
            constant_liar=True,
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


VALIDATION = "vali"


class CandidateEvaluator:
    """Runs batches of candidates beside no defense, and stores their results in `judged`."""

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
        """Nothing is run yet; cells are stored in the folder, and `total` candidates make up the search."""
        self.accountant = accountant
        self.folder = folder
        self.workers = workers
        self.total = total
        self.runs = runs
        self.progress = progress
        self.judged: list[Candidate] = []
        self.lost: list[GapRecord] = []

    def __call__(self, points: Sequence[CandidatePoint]) -> list[CandidateScore | None]:
        """Score candidates; None for one that accounting rejected or that could not be run."""
        proven = {point: self.accountant.prove(point) for point in points}
        specs = {point: self.specs(one.defense) for point, one in proven.items() if not one.refused}
        undefended = self.specs([NO_DEFENSE]) if specs else []
        every = list(dict.fromkeys((*undefended, *(spec for several in specs.values() for spec in several))))
        first = len(self.judged) + 1
        name = f"candidates {first} to {first + len(points) - 1} of {self.total}"
        failed = run_cells(every, self.folder, self.workers, self.progress, name) if every else []
        self.lost += failed
        why = {gap.run: gap.why for gap in failed}
        alone = [self.folder.read(spec) for spec in undefended if spec.hash not in why]
        judged = [
            self._evaluated(proven[point], specs[point], why, alone) if point in specs else proven[point]
            for point in points
        ]
        self.judged += judged
        return [candidate.score for candidate in judged]

    def specs(self, defense: Sequence[str]) -> list[Spec]:
        """The repetitions of a candidate: attacked on the validation split if attacks are limited."""
        base, attack = self.accountant.setup.spec, None
        if base.attack is not None and self.accountant.limits.max_auc is not None:
            attack = changed_protocol(base.attack, {"on": (VALIDATION,)})
        # Only the trained model counts, so that the rounds before it need no evaluation.
        train = base.train.model_copy(update={"evaluate_every": base.train.rounds})
        blank = base.model_copy(update={"train": train, "attack": attack}).table()
        defended = Spec.parse({**blank, "defense": list(defense)}, "")
        return [defended.model_copy(update={"repetition": run}) for run in range(self.runs)]

    def _evaluated(
        self,
        candidate: Candidate,
        specs: Sequence[Spec],
        why: Mapping[str | None, str],
        undefended: Sequence[StoredRun],
    ) -> Candidate:
        """A candidate with the results of its cells, next to the cells without a defense."""
        lost = [why[spec.hash] for spec in specs if spec.hash in why]
        if lost:
            return replace(candidate, failed=lost[0])
        cells = [self.folder.read(spec) for spec in specs]
        ndcg = float(np.mean(np.array([cell.utility.validation for cell in cells], dtype=np.float64)))
        if math.isnan(ndcg):
            return replace(candidate, failed="no query of the validation split counts")
        attack, queries = worst_attack(cells), _by_query(cells)
        difference = over_queries(queries, _by_query(undefended)) if undefended else NOT_TESTED
        if candidate.point.alternative == NO_DEFENSE:
            difference = NOTHING_LOST
        leaked = self.accountant.limits.excess(None if attack is None else interval_end(attack))
        return replace(
            candidate,
            queries=queries,
            difference=difference,
            attack=attack,
            score=CandidateScore(utility=ndcg, excess=max(leaked, difference.upper_loss - MOST_LOSS)),
        )


def _by_query(cells: Sequence[StoredRun]) -> Floats:
    """nDCG@10 by query, a mean over cells, float64 (Q,); NaN where a query does not count."""
    return np.asarray(np.mean([cell.validation_ndcg for cell in cells], axis=0))


def worst_attack(cells: Sequence[StoredRun]) -> AttackRecord | None:
    """The attack with the largest upper bound of its AUC, pooled over repetitions; None without one.

    Guesses, which read no message, do not count.
    """
    pieces = [cell.evidence for cell in cells if cell.evidence is not None]
    if not pieces:
        return None
    records = click_records(ClickEvidence.combined(pieces), Streams(cells[0].spec.seed))
    attacks = [_with_auc_alone(record) for record in records if record.role == "attack"]
    return max(
        attacks, key=lambda attack: -1.0 if (end := interval_end(attack)) is None else end, default=None
    )


def _with_auc_alone(record: AttackRecord) -> AttackRecord:
    """The record without the metrics that nobody reads, which hold the judged lists in memory."""
    kept = {name: record.metric(name) for name in ("auc", "above_guess")}
    return record.model_copy(update={"metrics": kept})
