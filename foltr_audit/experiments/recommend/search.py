"""The search: batches of candidates from Optuna's tree-structured Parzen estimator, reported in order.

Source: Bergstra et al. 2011, "Algorithms for hyper-parameter optimization", section 4. Optuna ranks
candidates that break a limit below all others, by how far they exceed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from foltr_audit.experiments.recommend.space import CandidatePoint, SearchSpace
from foltr_audit.rng import Streams
from foltr_audit.utils.optional_dependencies import package, quiet

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
