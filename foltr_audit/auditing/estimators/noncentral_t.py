"""The noncentral t law: confidence bounds on how far a mean lies from 0, in standard deviations.

T = (Z + c) / S is noncentral t with d degrees of freedom and noncentrality c if Z is standard normal, S^2 is
chi-squared with d degrees of freedom over d, and both are independent.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.frozen_arrays import read_only

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
