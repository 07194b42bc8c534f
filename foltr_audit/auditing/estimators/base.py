"""What an estimator of a lower bound reads and returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError
from foltr_audit.utils.frozen_arrays import read_only

FEWEST = 10
"""Trials of each hypothesis that each part must hold: fewer show nothing at usual confidences."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialScores:
    """Scores of a game's trials; higher = more like hypothesis 1. They may be infinite, but no NaN.

    Trials of one hypothesis are independent of each other and follow one law. Two trials at the same place,
    one of each hypothesis, may share noise: in a sum that of the other clients. All others are independent.

    Attributes:
        choose_zero: scores under hypothesis 0 that thresholds may be chosen on, float64 (m,).
        choose_one: the same under hypothesis 1, float64 (m,).
        zero: scores under hypothesis 0 that are evaluated, float64 (n,).
        one: the same under hypothesis 1, float64 (n,).

    Raises:
        UsageError: fewer than 10 scores, a NaN, or not as many under one hypothesis as under the other.
    """

    choose_zero: NDArray[np.float64]
    choose_one: NDArray[np.float64]
    zero: NDArray[np.float64]
    one: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("choose_zero", "choose_one", "zero", "one"):
            scores: NDArray[np.float64] = read_only(getattr(self, name), np.float64)
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
                raise UsageError(f"trials: {first} scores in {zero}, {second} in {one}; expected as many")

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
            choose_zero=-self.choose_one, choose_one=-self.choose_zero, zero=-self.one, one=-self.zero
        )


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """What a game's trials show: the mechanism is (e, delta)-DP for no e below `epsilon`.

    Attributes:
        estimator: its name.
        epsilon: the lower bound, finite, at least 0.
        ceiling: what a perfect attack with as many trials would have shown.
        confidence: probability, over the trials, that the bound is right.
        delta: the delta that the bound is for.
        trials: evaluated trials per hypothesis.
        assumes: what the estimator takes for granted, in words; empty: nothing.
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
        """The bound at a delta and a confidence; `rng` is used by estimators that toss coins only.

        Raises:
            UsageError: delta outside [0, 1), confidence outside (0, 1), or a delta that does not fit.
        """


def check_level(estimator: str, delta: float, confidence: float) -> None:
    """Refuse a delta outside [0, 1) and a confidence outside (0, 1).

    Raises:
        UsageError: one of them is.
    """
    if not 0 <= delta < 1:
        raise UsageError(f"estimator {estimator}: delta={delta:g}; expected 0 <= delta < 1")
    if not 0 < confidence < 1:
        raise UsageError(f"estimator {estimator}: confidence={confidence:g}; expected 0 < confidence < 1")
