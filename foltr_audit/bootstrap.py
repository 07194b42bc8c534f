"""Means with 95 % intervals by bootstrap over queries: lists of one query are alike, so queries are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.rng import Streams

RESAMPLES = 1000

Interval = tuple[float, float]
Transform = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Score:
    """One metric: its value, and its 95 % interval (None where fewer than two queries speak)."""

    value: float
    ci95: Interval | None


NOTHING = Score(float("nan"), None)
"""The score of what is not defined."""


class Resamples:
    """Queries drawn with replacement, each with all its lists (Davison & Hinkley 1997, section 3.8).

    Attributes:
        names: the queries, (Q,).
        cluster: number of each list's query, int64 (L,).
        weights: how often each query was drawn, int64 (R, Q).
    """

    def __init__(self, query: NDArray[np.str_], streams: Streams, resamples: int = RESAMPLES) -> None:
        """Draw R resamples of the queries of L lists; they depend on the seed and the number of queries only.

        Args:
            query: name of each list's query, (L,).
            streams: named random streams.
            resamples: how many.
        """
        self.names, self.cluster = np.unique(query, return_inverse=True)
        n = self.names.size
        draws = streams.generator("bootstrap").integers(0, max(n, 1), size=(resamples, n))
        self.weights = np.stack([np.bincount(draw, minlength=n) for draw in draws]).astype(np.int64)

    def mean(self, values: NDArray[np.float64]) -> Score:
        """Mean of values (L,) over the lists where they are defined (no NaN)."""
        defined = ~np.isnan(values)
        if not defined.any():
            return NOTHING
        sums = self._by_query(np.where(defined, values, 0.0))
        counts = self._by_query(defined)
        return Score(float(values[defined].mean()), self._interval_of(sums, counts))

    def ratio(
        self,
        numerators: NDArray[np.float64],
        denominators: NDArray[np.float64],
        transform: Transform | None = None,
    ) -> Score:
        """Sum of numerators over sum of denominators, both (L,), or a function of that.

        Args:
            numerators: e.g. errors in each list.
            denominators: e.g. documents of each list.
            transform: what is scored of the ratio; itself where it is not given.
        """
        total = float(denominators.sum())
        if not total > 0:
            return NOTHING
        ratio = np.array([float(numerators.sum()) / total])
        sums, counts = self._by_query(numerators), self._by_query(denominators)
        value = ratio if transform is None else transform(ratio)
        return Score(float(value[0]), self._interval_of(sums, counts, transform))

    def _by_query(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.bincount(self.cluster, weights=values, minlength=self.names.size).astype(np.float64)

    def _interval_of(
        self, sums: NDArray[np.float64], counts: NDArray[np.float64], transform: Transform | None = None
    ) -> Interval | None:
        totals = np.einsum("bq,q->b", self.weights, counts)
        means = np.divide(
            np.einsum("bq,q->b", self.weights, sums),
            totals,
            out=np.full_like(totals, np.nan),
            where=totals > 0,
        )
        return interval(means if transform is None else transform(means), int((counts > 0).sum()))


def interval(resampled: NDArray[np.float64], queries: int) -> Interval | None:
    """The middle 95 % of resampled values, if at least two queries speak; NaN does not count."""
    known = resampled[~np.isnan(resampled)]
    if queries < 2 or not known.size:
        return None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)
