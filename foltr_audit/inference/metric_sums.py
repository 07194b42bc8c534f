"""Exact likelihood of each rank behind a mean of reciprocal ranks.

Multiplied by a common multiple of the ranks, reciprocal ranks are whole numbers (2520 / r for ranks up to
10), and so is their sum. A mean is decoded without rounding, and its likelihood is a sum over finitely many
states.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.utils.arrays import Floats, Ints

MOST_SUMS = 1 << 16
"""Most distinct sums; tables of more would take too much memory."""


class ReciprocalRankSums(NamedTuple):
    """The possible sums of some reciprocal ranks, in whole units.

    Attributes:
        unit: units in 1: the least common multiple of the ranks.
        totals: sums of n values, sorted, int64 (T,).
        after: index, among the sums of j + 1 values, of a sum of j plus value r, int32 (n, widest, v).
        sizes: number of distinct sums of j values, j = 0 .. n, int64 (n + 1,).
    """

    unit: int
    totals: Ints
    after: NDArray[np.int32]
    sizes: Ints

    def nearest(self, means: Floats) -> Ints:
        """Index of the sum nearest to each mean (m,) of n values, int64 (m,)."""
        wanted = means * (self.sizes.size - 1) * self.unit
        right = np.clip(np.searchsorted(self.totals, wanted), 1, max(1, self.totals.size - 1))
        if self.totals.size < 2:
            return np.zeros(means.size, dtype=np.int64)
        low, high = self.totals[right - 1], self.totals[right]
        return np.asarray(np.where(wanted - low <= high - wanted, right - 1, right), dtype=np.int64)


def reciprocal_ranks(k: int) -> Floats:
    """The values of MaxRR on lists of up to k documents: 0 without a click, else 1 / rank; float64 (k + 1,).

    >>> reciprocal_ranks(2).tolist()
    [0.0, 1.0, 0.5]
    """
    return np.concatenate([[0.0], 1.0 / np.arange(1, k + 1)])


@lru_cache(maxsize=16)
def reachable_sums(n: int, k: int) -> ReciprocalRankSums | None:
    """The sums of n reciprocal ranks of up to k documents each; None if there are more than `MOST_SUMS`."""
    unit = math.lcm(*range(1, k + 1))
    values = np.array([0, *(unit // rank for rank in range(1, k + 1))], dtype=np.int64)
    levels, tables = [np.zeros(1, dtype=np.int64)], []
    for _ in range(n):
        ahead = levels[-1][:, np.newaxis] + values
        levels.append(np.unique(ahead))
        if levels[-1].size > MOST_SUMS:
            return None
        tables.append(np.searchsorted(levels[-1], ahead).astype(np.int32))
    after = np.zeros((n, max((len(table) for table in tables), default=1), k + 1), dtype=np.int32)
    for j, table in enumerate(tables):
        after[j, : len(table)] = table
    return ReciprocalRankSums(unit, levels[-1], after, np.array([level.size for level in levels]))


def mean_likelihoods(means: Floats, laws: Floats) -> Floats:
    """P(mean | value r of interaction i), where the others follow their laws: float64 (m, n, v).

    A mean may be rounded: the nearest possible mean of n values is used.

    Args:
        means: mean of n reciprocal ranks each, (m,).
        laws: P(value) of every interaction in the order of `reciprocal_ranks`, (m, n, v).

    Raises:
        ValueError: n values have more than `MOST_SUMS` sums.
    """
    from foltr_audit.kernels.click_sums import sum_likelihoods

    _, n, v = laws.shape
    sums = reachable_sums(n, v - 1)
    if sums is None:
        raise ValueError(f"{n} reciprocal ranks of up to {v - 1} make more than {MOST_SUMS} sums")
    places = sums.nearest(np.asarray(means, dtype=np.float64))
    return sum_likelihoods(np.ascontiguousarray(laws), places, sums.after, sums.sizes)
