"""Metrics with intervals over queries, since lists of one query are not independent.

A metric is a function of what was found of each query, each counted once. What it would be if a query
counted a little more is that query's influence on it (Hampel 1974, "The influence curve and its role in
robust estimation"). To first order the error of the metric is that of the mean of influences; so one rule,
`significance.mean_ends`, gives the interval of each metric, of each difference, and of the best of several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.results import UNKNOWN, Estimate, Interval
from foltr_audit.judge.significance import FEWEST, mean_bounds, mean_ends, resample_weights, simultaneous_tail
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints

Transform = Callable[[Floats], Floats]


class QueryMetric(Estimate):
    """A metric over queries, with the influence of each of them.

    Attributes:
        influence: float64 (Q,), with a sum of 0: by how much the metric would rise if a query counted twice.
            NaN for queries that have no part in it.
        lowest, highest: between which the metric lies; may be infinite.
        counted: how many queries inform it; no interval for fewer than `FEWEST`.
        streams: that resamples are drawn from.
        beside: metrics whose lower ends count too, see `least_of`.
    """

    __slots__ = ("beside", "counted", "highest", "influence", "lowest", "streams")

    def __init__(
        self,
        value: float,
        influence: Floats,
        lowest: float,
        highest: float,
        streams: Streams,
        *,
        counted: int | None = None,
        beside: Sequence[QueryMetric] = (),
    ) -> None:
        super().__init__(value, self._interval)
        self.influence, self.lowest, self.highest, self.streams = influence, lowest, highest, streams
        self.counted = int((~np.isnan(influence)).sum()) if counted is None else counted
        self.beside = beside

    @property
    def values(self) -> Floats:
        """Independent values, one of each query that has a part, whose mean is the metric."""
        known = self.influence[~np.isnan(self.influence)]
        return np.asarray(self.value + known.size * known)

    def _interval(self, tail: float) -> Interval | None:
        if self.counted < FEWEST or not self.known:
            return None
        if self.lowest == self.highest:
            return self.lowest, self.highest
        low, high = mean_ends(
            self.values, self.lowest, self.highest, tail, counted=self.counted, streams=self.streams
        )
        others = [-math.inf if ends is None else ends[0] for ends in (one.ends(tail) for one in self.beside)]
        low, high = max(min([low, *others]), self.lowest), min(high, self.highest)
        return (low, high) if math.isfinite(high - low) else None

    def needed(self, limit: float) -> int | None:
        """About how many queries would show it to be on one side of a limit, see `MeanBounds.needed`."""
        return mean_bounds(self.values, self.lowest, self.highest).needed(limit)

    def minus(self, other: QueryMetric) -> QueryMetric:
        """The difference to another metric of the same queries."""
        neither = np.isnan(self.influence) & np.isnan(other.influence)
        apart = np.nan_to_num(self.influence) - np.nan_to_num(other.influence)
        return QueryMetric(
            self.value - other.value,
            np.where(neither, np.nan, apart),
            self.lowest - other.highest,
            self.highest - other.lowest,
            self.streams,
            counted=min(self.counted, other.counted),
        )


def selected(best: Estimate, among: Sequence[Estimate]) -> Estimate:
    """A metric that was chosen as the highest among some of the same queries, and so is the luckiest too.

    The lower end of its interval holds for all of them together (`significance.simultaneous_tail`), hence for
    the one that was chosen; its upper end is its own.
    """
    joint = [metric for metric in among if isinstance(metric, QueryMetric) and metric.known]
    if not isinstance(best, QueryMetric) or len(joint) < 2:
        return best

    def ends(tail: float) -> Interval | None:
        own = best.ends(tail)
        every = best.ends(simultaneous_tail([metric.values for metric in joint], tail, best.streams))
        return None if own is None or every is None else (min(own[0], every[0]), own[1])

    return Estimate(best.value, ends)


def least_of(metrics: Sequence[QueryMetric]) -> Estimate:
    """The lowest of some metrics of the same queries; its lower end is the least of theirs.

    So it is shown to be above a number only where all of them are.
    """
    least = min(metrics, key=lambda metric: metric.value, default=None)
    if least is None:
        return UNKNOWN
    others = tuple(metric for metric in metrics if metric is not least)
    return QueryMetric(
        least.value,
        least.influence,
        least.lowest,
        least.highest,
        least.streams,
        counted=least.counted,
        beside=others,
    )


def mean_of(metrics: Sequence[QueryMetric]) -> QueryMetric:
    """The mean of at least one metric with the same range; each may be of some of the queries."""
    influences = np.stack([metric.influence for metric in metrics])
    nobody = np.isnan(influences).all(axis=0)
    influence = np.where(nobody, np.nan, np.nan_to_num(influences).mean(axis=0))
    value = sum(metric.value for metric in metrics) / len(metrics)
    first = metrics[0]
    return QueryMetric(value, influence, first.lowest, first.highest, first.streams)


def above_all(metric: QueryMetric, others: Sequence[QueryMetric]) -> Estimate:
    """A metric less the highest of some others of the same queries.

    The highest may be so by luck: it is shown to be above 0 only where the differences to all others are, and
    below 0 only where a difference is below it that is tested together with the rest.
    """
    apart = [metric.minus(other) for other in others if other.known]
    least = least_of(apart)

    def ends(tail: float) -> Interval | None:
        lower = least.ends(tail)
        each = simultaneous_tail([-one.values for one in apart], tail, metric.streams)
        uppers = [one.ends(each) for one in apart]
        if lower is None or None in uppers:
            return None
        return lower[0], min(upper[1] for upper in uppers if upper is not None)

    return Estimate(least.value, ends) if least.known else UNKNOWN


class QueryBootstrap:
    """The queries of some lists; a resample draws queries with all their lists.

    Attributes:
        names: the queries, (Q,).
        cluster: number of each list's query, int64 (L,).
    """

    def __init__(self, query: NDArray[np.str_], streams: Streams) -> None:
        """The queries (L,) of L lists; resamples follow from the streams and the number of queries."""
        self.names, self.cluster = np.unique(query, return_inverse=True)
        self.streams = streams

    @property
    def weights(self) -> Ints:
        """How often each query was drawn in each resample, int64 (R, Q)."""
        return resample_weights(self.streams, self.names.size)

    def mean(self, values: Floats, lowest: float = -math.inf, highest: float = math.inf) -> QueryMetric:
        """Mean of values (L,) over the lists where they are defined (no NaN)."""
        defined = ~np.isnan(values)
        total = float(values[defined].sum()), float(defined.sum())
        return self._ratio(np.where(defined, values, 0.0), defined, total, lowest, highest)

    def share(self, values: Floats) -> QueryMetric:
        """As `mean`, of values between 0 and 1."""
        return self.mean(values, 0.0, 1.0)

    def constant(self, value: float) -> QueryMetric:
        """A metric that does not depend on the queries."""
        return QueryMetric(value, np.zeros(self.names.size), value, value, self.streams)

    def ratio(
        self,
        numerators: Floats,
        denominators: Floats,
        transform: Transform | None = None,
        *,
        lowest: float = -math.inf,
        highest: float = math.inf,
    ) -> Estimate:
        """Sum of numerators over sum of denominators, both (L,), or a function of that.

        The ratio of each query lies between `lowest` and `highest`. The interval of a function holds all its
        values over that of the ratio.
        """
        total = float(numerators.sum()), float(denominators.sum())
        ratio = self._ratio(numerators, denominators, total, lowest, highest)
        if transform is None or not ratio.known:
            return ratio

        def image(tail: float) -> Interval | None:
            ends = ratio.ends(tail)
            if ends is None:
                return None
            values = transform(np.append(np.linspace(*ends, _POINTS), ratio.value))
            return float(values.min()), float(values.max())

        return Estimate(float(transform(np.array([ratio.value]))[0]), image)

    def _ratio(
        self,
        numerators: Floats,
        denominators: Floats | Bools,
        total: tuple[float, float],
        lowest: float,
        highest: float,
    ) -> QueryMetric:
        sums, counts = self._by_query(numerators), self._by_query(denominators)
        value = total[0] / total[1] if total[1] > 0.0 else math.nan
        with np.errstate(invalid="ignore", divide="ignore"):
            influence = np.where(counts > 0.0, (sums - value * counts) / total[1], np.nan)
        return QueryMetric(value, influence, lowest, highest, self.streams)

    def _by_query(self, values: Floats | Bools) -> Floats:
        return np.bincount(self.cluster, weights=values, minlength=self.names.size).astype(np.float64)


_POINTS = 201  # at which a function of a ratio is looked at
