"""Whether two systems differ: the paired t-test, its effect size, and Bonferroni's correction.

Source of the procedure: Wang et al. 2021, "Effective and Privacy-preserving Federated Online Learning to
Rank", table 2 (paired two-sided Student t-test with Bonferroni correction, stars at .05 and .01).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foltr_audit.errors import UsageError
from foltr_audit.judge.bootstrap import mean_ends
from foltr_audit.utils.arrays import Floats

LEVEL = 0.95
"""Confidence level of the interval of a mean difference."""

FEWEST = 3
"""Pairs that an interval needs to be shown: that of two pairs reaches 13 standard errors to either side."""

STARS = ((0.01, "**"), (0.05, "*"))
"""Limits of corrected p-values, and the mark of a difference below each."""

_ROUNDING = 2.0**-40  # relative to the largest value: differences that are closer together are equal
_SMALLEST = 1e-150  # squares of smaller differences would be 0


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """A paired two-sided Student t-test.

    The test assumes independent pairs. Runs on the same fold share its test queries, so the result holds for
    repeated trainings on these data, not for other data.

    Attributes:
        interval: 95 % interval of the mean difference, from Student's t with n - 1 degrees of freedom.
        t: the statistic; NaN where all differences are 0, infinite where they are equal but not 0.
        effect_size: Cohen's d_z, the mean difference over the standard deviation (n - 1) of the differences
            (Cohen 1988, section 2.3.5); undefined as t is.
    """

    pairs: int
    difference: float
    interval: tuple[float, float]
    t: float
    p: float
    effect_size: float

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval as reports show it; None for fewer than `FEWEST` pairs."""
        return self.interval if self.pairs >= FEWEST else None


def paired_t_test(a: Floats, b: Floats) -> PairedTest:
    """The test of a - b = 0 over pairs, each float64 (n,).

    Differences that are all 0 up to rounding have p = 1. Differences that are all equal up to rounding but
    not 0 have p = 0 and an infinite effect size.

    >>> paired_t_test(np.array([1.0, 3.0, 5.0]), np.array([0.0, 1.0, 2.0])).difference
    2.0
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise UsageError(f"t-test: values of shapes {a.shape} and {b.shape}; expected pairs")
    if a.size < 2:
        raise UsageError(f"t-test: {a.size} pairs; expected 2 or more")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise UsageError("t-test: values that are not finite; expected finite numbers")
    differences = a - b
    mean = float(differences.mean())
    rounding = max(_ROUNDING * max(np.abs(a).max(), np.abs(b).max()), _SMALLEST)
    if np.ptp(differences) <= rounding:  # no variance but that of rounding, which SciPy would divide by
        zero = bool(np.abs(differences).max() <= rounding)
        t = float("nan") if zero else float(np.copysign(np.inf, mean))
        ends = (mean, mean)
        return PairedTest(pairs=a.size, difference=mean, interval=ends, t=t, p=float(zero), effect_size=t)
    from scipy.stats import ttest_rel

    found = ttest_rel(a, b)
    low, high = found.confidence_interval(LEVEL)
    return PairedTest(
        pairs=a.size,
        difference=mean,
        interval=(float(low), float(high)),
        t=float(found.statistic),
        p=float(found.pvalue),
        effect_size=mean / float(differences.std(ddof=1)),
    )


def mean_interval(values: Floats, low: float = 0.0, high: float = 1.0) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean of values (n,), cut off at `low` and `high`.

    None for fewer than `FEWEST` values.

    >>> mean_interval(np.array([0.4, 0.42])) is None
    True
    """
    if values.size < FEWEST:
        return None
    ends = paired_t_test(values, np.zeros(values.size)).interval
    return max(ends[0], low), min(ends[1], high)


class MeanBounds(NamedTuple):
    """What some values say about the mean of all there could be.

    Attributes:
        mean: of the values; NaN without any.
        spread: their standard deviation (n - 1); NaN for fewer than two.
        n: how many they are.
        interval: two-sided 95 % interval; None for fewer than `FEWEST` values.
        lower, upper: one-sided 95 % bounds; the ends of the range for fewer than `FEWEST` values.
    """

    mean: float
    spread: float
    n: int
    interval: tuple[float, float] | None
    lower: float
    upper: float

    def needed(self, limit: float) -> int | None:
        """About how many values like these would bring `upper` to the limit; None if the mean is above it.

        The bound is taken as mean + z spread / sqrt(n) + c / n, with the c that it has now: that of a normal
        mean, and what skewness and the ends of the range add, which falls faster.
        """
        room = limit - self.mean
        if self.upper <= limit:
            return self.n
        if not room > 0.0 or self.n < 2:
            return None
        normal = _ONE_SIDED * self.spread
        rest = max(0.0, self.n * (self.upper - self.mean) - normal * math.sqrt(self.n))
        root = (normal + math.sqrt(normal**2 + 4.0 * room * rest)) / (2.0 * room)
        return max(self.n + 1, math.ceil(root**2))


_ONE_SIDED = 1.6448536269514722  # the .95 quantile of the normal distribution


def mean_bounds(values: Floats, lowest: float = 0.0, highest: float = 1.0) -> MeanBounds:
    """The mean of values (n,) between `lowest` and `highest`, and its bounds, see `bootstrap.mean_ends`.

    >>> found = mean_bounds(np.zeros(24), -1.0)
    >>> found.interval[0] < 0.0 < found.interval[1]
    True
    """
    if not values.size:
        return MeanBounds(math.nan, math.nan, 0, None, lowest, highest)
    mean, spread = float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else math.nan
    if values.size < FEWEST:
        return MeanBounds(mean, spread, values.size, None, lowest, highest)
    (low, high), (lower, upper) = mean_ends(values, lowest, highest)
    return MeanBounds(mean, spread, values.size, (low, high), lower, upper)


def bonferroni(p: Sequence[float]) -> list[float]:
    """P-values corrected for the number of comparisons: each times that number, at most 1.

    >>> bonferroni([0.01, 0.5])
    [0.02, 1.0]
    """
    return [min(value * len(p), 1.0) for value in p]


def stars(corrected: float) -> str:
    """The mark of a corrected p-value: `**` below .01, `*` below .05, else nothing.

    >>> stars(0.003), stars(0.05)
    ('**', '')
    """
    return next((mark for limit, mark in STARS if corrected < limit), "")
