"""Means with 95 % intervals by bootstrap over queries, since lists of one query are not independent.

A resample holds only what some query showed: if five lists are all right, every resample is. The interval of
a share, i.e. of any value between 0 and 1, is therefore widened near these ends; see `share_interval`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.results import UNKNOWN, Estimate, Interval
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints, read_only

RESAMPLES = 1000

FEW = 5
"""If fewer queries carry the hits, or the misses, of a share, its interval is widened."""

TAIL = 0.025
"""The probability on either side of a 95 % interval."""

_BUFFER = 8192  # numbers that NumPy converts at a time
_ROUNDING = 1e-12  # a share below this counts as 0

Transform = Callable[[Floats], Floats]


class ResampledMetric(NamedTuple):
    """A metric in each resample, float64 (R,), NaN where it is not defined; and how many queries have it."""

    draws: Floats
    queries: int


class BootstrapDistribution:
    """A metric of all lists, and of the lists of each resample, which are drawn when somebody asks for them.

    With `share` it lies between 0 and 1, so that its interval is that of a share.
    """

    def __init__(self, value: float, resample: Callable[[], ResampledMetric], *, share: bool = False) -> None:
        self.value, self.share = value, share
        self._resample = resample

    @cached_property
    def _resampled(self) -> ResampledMetric:
        return self._resample()

    @property
    def draws(self) -> Floats:
        return self._resampled.draws

    @property
    def score(self) -> Estimate:
        return Estimate(self.value, self._ends)

    def _ends(self) -> Interval | None:
        draws, queries = self._resampled
        return share_interval(self.value, draws, queries) if self.share else interval(draws, queries)

    def minus(self, other: BootstrapDistribution) -> Estimate:
        """The difference to another metric in the same resamples.

        Where either interval is wider than its resamples, the interval of the difference takes in all
        differences between the two.
        """
        queries = min(self._resampled.queries, other._resampled.queries)
        ends = interval(self.draws - other.draws, queries)
        mine, theirs = self.score.ci95, other.score.ci95
        widened = mine != interval(*self._resampled) or theirs != interval(*other._resampled)
        if ends is not None and mine is not None and theirs is not None and widened:
            ends = min(ends[0], mine[0] - theirs[1]), max(ends[1], mine[1] - theirs[0])
        return Estimate(self.value - other.value, ends)


class QueryBootstrap:
    """Queries drawn with replacement, each with all its lists (Davison & Hinkley 1997, section 3.8).

    Attributes:
        names: the queries, (Q,).
        cluster: number of each list's query, int64 (L,).
        weights: how often each query was drawn, int64 (R, Q).
    """

    def __init__(self, query: NDArray[np.str_], streams: Streams, resamples: int = RESAMPLES) -> None:
        """R resamples of the queries (L,) of L lists; they follow from the seed and the number of queries."""
        self.names, self.cluster = np.unique(query, return_inverse=True)
        self._streams, self._resamples = streams, resamples
        self._known_totals: dict[bytes, Floats] = {}

    @property
    def weights(self) -> Ints:
        """How often each query was drawn, int64 (R, Q); a large array that only a cache keeps."""
        return _drawn_weights(self._streams, self.names.size, self._resamples)

    @property
    def everybody(self) -> Ints:
        """The weights under which every query counts once, int64 (1, Q)."""
        return read_only(np.ones((1, self.names.size)), np.int64)

    @property
    def _factors(self) -> Ints | Floats:
        return _as_factors(self._streams, self.names.size, self._resamples)

    def mean(self, values: Floats) -> Estimate:
        """Mean of values (L,) over the lists where they are defined (no NaN)."""
        return self.means(values).score

    def share(self, values: Floats) -> Estimate:
        """As `mean`, of values between 0 and 1; the interval is valid at these ends too."""
        return self.means(values, share=True).score

    def means(self, values: Floats, *, share: bool = False) -> BootstrapDistribution:
        """As `mean` or `share`, with the mean of every resample."""
        defined = ~np.isnan(values)

        def resample() -> ResampledMetric:
            return self._ratios(self._by_query(np.where(defined, values, 0.0)), self._by_query(defined))

        mean = float(values[defined].mean()) if defined.any() else math.nan
        return BootstrapDistribution(mean, resample, share=share)

    def ratio(
        self,
        numerators: Floats,
        denominators: Floats,
        transform: Transform | None = None,
        *,
        share: bool = False,
    ) -> Estimate:
        """Sum of numerators over sum of denominators, both (L,), or a function of that.

        With `share` each ratio lies between 0 and 1, so that its interval is that of a share.
        """
        total = float(denominators.sum())
        if not total > 0:
            return UNKNOWN
        ratio = np.array([float(numerators.sum()) / total])
        value = ratio if transform is None else transform(ratio)

        def resample() -> ResampledMetric:
            found = self._ratios(self._by_query(numerators), self._by_query(denominators))
            return found if transform is None else found._replace(draws=transform(found.draws))

        return BootstrapDistribution(float(value[0]), resample, share=share).score

    def _by_query(self, values: Floats | Bools) -> Floats:
        return np.bincount(self.cluster, weights=values, minlength=self.names.size).astype(np.float64)

    def _ratios(self, sums: Floats, counts: Floats) -> ResampledMetric:
        """Sums over counts, both by query (Q,), in each resample."""
        totals = self._totals(counts)
        # A resample may hold no query with a value: it is NaN and left out, instead of a division by 0.
        blank = np.full_like(totals, np.nan)
        drawn = np.einsum("bq,q->b", self._factors, sums)
        ratios: Floats = np.divide(drawn, totals, out=blank, where=totals > 0)
        return ResampledMetric(ratios, int((counts > 0).sum()))

    def _totals(self, counts: Floats) -> Floats:
        """The sum of counts (Q,) in each resample, (R,); most metrics have the same counts."""
        key = counts.tobytes()
        if key not in self._known_totals:
            self._known_totals[key] = np.einsum("bq,q->b", self._factors, counts)
        return self._known_totals[key]


@lru_cache(maxsize=4)
def _drawn_weights(streams: Streams, queries: int, resamples: int) -> Ints:
    """How often each query is drawn, int64 (R, Q); the cells of a comparison share them."""
    draws = streams.generator("bootstrap").integers(0, max(queries, 1), size=(resamples, queries))
    return read_only(np.stack([np.bincount(draw, minlength=queries) for draw in draws]), np.int64)


@lru_cache(maxsize=1)
def _as_factors(streams: Streams, queries: int, resamples: int) -> Ints | Floats:
    """The same in the form in which sums over all queries are faster, (R, Q).

    Integers are converted a buffer at a time, and these buffers are summed by themselves: the bytes are the
    same up to one of them.
    """
    weights = _drawn_weights(streams, queries, resamples)
    return weights.astype(np.float64) if queries <= _BUFFER else weights


def interval(resampled: Floats, queries: int) -> Interval | None:
    """The middle 95 % of resampled values without NaN, if at least two queries have a value."""
    known = resampled[~np.isnan(resampled)]
    if queries < 2 or not known.size:
        return None
    low, high = np.quantile(known, [TAIL, 1 - TAIL])
    return float(low), float(high)


def share_interval(value: float, resampled: Floats, queries: int) -> Interval | None:
    """95 % interval of a share, valid near 0 and 1 as well.

    It is the middle of the resamples. Where fewer than `FEW` queries carry the hits or the misses, it is
    widened to the interval of Clopper & Pearson (1934) for independent trials, one for each query. The number
    of queries that carry the hits is an effective one (Kish 1965, "Survey sampling", section 11.7): if each
    query is either right or wrong, it is the number of right ones.

    >>> share_interval(1.0, np.ones(1000), 5)
    (0.4781762498950185, 1.0)
    """
    ends = interval(resampled, queries)
    if ends is None:
        return None
    spread = queries * float(np.nanvar(resampled))
    carried = min(_carriers(value, spread, queries), _carriers(1.0 - value, spread, queries))
    if carried >= FEW:
        return ends
    low, high = binomial_interval(value * queries, queries)
    return min(ends[0], low), max(ends[1], high)


def _carriers(share: float, spread: float, queries: int) -> float:
    """The effective number of queries that carry a share, if their values vary by `spread`."""
    return queries * (share / math.hypot(share, math.sqrt(spread))) ** 2 if share > _ROUNDING else 0.0


def binomial_interval(hits: float, trials: int, tail: float = TAIL) -> Interval:
    """Interval of a probability after `hits` in `trials` trials (Clopper & Pearson 1934).

    It misses the probability with a probability of at most `tail` on either side.

    >>> [round(end, 3) for end in binomial_interval(0, 10)]
    [0.0, 0.308]
    """
    from scipy.special import betaincinv

    misses = trials - hits
    low = float(betaincinv(hits, misses + 1.0, tail)) if hits > 0.0 else 0.0
    high = float(betaincinv(hits + 1.0, misses, 1.0 - tail)) if misses > 0.0 else 1.0
    return low, high


def mean_ends(values: Floats, lowest: float, highest: float) -> tuple[Interval, Interval]:
    """Two-sided 95 % interval of the mean of values (n,), and its one-sided 95 % bounds.

    Bootstrap-t (Efron 1979): quantiles of the mean of each resample in its own standard errors; one without
    spread is infinitely far. Each end is at most as far as that of Gaffke (2005), which knows that values lie
    between `lowest` and `highest`: a mean with random weights of the values and of that end of the range.
    """
    n, mean = values.size, float(values.mean())
    weights = _drawn_weights(Streams(0), n, RESAMPLES)
    means = weights @ values / n
    spread = np.sqrt(np.maximum(weights @ (values - mean) ** 2 / n - (means - mean) ** 2, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(spread > _ROUNDING, (means - mean) / spread, np.copysign(np.inf, means - mean))
    shares = _dirichlet(n)
    ends = []
    for tail in (TAIL, 2 * TAIL):
        below, above = (float(np.quantile(t, q, method="nearest")) for q in (tail, 1 - tail))
        own = float(values.std())
        reach = [0.0 if own <= _ROUNDING else own * q for q in (above, below)]
        low, high = (shares[:, :n] @ values + shares[:, n] * end for end in (lowest, highest))
        far = float(np.quantile(low, tail)), float(np.quantile(high, 1 - tail))
        ends.append(far if own <= _ROUNDING else (max(mean - reach[0], far[0]), min(mean - reach[1], far[1])))
    return ends[0], ends[1]


@lru_cache(maxsize=4)
def _dirichlet(n: int) -> Floats:
    """Random shares of n values and an end of their range, which sum to 1, float64 (R, n + 1)."""
    drawn = Streams(0).generator("bootstrap/shares").exponential(size=(RESAMPLES, n + 1))
    return read_only(drawn / drawn.sum(axis=1, keepdims=True), np.float64)
