"""Tails of the score range: the events that thresholds make, and the choice of the most telling one.

A tail `score >= t` is evidence for hypothesis 1, a tail `score <= t` for hypothesis 0. Scores are only
compared with each other: an increasing transformation of all scores changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.estimators.base import TrialScores
from foltr_audit.auditing.estimators.rates import epsilon_of_rates, upper_rates
from foltr_audit.utils.arrays import Bools, Floats, Ints

Worth = Callable[[Ints, Ints], Floats]
"""How telling tails are: of `intruders` (scores of the wrong hypothesis inside) and `missing` (scores of
the right one outside), counts in the part that thresholds are chosen on."""


class ScoreTail(NamedTuple):
    """Scores at one end of the range, the threshold included.

    Attributes:
        threshold: where the tail begins.
        above: whether it holds the scores above the threshold, and so is evidence for hypothesis 1.
    """

    threshold: float
    above: bool

    def holds(self, scores: Floats) -> Bools:
        """Which scores (n,) lie in the tail."""
        return scores >= self.threshold if self.above else scores <= self.threshold

    def right_and_wrong(self, trials: TrialScores) -> tuple[Bools, Bools]:
        """Which evaluated scores lie inside: of its own hypothesis, and of the other, (n,) each."""
        right, wrong = (trials.one, trials.zero) if self.above else (trials.zero, trials.one)
        return self.holds(right), self.holds(wrong)

    def errors(self, trials: TrialScores) -> tuple[int, int]:
        """Evaluated false positives and false negatives, if scores in the tail count for its hypothesis."""
        right, wrong = self.right_and_wrong(trials)
        missing, intruders = right.size - int(right.sum()), int(wrong.sum())
        return (intruders, missing) if self.above else (missing, intruders)


class BestTail(NamedTuple):
    """The best tail of one direction, with its counts in the part that it was chosen on.

    Attributes:
        worth: its value of `Worth` there.
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
        """The order of directions; it does not change when the hypotheses swap roles."""
        return self.worth, -self.intruders, -self.missing


class TailTable(NamedTuple):
    """All tails `score >= t` of pooled scores, from the largest tail to the smallest.

    Attributes:
        threshold: every distinct score, ascending, (k,).
        zero: how many scores of hypothesis 0 each tail holds, int64 (k,).
        one: the same for hypothesis 1.
    """

    threshold: Floats
    zero: Ints
    one: Ints

    @classmethod
    def of(cls, zero: Floats, one: Floats) -> TailTable:
        """The tails of scores (m,) of each hypothesis."""
        threshold = np.unique(np.concatenate([zero, one]))
        inside = [
            scores.size - np.searchsorted(np.sort(scores), threshold, side="left") for scores in (zero, one)
        ]
        return cls(threshold, inside[0].astype(np.int64), inside[1].astype(np.int64))


def best_of_direction(trials: TrialScores, worth: Worth, *, above: bool) -> BestTail:
    """The tail of one direction that is worth most on the part for choosing; of equals, the largest."""
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
    """The tail of either direction that is worth most on the part for choosing."""
    found = [best_of_direction(trials, worth, above=above) for above in (True, False)]
    return max(found, key=lambda each: each.rank).tail


def worth_in_epsilon(m: int, delta: float, alpha: float) -> Worth:
    """The worth of tails of m trials: the eps that bounds of both rates, at alpha each, prove."""
    rates = upper_rates(m, alpha)
    return lambda intruders, missing: epsilon_of_rates(rates[intruders], rates[missing], delta)
