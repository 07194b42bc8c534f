"""Means with 95 % intervals by bootstrap over queries: lists of one query are alike, so queries are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

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


class Resampled(NamedTuple):
    """A metric of all lists, and of the lists of each resample.

    Attributes:
        value: of all lists.
        draws: of each resample, float64 (R,), NaN where it is not defined.
        queries: how many queries speak.
    """

    value: float
    draws: NDArray[np.float64]
    queries: int

    @property
    def score(self) -> Score:
        """The value with its interval."""
        return Score(self.value, interval(self.draws, self.queries))

    def minus(self, other: Resampled) -> Resampled:
        """The difference to another metric in the same resamples."""
        queries = min(self.queries, other.queries)
        return Resampled(self.value - other.value, self.draws - other.draws, queries)


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
        return self.means(values).score

    def means(self, values: NDArray[np.float64]) -> Resampled:
        """As `mean`, with the mean of every resample."""
        defined = ~np.isnan(values)
        if not defined.any():
            return Resampled(float("nan"), np.full(len(self.weights), np.nan), 0)
        sums, counts = self._by_query(np.where(defined, values, 0.0)), self._by_query(defined)
        return Resampled(float(values[defined].mean()), self._ratios(sums, counts), int((counts > 0).sum()))

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
        draws = self._ratios(sums, counts)
        return Score(
            float(value[0]),
            interval(draws if transform is None else transform(draws), int((counts > 0).sum())),
        )

    def _by_query(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.bincount(self.cluster, weights=values, minlength=self.names.size).astype(np.float64)

    def _ratios(self, sums: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over counts, both by query (Q,), in each resample, (R,)."""
        totals = np.einsum("bq,q->b", self.weights, counts)
        blank = np.full_like(totals, np.nan)
        ratios: NDArray[np.float64] = np.divide(
            np.einsum("bq,q->b", self.weights, sums), totals, out=blank, where=totals > 0
        )
        return ratios


def interval(resampled: NDArray[np.float64], queries: int) -> Interval | None:
    """The middle 95 % of resampled values, if at least two queries speak; NaN does not count."""
    known = resampled[~np.isnan(resampled)]
    if queries < 2 or not known.size:
        return None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)
