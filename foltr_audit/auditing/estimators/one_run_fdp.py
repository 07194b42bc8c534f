"""A lower bound for Gaussian noise from guesses of coins, by the trade-off function of that noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from foltr_audit.auditing.estimators.base import TrialScores, check_level, estimator
from foltr_audit.auditing.estimators.guessing import canaries_of, choose_guessing, guesses
from foltr_audit.auditing.estimators.normality import NORMAL, check_delta
from foltr_audit.auditing.estimators.one_run import check_counts
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon

_NAME = "one-run-fdp"
_PRECISION, _ROUGH = 1e-10, 1e-3  # of mu: of a bound, and of those that choose a rule

Inverse = Callable[[float], float]
"""The inverse of 1 - f: from the probability of an event to its least one for a neighbouring input."""


@estimator(_NAME, assumes=NORMAL)
def one_run_fdp(
    trials: TrialScores, delta: float, confidence: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound on mu of Gaussian DP from m canaries as in `one_run`, and its eps at delta.

    *Assumes* that the noise is normal: an attacker who tells two neighbouring inputs apart does no better
    than by telling N(0, 1) from N(mu, 1), and the eps at delta is that of the largest such mu. The score
    may be any.

    *Guarantees* under this assumption: P(epsilon > true eps) <= 1 - confidence, over trials and coins.

    Source: Mahloujifar, Melis & Chaudhuri 2025, "Auditing f-differential privacy in one run", for guesses of
    coins; Dong, Roth & Su 2022, "Gaussian differential privacy", corollary 2.13, for eps.

    Raises:
        UsageError: delta outside (0, 1): a Gaussian has no pure eps; or confidence outside (0, 1).
    """
    check_delta(_NAME, delta)
    m = canaries_of(trials)
    coins = rng.integers(0, 2, size=m).astype(np.bool_)

    def worth(canaries: int, count: int, right: int, sure: float) -> float:
        return one_run_mu(canaries, count, right, sure, precision=_ROUGH)

    count, right = guesses(trials, coins, choose_guessing(trials, confidence, worth))
    bounds = (one_run_mu(m, *counts, confidence) for counts in ((count, right), (m, m)))
    epsilon, ceiling = (gaussian_epsilon(mu, delta) for mu in bounds)
    return epsilon, ceiling


def one_run_mu(
    canaries: int, guesses: int, right: int, confidence: float, precision: float = _PRECISION
) -> float:
    """The smallest mu of Gaussian DP that v right guesses of r do not refute, rounded down.

    A mu is refuted if right guesses that are as likely as 1 - confidence would need a total probability above
    1: see `least_total`. The number of guesses must be fixed in advance, and the coins fair and independent.

    Args:
        canaries: their number m.
        guesses: how many coins were guessed, r.
        right: how many of them were right, v.
        confidence: probability that the bound holds.
        precision: the bound is at most this much too small.

    >>> round(one_run_mu(1000, 1000, 1000, 0.95), 2)
    2.37

    Raises:
        UsageError: counts that do not fit, or confidence outside (0, 1).
    """
    check_level(_NAME, 0.0, confidence)
    check_counts(_NAME, canaries, guesses, right)

    def refuted(mu: float) -> bool:
        return least_total(canaries, guesses, right, 1.0 - confidence, gaussian_inverse(mu)) > 1.0

    low, high = 0.0, 1.0
    if not refuted(low):
        return low
    while refuted(high):
        low, high = high, 2.0 * high
    while high - low > precision:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def least_total(canaries: int, guesses: int, right: int, chance: float, inverse: Inverse) -> float:
    """The total probability of all counts of right guesses, at least, if v or more have this chance.

    With s_i the probability of i or more right guesses, a trade-off function f demands for every i that

        s_i >= (m inverse(((i + 1) s_(i + 1) + A) / m) + A + s_(i + 1)) / (r - i),  A = s_(i + 2) + ... + s_r.

    The right side increases in all s_j, so the least s_0 follows from s_v = chance and s_j = 0 for j > v.
    Once a step does not increase s, no later one does. A total above 1 is impossible: then v or more right
    guesses are less likely than `chance`. The recursion stops at the first s_i above 1.

    Args:
        canaries: their number m.
        guesses: how many are guessed, r.
        right: how many of them are right, v.
        chance: probability of v or more right guesses, in (0, 1).
        inverse: increasing and convex, 0 at 0.

    Source: as `one_run_fdp`; the derivation is in `docs/maths.md`, "Guesses of coins".
    """
    total, above = chance, 0.0
    for i in range(right - 1, -1, -1):
        hit = ((i + 1) * total + above) / canaries
        above += total
        least = (canaries * inverse(hit) + above) / (guesses - i)
        if least <= total:
            break
        total = least
        if total > 1.0:
            break
    return total


def gaussian_inverse(mu: float) -> Inverse:
    """The least probability of an event under N(0, 1) that has a given one under N(mu, 1)."""
    from scipy import special

    return lambda y: float(special.ndtr(special.ndtri(y) - mu)) if 0.0 < y < 1.0 else max(0.0, y)
