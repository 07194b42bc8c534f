"""Estimators of a lower bound: their input, their result, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Protocol

import numpy as np

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.frozen_arrays import read_only

FEWEST = 10
"""Fewest trials of each hypothesis in each part: fewer show nothing at usual confidences."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialScores:
    """Scores of a game's trials; higher = more like hypothesis 1. They may be infinite, but not NaN.

    Trials of one hypothesis are independent of each other and follow one law. Two trials at the same place,
    one of each hypothesis, may share noise unless all are `independent`: in a sum, that of the other clients.

    Attributes:
        choose_zero: scores under hypothesis 0 that thresholds may be chosen on, float64 (m,).
        choose_one: the same under hypothesis 1, float64 (m,).
        zero: scores under hypothesis 0 that are evaluated, float64 (n,).
        one: the same under hypothesis 1, float64 (n,).
        independent: no two trials share noise.

    Raises:
        UsageError: fewer than 10 scores, a NaN, or different numbers of scores under the two hypotheses.
    """

    choose_zero: Floats
    choose_one: Floats
    zero: Floats
    one: Floats
    independent: bool = False

    def __post_init__(self) -> None:
        for name in ("choose_zero", "choose_one", "zero", "one"):
            scores: Floats = read_only(getattr(self, name), np.float64)
            if scores.ndim != 1 or not scores.size >= FEWEST:
                raise UsageError(
                    f"trials: {name} of shape {scores.shape}; expected one row of at least {FEWEST} scores"
                )
            if np.isnan(scores).any():
                raise UsageError(f"trials: {name} holds NaN; expected numbers, which may be infinite")
            object.__setattr__(self, name, scores)
        for zero, one in (("choose_zero", "choose_one"), ("zero", "one")):
            first, second = getattr(self, zero).size, getattr(self, one).size
            if first != second:
                raise UsageError(
                    f"trials: {first} scores in {zero}, {second} in {one}; expected the same number"
                )

    @property
    def chosen_on(self) -> int:
        """Trials per hypothesis m that thresholds are chosen on."""
        return self.choose_zero.size

    @property
    def evaluated(self) -> int:
        """Trials per hypothesis n that are evaluated."""
        return self.zero.size

    def mirrored(self) -> TrialScores:
        """The same game with the hypotheses swapped: every score is negated."""
        return TrialScores(
            choose_zero=-self.choose_one,
            choose_one=-self.choose_zero,
            zero=-self.one,
            one=-self.zero,
            independent=self.independent,
        )


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """What a game's trials show: the mechanism is not (e, delta)-DP for any e below `epsilon`.

    Attributes:
        estimator: its name.
        epsilon: the lower bound, finite, at least 0.
        ceiling: the lower bound that a perfect attack would show with the same number of trials.
        confidence: probability, over the trials, that the bound is right.
        delta: the delta that the bound is for.
        trials: evaluated trials per hypothesis.
        assumes: what the estimator assumes, in words; empty: nothing.
    """

    estimator: str
    epsilon: float
    ceiling: float
    confidence: float
    delta: float
    trials: int
    assumes: str = ""


class Estimator(Protocol):
    """A lower bound on the epsilon of the mechanism that a game was played with."""

    def __call__(
        self, trials: TrialScores, *, delta: float, confidence: float, rng: np.random.Generator
    ) -> LowerBound:
        """The bound at a delta and a confidence; only estimators that toss coins use `rng`.

        Raises:
            UsageError: delta outside [0, 1), confidence outside (0, 1), or a delta that does not fit.
        """


Bounds = Callable[[TrialScores, float, float, np.random.Generator], tuple[float, float]]
"""From trials, delta, confidence and a generator to `epsilon` and `ceiling` of a `LowerBound`."""


def estimator(name: str, assumes: str = "") -> Callable[[Bounds], Estimator]:
    """Make an estimator of a function that computes bounds; it checks delta and confidence first."""

    def decorate(compute: Bounds) -> Estimator:
        @wraps(compute)
        def estimate(
            trials: TrialScores, *, delta: float, confidence: float, rng: np.random.Generator
        ) -> LowerBound:
            check_level(name, delta, confidence)
            epsilon, ceiling = compute(trials, delta, confidence, rng)
            return LowerBound(
                estimator=name,
                epsilon=epsilon,
                ceiling=ceiling,
                confidence=confidence,
                delta=delta,
                trials=trials.evaluated,
                assumes=assumes,
            )

        return estimate

    return decorate


def check_level(name: str, delta: float, confidence: float) -> None:
    """Raise `UsageError` for a delta outside [0, 1) or a confidence outside (0, 1)."""
    if not 0 <= delta < 1:
        raise UsageError(f"estimator {name}: delta={delta:g}; expected 0 <= delta < 1")
    if not 0 < confidence < 1:
        raise UsageError(f"estimator {name}: confidence={confidence:g}; expected 0 < confidence < 1")
