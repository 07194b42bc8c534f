"""How sure a mean is, and whether two systems differ: bounds, the paired t-test and Bonferroni's correction.

Source of the test: Wang et al. 2021, "Effective and Privacy-preserving Federated Online Learning to
Rank", table 2 (paired two-sided Student t-test with Bonferroni correction, stars at .05 and .01).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from foltr_audit.errors import UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints, read_only

LEVEL = 0.95
"""Confidence level of the interval of a mean difference."""

FEWEST = 3
"""Pairs that an interval needs to be shown: that of two pairs reaches 13 standard errors to either side."""

STARS = ((0.01, "**"), (0.05, "*"))
"""Limits of corrected p-values, and the mark of a difference below each."""

_ROUNDING = 2.0**-40  # relative to the largest value: differences that are closer together are equal
_STREAMS = Streams(0)
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
    from scipy.special import stdtr, stdtrit  # scipy.stats takes three times as long to import

    # In the order of scipy.stats.ttest_rel, for the same digits.
    error = math.sqrt(float(((differences - mean) ** 2).mean()) * (a.size / (a.size - 1)) / a.size)
    t, tail = mean / error, (1.0 - LEVEL) / 2.0
    low, high = stdtrit(a.size - 1, [tail, 1.0 - tail]) * error + mean
    return PairedTest(
        pairs=a.size,
        difference=mean,
        interval=(float(low), float(high)),
        t=t,
        p=2.0 * float(stdtr(a.size - 1, -abs(t))),
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


# --- bounds of a mean ------------------------------------------------------------------------------

TAIL = 0.025
"""The probability on either side of a 95 % interval; a one-sided 95 % bound has twice that beyond it."""

RESAMPLES = 1000

MOST_RESAMPLED = 2048
"""Of more values than this the mean is as good as normal, and nothing is resampled."""


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
        """About how many values like these would put both bounds on one side of a limit.

        None if no number would, since the mean is at the limit. The distance of a bound is taken as
        z spread / sqrt(n) + c / n, with the c that it has now: that of a normal mean, and what skewness and
        the ends of the range add, which falls faster.
        """
        if self.upper <= limit or self.lower > limit:
            return self.n
        room, reach = limit - self.mean, self.upper - self.mean
        if room < 0.0:
            room, reach = -room, self.mean - self.lower
        if not room > 0.0 or self.n < 2:
            return None
        normal = _ONE_SIDED * self.spread
        rest = max(0.0, self.n * reach - normal * math.sqrt(self.n))
        root = (normal + math.sqrt(normal**2 + 4.0 * room * rest)) / (2.0 * room)
        return max(self.n + 1, math.ceil(root**2))


_ONE_SIDED = 1.6448536269514722  # the .95 quantile of the normal distribution


def mean_bounds(values: Floats, lowest: float = 0.0, highest: float = 1.0) -> MeanBounds:
    """The mean of independent values (n,) between `lowest` and `highest`, with its bounds, see `mean_ends`.

    >>> found = mean_bounds(np.zeros(24), -1.0)
    >>> found.interval[0] < 0.0 < found.interval[1]
    True
    """
    if not values.size:
        return MeanBounds(math.nan, math.nan, 0, None, lowest, highest)
    mean, spread = float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else math.nan
    if values.size < FEWEST:
        return MeanBounds(mean, spread, values.size, None, lowest, highest)
    ends = mean_ends(values, lowest, highest)
    return MeanBounds(mean, spread, values.size, ends, *mean_ends(values, lowest, highest, 2.0 * TAIL))


def mean_ends(
    values: Floats,
    lowest: float,
    highest: float,
    tail: float = TAIL,
    *,
    counted: int | None = None,
    streams: Streams = _STREAMS,
) -> tuple[float, float]:
    """Ends beyond each of which the mean of all values lies with a probability of at most `tail`.

    The values (n,) are independent, and lie between `lowest` and `highest`, which may be infinite. If only
    some of them are informative, `counted` says how many.

    The ends are the farther ones of two intervals. That of Student's t on the logit scale of the range
    (Pepe 2003, "The statistical evaluation of medical tests", section 5.2) holds for heavy tails. Bootstrap-t
    (Efron 1979; Davison & Hinkley 1997, section 5.2.2) holds for skewed values; a resample without spread is
    infinitely far on either side. No end is nearer than the mean of the values and one more at the end of the
    range, since a rare large value may not be among them. No end is farther than that of Gaffke (2005, "Three
    test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable"), the mean
    of the values and one more at the end of the range under random weights: that of Clopper & Pearson (1934)
    where values are 0 or 1.

    >>> [round(end, 3) for end in mean_ends(np.ones(5), 0.0, 1.0)]
    [0.478, 1.0]
    """
    from scipy.special import stdtrit

    n, mean = values.size, float(values.mean())
    counted = n if counted is None else counted
    if np.ptp(values) <= max(_ROUNDING * np.abs(values).max(), _SMALLEST):
        unseen = 1.0 - tail ** (1.0 / counted)  # such a share of other values is missed with this probability
        return mean + unseen * (lowest - mean), mean + unseen * (highest - mean)
    error = float(values.std(ddof=1)) / math.sqrt(n)
    reach = -float(stdtrit(counted - 1, tail)) * error
    low, high = _logit_ends(mean, reach, lowest, highest, n)
    if n > MOST_RESAMPLED:
        return low, high
    t = studentised(values, streams)
    spread = float(values.std())
    low = min(low, mean - spread * _quantile(np.where(np.isnan(t), np.inf, t), 1.0 - tail))
    high = max(high, mean - spread * _quantile(np.where(np.isnan(t), -np.inf, t), tail))
    drawn, sums, more = _random_weights(streams, n)
    known, more = np.einsum("bq,q->b", drawn, values), n / counted * more
    if math.isfinite(lowest):
        low = min(low, mean + (lowest - mean) / (counted + 1))
        low = max(low, _quantile((known + more * lowest) / (sums + more), tail))
    if math.isfinite(highest):
        high = max(high, mean + (highest - mean) / (counted + 1))
        high = min(high, _quantile((known + more * highest) / (sums + more), 1.0 - tail))
    return low, high


def studentised(values: Floats, streams: Streams = _STREAMS) -> Floats:
    """How far the mean of each resample of values (n,) is, in its own spread, (R,); NaN without spread."""
    n, apart = values.size, values - values.mean()
    factors = _factors(streams, n)
    means = np.einsum("bq,q->b", factors, apart) / n
    squares = np.einsum("bq,q->b", factors, apart**2) / n
    spread = np.sqrt(np.maximum(squares - means**2, 0.0))
    blank = np.full(RESAMPLES, np.nan)
    return np.asarray(np.divide(means, spread, out=blank, where=spread > _FLAT * apart.std()))


_FLAT = 2.0**-20  # of the spread of all values: less in a resample comes from rounding


def simultaneous_tail(several: Sequence[Floats], tail: float = TAIL, streams: Streams = _STREAMS) -> float:
    """The tail for each of several means at which one of their lower ends or another is wrong as rarely.

    Each (n,) holds its values of the same queries. The means are joint in the resamples, and each end is as
    likely to be wrong as the others (Beran 1988, "Balanced simultaneous confidence sets"). Never less than by
    Bonferroni's correction, which is used where numbers of queries differ or are not resampled.
    """
    bonferroni = tail / len(several)
    if len({values.size for values in several}) > 1 or several[0].size > MOST_RESAMPLED:
        return bonferroni
    rarest = np.ones(RESAMPLES)
    for values in several:
        t = np.where(np.isnan(drawn := studentised(values, streams)), np.inf, drawn)
        rarest = np.minimum(rarest, 1.0 - np.searchsorted(np.sort(t), t) / RESAMPLES)
    return min(max(float(np.sort(rarest)[int(tail * RESAMPLES)]), bonferroni), tail)


@lru_cache(maxsize=4)
def resample_weights(streams: Streams, n: int) -> Ints:
    """How often each of n queries is drawn in each resample, int64 (R, n)."""
    draws = streams.generator("bootstrap").integers(0, max(n, 1), size=(RESAMPLES, n))
    return read_only(np.stack([np.bincount(draw, minlength=n) for draw in draws]), np.int64)


@lru_cache(maxsize=4)
def _factors(streams: Streams, n: int) -> Floats:
    """The same as floats, which are faster to sum."""
    return read_only(resample_weights(streams, n), np.float64)


@lru_cache(maxsize=4)
def _random_weights(streams: Streams, n: int) -> tuple[Floats, Floats, Floats]:
    """Random weights of n values, float64 (R, n), their sums (R,), and a weight of one value more (R,)."""
    drawn = streams.generator("bootstrap/weights").exponential(size=(RESAMPLES, n + 1))
    own: Floats = read_only(drawn[:, :n], np.float64)
    return own, own.sum(axis=1), drawn[:, n]


def _quantile(values: Floats, share: float) -> float:
    """The value below which a share of R lies; they may be infinite."""
    rank = min(round(share * (values.size - 1)), values.size - 1)
    return float(np.partition(values, rank)[rank])


def _logit_ends(mean: float, reach: float, lowest: float, highest: float, n: int) -> tuple[float, float]:
    """The ends of an interval that is symmetric on the logit scale of a range that is finite."""
    width = highest - lowest
    if not math.isfinite(width):
        return max(mean - reach, lowest), min(mean + reach, highest)
    edge = 0.5 / (n + 1)  # a mean at an end of the range has a place on the logit scale too
    share = min(max((mean - lowest) / width, edge), 1.0 - edge)
    step, at = reach / width / (share * (1.0 - share)), math.log(share / (1.0 - share))
    low, high = (lowest + width / (1.0 + math.exp(min(-x, 700.0))) for x in (at - step, at + step))
    return min(low, mean), max(high, mean)


# --- many tests ------------------------------------------------------------------------------------


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
