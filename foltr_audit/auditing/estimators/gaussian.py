"""A lower bound for normal noise, from the distance of the mean scores in standard deviations.

Confidence bounds on that distance come from the noncentral t law: T = (Z + c) / S has d degrees of freedom
and noncentrality c if Z is standard normal, S^2 is chi-squared with d degrees of freedom over d, and both
are independent.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.estimators.base import TrialScores, estimator, upper_rate
from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.utils.arrays import Floats, read_only

NORMAL = "noise that is normal or nearly so"
"""What these estimators assume."""

MOST_KURTOSIS = 1e-5
"""Largest excess kurtosis of a coordinate of nearly normal noise."""


def nearly_normal(law: AdditiveNoise | None, rounded_to: float = 0.0) -> bool:
    """Whether noise of this law is normal, or so nearly that `gaussian-dp` holds for it.

    It is valid for laws that are `like_normal` (Gaussian, Skellam, discrete Gaussian) if the variance v of
    the noise, in squared steps of the widest grid, is at least 100,000: a standard deviation of 317 steps.
    The excess kurtosis of Skellam noise is 1/v, that of a sum over several coordinates smaller. The discrete
    Gaussian and rounded normal noise have next to none, but the same steps between their values. All other
    noise is not nearly normal: even a sum of n Laplace variates has an excess kurtosis of 3/n.

    At this v the eps of one coordinate differs from that of normal noise of the same variance by less than a
    relative 1e-4 (deltas of 1e-9 and more, mu up to 3); the error falls as 1/v. The relative standard error
    of the bound is at least 1 / sqrt(2n): 7e-3 for n = 10,000 trials, 7e-4 for a million. At v = 100 the
    error is 4e-2, and bounds from 10,000 trials are above the truth too often.

    Args:
        law: of all observed noise, e.g. that of a sum; None where there is none or it is not known.
        rounded_to: width of the widest grid that a message is rounded to, before or after the noise; 0 if it
            is not rounded.
    """
    if law is None or not law.like_normal:
        return False
    rounded_to = max(rounded_to, law.grid)
    return law.variance * MOST_KURTOSIS >= rounded_to * rounded_to


def check_delta(name: str, delta: float) -> None:
    """Raise `UsageError` for a delta at which an estimator for normal noise has no epsilon."""
    if not delta > 0:
        raise UsageError(
            f"estimator {name}: delta={delta:g}; expected delta > 0: a Gaussian gives no eps at delta 0"
        )


# The trapezoidal rule over normal quantiles converges faster than any power of its step, since the integrand
# is smooth and vanishes at both ends: 1/8 and +-9 give an absolute 1e-13.
_REACH, _STEP = 9.0, 1.0 / 8.0
_NODES = np.arange(-_REACH, _REACH + _STEP, _STEP)
_WEIGHTS = _STEP * np.exp(-0.5 * _NODES**2) / math.sqrt(2.0 * math.pi)
_PRECISION = 1e-12  # relative, of the bound


def tail_probability(t: float, degrees: float, noncentrality: float) -> float:
    """P[T >= t] for t > 0, to an absolute 1e-13 or so.

    It is P[Z + c >= t S]. Of Z and t S the wider one is integrated analytically and the narrower one by the
    trapezoidal rule over its normal quantiles: so the integrand is smooth for any t and any degrees of
    freedom, and 150 nodes are enough.
    """
    from scipy import special

    half = 0.5 * degrees
    if t * t > 2.0 * degrees:  # the standard deviation of t S is about t / sqrt(2 d)
        reached = np.maximum(noncentrality + _NODES, 0.0) / t
        given = special.gammainc(half, half * reached * reached)
    else:
        given = special.ndtr(noncentrality - t * _scales(half))
    return float(np.sum(_WEIGHTS * given))


def noncentrality_bound(t: float, degrees: float, alpha: float) -> float:
    """Lower confidence bound on a noncentrality c >= 0: too large with probability alpha at most.

    The largest c with P[T >= t] <= alpha, rounded downwards; 0 where there is none. For t <= 0 it is 0.

    Args:
        t: the observed value of T.
        degrees: degrees of freedom, above 2; they need not be whole.
        alpha: probability that the bound is too large, in (0, 1).

    >>> round(noncentrality_bound(5.0, 18.0, 0.05), 3)
    2.813
    """
    if not t > 0 or tail_probability(t, degrees, 0.0) >= alpha:
        return 0.0
    low, high = 0.0, t
    while tail_probability(t, degrees, high) < alpha:
        low, high = high, 2.0 * high
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if tail_probability(t, degrees, middle) < alpha else (low, middle)
    return low


@lru_cache(maxsize=16)
def _scales(half: float) -> Floats:
    """Quantiles of S, of 2 half degrees of freedom, at the normal probabilities of the nodes; read-only."""
    from scipy import special

    below, above = _NODES[_NODES < 0], _NODES[_NODES >= 0]
    lower, upper = (
        special.gammaincinv(half, special.ndtr(below)),
        special.gammainccinv(half, special.ndtr(-above)),
    )
    scales: Floats = read_only(np.sqrt(np.concatenate([lower, upper]) / half), np.float64)
    return scales


_NAME = "gaussian-dp"

_UNITS = 1e9  # the bound is rounded down to 1e-9, since last digits of sums differ between processors
_NUISANCE = 0.02  # share of alpha that is spent on the correlation


@estimator(_NAME, assumes=f"{NORMAL}, and a score that is linear in the message")
def gaussian_dp(
    trials: TrialScores, delta: float, confidence: float, _rng: np.random.Generator
) -> tuple[float, float]:
    """Lower bound on mu of Gaussian DP from the means and the variance of the scores, and its eps at delta.

    *Assumes* that the scores are normal, with the same variance under both hypotheses. They are if the noise
    is normal and the score is linear in the message: the projection onto the shift, a linear discriminant, or
    the log likelihood ratio of such noise. `nearly_normal` says for which noise on a grid this holds.
    The scores of an attack, or of the equality of coordinates, are not linear.

    mu is then the distance of the two means in standard deviations, and (mean_1 - mean_0) / (s sqrt(2/n)) is
    noncentral t with noncentrality mu sqrt(n/2): see `mu_bound`. The bound is one-sided, since the
    direction was declared before the trials: higher scores are evidence for hypothesis 1. If in truth they
    are evidence against it, the bound is above 0 with probability 1 - confidence at most, and never above
    |mu| more often. No threshold is chosen: the part for choosing is not read.

    The assumption extrapolates to scores that no trial has shown. To limit this to what can be counted, the
    bound is never above the ceiling: the mu that n trials prove of any mu-GDP mechanism if a threshold
    separates all of them. Scores without noise reach it. A score that is infinite was not drawn from a
    normal law: then the bound is 0.

    *Guarantees* under this assumption: P(epsilon > true eps) <= 1 - confidence. For other noise it may be far
    too large.

    Source: Johnson & Welch 1940, "Applications of the non-central t-distribution", for the bound on mu; Dong,
    Roth & Su 2022, "Gaussian differential privacy", corollary 2.13, for eps; Nasr et al. 2023, "Tight
    auditing of differentially private machine learning", for audits under this assumption and the ceiling.

    Raises:
        UsageError: delta outside (0, 1): a Gaussian has no pure eps; or confidence outside (0, 1).
    """
    check_delta(_NAME, delta)
    alpha = 1.0 - confidence
    highest = _mu_without_errors(trials.evaluated, alpha)
    ceiling = gaussian_epsilon(highest, delta)
    epsilon = gaussian_epsilon(min(mu_bound(trials.zero, trials.one, alpha), highest), delta)
    return (epsilon if epsilon == ceiling else math.floor(epsilon * _UNITS) / _UNITS), ceiling


def mu_bound(zero: Floats, one: Floats, alpha: float) -> float:
    """Lower confidence bound on (mean_1 - mean_0) / sigma: too large with probability alpha at most.

    Scores at the same place may be correlated with a coefficient rho in [0, 1]: two sums hold the same noise
    of other clients. Their sum and their difference are independent of each other, so that
    s^2, the mean of both variances, is sigma^2 / (2n - 2) times (1 - rho) A + (1 + rho) B, with A and B
    chi-squared of n - 1 degrees of freedom each. By its first two moments that is chi-squared of
    2 (n - 1) / (1 + rho^2), exactly for rho = 0 and for rho = 1, and T / sqrt(1 - rho) is noncentral t.
    The bound is the smallest over a confidence interval for rho, which takes 1/50 of alpha. It is at one
    of its ends, since the variance of T, n / 2 times 2 (1 - rho) + mu^2 (1 + rho^2) / 4, is convex in rho.

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
    """Statistics of the pairs of scores at the same place, in units of the largest score.

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
    def of(cls, zero: Floats, one: Floats) -> _ScorePairs:
        """The statistics of finite scores (n,) each; the variance of constant scores is exactly 0."""
        largest = max(float(np.abs(zero).max()), float(np.abs(one).max())) or 1.0
        first, second = zero / largest, one / largest  # their squares neither overflow nor vanish
        from_first, from_second = first - first[0], second - second[0]
        apart = from_second - from_first
        return cls(
            gap=float(second[0] - first[0] + apart.mean()),
            apart=0.5 * float(apart.var(ddof=1)),
            common=0.5 * float((from_first + from_second).var(ddof=1)),
            pairs=zero.size,
        )

    def correlations(self, alpha: float) -> tuple[float, float]:
        """A confidence interval for rho in [0, 1]: it misses rho with probability alpha at most.

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


def _mu_without_errors(n: int, alpha: float) -> float:
    """The mu that n trials of each hypothesis without an error prove, by upper bounds of both error rates."""
    from scipy import special

    rate = float(upper_rate(0, n, 0.5 * alpha))
    return max(0.0, -2.0 * float(special.ndtri(rate)))
