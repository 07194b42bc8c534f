"""Exact upper bounds of error rates, and the epsilon that two of them prove."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.frozen_arrays import read_only


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
