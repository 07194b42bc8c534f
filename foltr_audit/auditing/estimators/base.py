"""Trial scores in, lower bounds out: what estimators share, and the plain one from intervals of error rates.

Tails of the score range are the events that thresholds make: a tail `score >= t` is evidence for hypothesis
1, a tail `score <= t` for hypothesis 0. Scores are only compared with each other, so that an increasing
function of all scores changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.core.results import LowerBound
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Bools, Floats, Ints, read_only

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


def upper_rate(errors: ArrayLike, trials: int, alpha: float) -> Floats:
    """Upper end of a one-sided interval for the rate of events, by their number in n trials.

    The (1 - alpha) quantile of Beta(x + 1, n - x), and 1 for x = n: too low with probability <= alpha.

    Source: Clopper & Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of
    the binomial".
    """
    from scipy import special

    x = np.asarray(errors, dtype=np.float64)
    left = np.maximum(trials - x, 0.5)  # any positive number: not used where all trials are events
    return np.where(x >= trials, 1.0, special.betainccinv(x + 1.0, left, alpha))


@lru_cache(maxsize=4)
def upper_rates(trials: int, alpha: float) -> Floats:
    """`upper_rate` for 0, 1, ... n events in n trials, float64 (n + 1,), read-only."""
    return read_only(upper_rate(np.arange(trials + 1), trials, alpha), np.float64)


def epsilon_of_rates(intruders: Floats, missing: Floats, delta: float) -> Floats:
    """ln((1 - missing - delta) / intruders): no smaller eps allows both rates of an event.

    Elementwise; it may be negative, and is -inf where 1 - missing <= delta. For an event that holds with
    probability at least 1 - `missing` under one hypothesis and at most `intruders` under the other.

    Source: Kairouz, Oh & Viswanath 2015, "The composition theorem for differential privacy", theorem 2.1.
    """
    sure = np.maximum(1.0 - missing - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(sure) - np.log(intruders))


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
    tails = [best_of_direction(trials, worth, above=above) for above in (True, False)]
    return max(tails, key=lambda best: best.rank).tail


def worth_in_epsilon(m: int, delta: float, alpha: float) -> Worth:
    """The worth of tails of m trials: the eps that bounds of both rates, at alpha each, prove."""
    rates = upper_rates(m, alpha)
    return lambda intruders, missing: epsilon_of_rates(rates[intruders], rates[missing], delta)


@estimator("clopper-pearson")
def clopper_pearson(
    trials: TrialScores, delta: float, confidence: float, _rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound from Clopper-Pearson intervals of the false positive and the false negative rate.

    One tail of the scores, of either direction, is fixed on the part for choosing: the one whose bound is
    largest there. On the evaluated part its two error rates get upper bounds that fail with probability at
    most (1 - confidence) / 2 each. With probability `confidence` neither fails. Then both inequalities of
    (eps, delta)-DP hold with them, of this one event and of its complement, and the larger of the two bounds
    needs no further correction. One tail for each direction would need it: four rates.

    *Guarantees* for any mechanism: P(epsilon > true eps) <= 1 - confidence, over independent trials.

    Source: Jagielski, Ullman & Oprea 2020, "Auditing differentially private machine learning"; Nasr et
    al. 2021, "Adversary instantiation", for both directions. See `docs/maths.md`, "Auditing".
    """
    tail = best_tail(trials, worth_in_epsilon(trials.chosen_on, delta, 0.5 * (1.0 - confidence)))
    n = trials.evaluated
    epsilon = clopper_pearson_bound(*tail.errors(trials), n, delta=delta, confidence=confidence)
    return epsilon, clopper_pearson_bound(0, 0, n, delta=delta, confidence=confidence)


def clopper_pearson_bound(
    false_positives: int, false_negatives: int, trials: int, *, delta: float, confidence: float
) -> float:
    """The bound from the errors in n trials of each hypothesis, by a rule fixed in advance.

    >>> round(clopper_pearson_bound(0, 0, 1000, delta=0.0, confidence=0.95), 1)
    5.6
    """
    errors = np.array([false_positives, false_negatives])
    rates = upper_rate(errors, trials, 0.5 * (1.0 - confidence))
    return max(0.0, float(epsilon_of_rates(rates, rates[::-1], delta).max()))
