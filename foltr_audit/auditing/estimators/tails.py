"""Tails of the score range: the events that thresholds make, and the choice of the most telling one.

A tail `score >= t` speaks for hypothesis 1, a tail `score <= t` for hypothesis 0. Only comparisons of
scores are made: any increasing transformation of all scores changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.auditing.estimators.base import TrialScores
from foltr_audit.auditing.estimators.rates import epsilon_of_rates, upper_rates

Worth = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
"""How telling tails are: of `intruders` (scores of the wrong hypothesis inside) and `missing` (scores of
the right one outside), counts in the part that thresholds are chosen on."""


class ScoreTail(NamedTuple):
    """Scores at one end of the range, the threshold included.

    Attributes:
        threshold: where the tail begins.
        above: whether it goes upwards, and so speaks for hypothesis 1.
    """

    threshold: float
    above: bool

    def holds(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which scores (n,) lie in the tail."""
        return scores >= self.threshold if self.above else scores <= self.threshold

    def right_and_wrong(self, trials: TrialScores) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which evaluated scores lie inside: of the hypothesis it speaks for, and of the other, (n,) each."""
        right, wrong = (trials.one, trials.zero) if self.above else (trials.zero, trials.one)
        return self.holds(right), self.holds(wrong)

    def errors(self, trials: TrialScores) -> tuple[int, int]:
        """Evaluated false positives and false negatives of guessing what the tail says, else the other."""
        right, wrong = self.right_and_wrong(trials)
        missing, intruders = right.size - int(right.sum()), int(wrong.sum())
        return (intruders, missing) if self.above else (missing, intruders)


class BestTail(NamedTuple):
    """The best tail of one direction, with its counts in the part that it was chosen on.

    Attributes:
        worth: what it is worth there.
        intruders: scores of the wrong hypothesis inside.
        missing: scores of the right hypothesis outside.
        tail: the tail.
    """

    worth: float
    intruders: int
    missing: int
    tail: ScoreTail

    @property
    def rank(self) -> tuple[float, int, int]:
        """What decides between directions; it does not change when the hypotheses swap roles."""
        return self.worth, -self.intruders, -self.missing


class TailTable(NamedTuple):
    """All tails `score >= t` of pooled scores, from the largest tail to the smallest.

    Attributes:
        threshold: every distinct score, rising, (k,).
        zero: how many scores of hypothesis 0 each tail holds, int64 (k,).
        one: the same of hypothesis 1.
    """

    threshold: NDArray[np.float64]
    zero: NDArray[np.int64]
    one: NDArray[np.int64]

    @classmethod
    def of(cls, zero: NDArray[np.float64], one: NDArray[np.float64]) -> TailTable:
        """Those of scores (m,) each."""
        threshold = np.unique(np.concatenate([zero, one]))
        inside = [
            scores.size - np.searchsorted(np.sort(scores), threshold, side="left") for scores in (zero, one)
        ]
        return cls(threshold, inside[0].astype(np.int64), inside[1].astype(np.int64))


def best_of_direction(trials: TrialScores, worth: Worth, *, above: bool) -> BestTail:
    """The tail of one direction that is worth most in the part of the trials that is for choosing.

    Of equals it is the largest.
    """
    game = trials if above else trials.mirrored()
    tails = TailTable.of(game.choose_zero, game.choose_one)
    missing = trials.chosen_on - tails.one
    values = worth(tails.zero, missing)
    best = int(np.argmax(values))
    threshold = float(tails.threshold[best])
    return BestTail(
        float(values[best]),
        int(tails.zero[best]),
        int(missing[best]),
        ScoreTail(threshold if above else -threshold, above),
    )


def best_tail(trials: TrialScores, worth: Worth) -> ScoreTail:
    """The tail of either direction that is worth most in the part of the trials that is for choosing."""
    found = [best_of_direction(trials, worth, above=above) for above in (True, False)]
    return max(found, key=lambda each: each.rank).tail


def worth_in_epsilon(m: int, delta: float, alpha: float) -> Worth:
    """Tails of m trials are worth the eps that bounds of both rates, at alpha each, prove."""
    rates = upper_rates(m, alpha)
    return lambda intruders, missing: epsilon_of_rates(rates[intruders], rates[missing], delta)
