"""A lower bound from many canaries at once, each in or out by a coin, and guesses of the coins."""

from __future__ import annotations

import math

import numpy as np

from foltr_audit.auditing.estimators.base import TrialScores, check_level, estimator
from foltr_audit.auditing.estimators.guessing import binomial_bound, canaries_of, choose_guessing, guesses
from foltr_audit.errors import UsageError

_NAME = "one-run"


@estimator(_NAME)
def one_run(
    trials: TrialScores, delta: float, confidence: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound from m canaries; for each, a fair coin of `rng` chooses the hypothesis.

    A canary is the next trial under hypothesis 1 if its coin is 1, else under 0; in trials that share noise,
    the one at its own place. The r most extreme ones are guessed; r, and what counts as extreme at either
    end, are fixed on the part for choosing. m is a little less than all trials, of both hypotheses, and one
    half of them if they share noise: see `canaries_of`.

    *Guarantees* for any mechanism: P(epsilon > true eps) <= 1 - confidence, over trials and coins.

    Source: Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run", algorithm 1;
    Mahloujifar, Melis & Chaudhuri 2025, "Auditing f-differential privacy in one run", for delta.
    """
    m = canaries_of(trials)
    coins = rng.integers(0, 2, size=m).astype(np.bool_)

    def worth(canaries: int, count: int, right: int, sure: float) -> float:
        return one_run_bound(canaries, count, right, delta, sure)

    rule = choose_guessing(trials, confidence, worth if delta > 0 else None)
    count, right = guesses(trials, coins, rule)
    epsilon = one_run_bound(m, count, right, delta, confidence)
    return epsilon, one_run_bound(m, m, m, delta, confidence)


def check_counts(name: str, canaries: int, count: int, right: int) -> None:
    """Raise `UsageError` for counts of canaries, guesses and right guesses that do not fit."""
    if not 0 <= right <= count <= canaries:
        raise UsageError(
            f"estimator {name}: {right} right of {count} guesses of {canaries} canaries; expected no more"
        )


def one_run_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    """The smallest eps that v right guesses of r do not refute at delta.

    An eps is refuted if `most_likely` is at most 1 - confidence. The number of guesses must be fixed in
    advance, and the coins fair and independent.

    Args:
        canaries: their number m.
        guesses: how many coins were guessed, r.
        right: how many of them were right, v.
        delta: of (eps, delta)-DP.
        confidence: probability that the bound holds.

    Source: as `one_run`; see `docs/maths.md`, "Guesses of coins".

    >>> round(one_run_bound(1000, 1000, 1000, 0.0, 0.95), 2)
    5.81

    Raises:
        UsageError: counts that do not fit, delta outside [0, 1) or confidence outside (0, 1).
    """
    from scipy import optimize

    check_level(_NAME, delta, confidence)
    check_counts(_NAME, canaries, guesses, right)
    if right == 0:
        return 0.0
    alpha = 1.0 - confidence
    high, weight = max(0.0, float(binomial_bound(right, guesses, alpha))), canaries * delta
    if weight == 0 or high == 0:
        return high

    def beyond(eps: float) -> float:
        return most_likely(guesses, right, eps, weight) - alpha

    if beyond(0.0) >= 0:
        return 0.0
    return float(optimize.brentq(beyond, 0.0, high, xtol=1e-12)) if beyond(high) > 0 else high


def most_likely(guesses: int, right: int, eps: float, weight: float) -> float:
    """How likely v >= 1 of r guesses or more are right, at most, if the mechanism is (eps, delta)-DP.

    It is P[W >= v] (1 + weight P[W < v] / (v P[W = v])), but at most 1, where W is binomial of r guesses that
    are right with probability e^eps / (1 + e^eps), and `weight` is m delta for m canaries.
    """
    from scipy import special

    q = 1.0 / (1.0 + math.exp(-eps))
    further = np.arange(1, guesses - right + 1)
    with np.errstate(over="ignore"):  # P[W >= v] / P[W = v], by the ratios of successive probabilities
        ratio = 1.0 + float(
            np.cumprod(math.exp(eps) * (guesses - right + 1 - further) / (right + further)).sum()
        )
    above, below = float(special.bdtrc(right - 1, guesses, q)), float(special.bdtr(right - 1, guesses, q))
    return min(1.0, above + weight * below * ratio / right) if weight > 0 else above
