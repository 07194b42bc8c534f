"""A lower bound for Gaussian noise: how far the means of the scores lie apart in standard deviations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.auditing.estimators.base import LowerBound, TrialScores, check_level
from foltr_audit.auditing.estimators.noncentral_t import noncentrality_bound
from foltr_audit.auditing.estimators.rates import upper_rate
from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon

NAME = "gaussian-dp"
ASSUMES = "noise that is normal or nearly so, and a score that is linear in the message"

_UNITS = 1e9  # in 1: the bound is rounded down, since the last digits of sums differ between processors
_NUISANCE = 0.02  # share of alpha that is spent on the correlation


def gaussian_dp(
    trials: TrialScores, *, delta: float, confidence: float, rng: np.random.Generator
) -> LowerBound:
    """Lower bound on mu of Gaussian DP from the means and the variance of the scores, and its eps at delta.

    *Assumes* that the scores are normal, with the same variance under both hypotheses. They are if the noise
    is normal and the score is linear in the message: the projection onto the shift, a linear discriminant, or
    the log likelihood ratio of such noise. `nearly_normal` tells for which noise on a grid all this is close
    enough. The scores of an attack, or of the equality of coordinates, are not linear.

    mu is then the distance of the two means in standard deviations, and (mean_1 - mean_0) / (s sqrt(2/n)) is
    noncentral t with noncentrality mu sqrt(n/2): see `mu_bound`. The bound is one-sided, since higher scores
    were declared to speak for hypothesis 1 before the trials: if in truth they speak against it, the bound is
    above 0 with probability 1 - confidence at most, and never above |mu| more often. No threshold is chosen:
    the part for choosing is not read.

    The assumption says how likely scores are that no trial has shown. To rely on it no further than on what
    can be counted, the bound is never above the ceiling: the mu that n trials show of any mechanism that is
    mu-GDP if a threshold tells all of them right. Scores without noise reach it. A score that is infinite
    was not drawn from a normal law: then the bound is 0.

    *Guarantees* under this assumption: P(epsilon > true eps) <= 1 - confidence. For other noise it may be far
    too large.

    Source: Johnson & Welch 1940, "Applications of the non-central t-distribution", for the bound on mu; Dong,
    Roth & Su 2022, "Gaussian differential privacy", corollary 2.13, for eps; Nasr et al. 2023, "Tight
    auditing of differentially private machine learning", for audits under this assumption and the ceiling.

    Raises:
        UsageError: delta outside (0, 1): a Gaussian has no pure eps; or confidence outside (0, 1).
    """
    del rng
    check_level(NAME, delta, confidence)
    if not delta > 0:
        raise UsageError(
            f"estimator {NAME}: delta={delta:g}; expected delta > 0: a Gaussian gives no eps at delta 0"
        )
    alpha, n = 1.0 - confidence, trials.evaluated
    highest = _without_errors(n, alpha)
    ceiling = gaussian_epsilon(highest, delta)
    epsilon = gaussian_epsilon(min(mu_bound(trials.zero, trials.one, alpha), highest), delta)
    return LowerBound(
        estimator=NAME,
        epsilon=epsilon if epsilon == ceiling else math.floor(epsilon * _UNITS) / _UNITS,
        ceiling=ceiling,
        confidence=confidence,
        delta=delta,
        trials=n,
        assumes=ASSUMES,
    )


def mu_bound(zero: NDArray[np.float64], one: NDArray[np.float64], alpha: float) -> float:
    """Lower confidence bound on (mean_1 - mean_0) / sigma: too large with probability alpha at most.

    Scores at the same place may be correlated with a coefficient rho in [0, 1], as those of two sums with the
    same noise of other clients are. Their sum and their difference are independent of each other, so that
    s^2, the mean of both variances, is sigma^2 / (2n - 2) times (1 - rho) A + (1 + rho) B, with A and B
    chi-squared of n - 1 degrees of freedom each. By its first two moments that is chi-squared of
    2 (n - 1) / (1 + rho^2), exactly so for rho = 0 and for rho = 1, and T / sqrt(1 - rho) is noncentral t.
    The bound is the smallest over a confidence interval for rho, to which 1/50 of alpha goes. It is at one of
    the ends, since the variance of T, n / 2 times 2 (1 - rho) + mu^2 (1 + rho^2) / 4, is convex in rho.

    Args:
        zero: scores under hypothesis 0, (n,).
        one: those under hypothesis 1, (n,).
        alpha: probability that the bound is too large, in (0, 1).

    Returns:
        At least 0; infinite for different scores without any noise; 0 if a score is infinite.

    Source: Johnson & Welch 1940 (as `gaussian_dp`) for rho = 0; Satterthwaite 1946, "An approximate
    distribution of estimates of variance components", for the degrees of freedom; Berger & Boos 1994, "P
    values maximized over a confidence set for the nuisance parameter", for rho.
    """
    if not (np.isfinite(zero).all() and np.isfinite(one).all()):
        return 0.0
    seen = _ScorePairs.of(zero, one)
    sigma = math.sqrt(0.5 * (seen.apart + seen.common))
    if sigma == 0 or not seen.gap > 0:
        return math.inf if seen.gap > 0 else 0.0
    nuisance = _NUISANCE * alpha
    return min(
        bound_at(rho, seen.gap / sigma, zero.size, alpha - nuisance) for rho in seen.correlations(nuisance)
    )


class _ScorePairs(NamedTuple):
    """What pairs of scores at the same place show, in one unit of scores.

    Attributes:
        gap: mean_1 - mean_0.
        apart: half of the variance of their difference, sigma^2 (1 - rho).
        common: half of the variance of their sum, sigma^2 (1 + rho).
        pairs: their number n.
    """

    gap: float
    apart: float
    common: float
    pairs: int

    @classmethod
    def of(cls, zero: NDArray[np.float64], one: NDArray[np.float64]) -> _ScorePairs:
        """Those of finite scores (n,) each; constant scores have no variance at all, not a rounded one."""
        largest = max(float(np.abs(zero).max()), float(np.abs(one).max())) or 1.0
        first, second = zero / largest, one / largest  # squares of them neither overflow nor vanish
        from_first, from_second = first - first[0], second - second[0]
        apart = from_second - from_first
        return cls(
            gap=float(second[0] - first[0] + apart.mean()),
            apart=0.5 * float(apart.var(ddof=1)),
            common=0.5 * float((from_first + from_second).var(ddof=1)),
            pairs=zero.size,
        )

    def correlations(self, alpha: float) -> tuple[float, float]:
        """A confidence interval for rho in [0, 1]: it leaves it out with probability alpha at most.

        The ratio of both variances is (1 + rho) / (1 - rho) times a variate of F with n - 1 and n - 1 degrees
        of freedom.
        """
        from scipy import special

        half = 0.5 * (self.pairs - 1)
        share = float(special.betainccinv(half, half, 0.5 * alpha))  # of F in F + 1
        low, high = (
            (self.common * (1.0 - part) - self.apart * part)
            / (self.common * (1.0 - part) + self.apart * part)
            for part in (share, 1.0 - share)
        )
        return max(0.0, low), max(0.0, high)


def bound_at(rho: float, distance: float, n: int, alpha: float) -> float:
    """The bound on mu if rho is known; `distance` is that of the means in estimated standard deviations."""
    from scipy import special

    if rho == 1.0:  # the difference of the means is known, only s is random
        half = 0.5 * (n - 1)
        return distance * math.sqrt(float(special.gammaincinv(half, alpha)) / half)
    error = math.sqrt(2.0 * (1.0 - rho) / n)
    return error * noncentrality_bound(distance / error, 2.0 * (n - 1) / (1.0 + rho * rho), alpha)


def _without_errors(n: int, alpha: float) -> float:
    """The mu that no error in n trials of each hypothesis proves, by upper bounds of both error rates."""
    from scipy import special

    rate = float(upper_rate(0, n, 0.5 * alpha))
    return max(0.0, -2.0 * float(special.ndtri(rate)))
