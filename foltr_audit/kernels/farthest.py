"""The two points farthest apart, among all or among those whose numbers differ in one bit."""

from __future__ import annotations

import math

import numpy as np

from foltr_audit.kernels.sums import difference_sum, squared_difference_sum

from .jit import Floats, Ints, kernel

_ABOVE = 1.0 + 1e-9


@kernel
def distance(points: Floats, i: int, j: int, order: int) -> float:
    """The L1 or L2 distance (order 1 or 2) of two rows of (n, P)."""
    if order == 1:
        return difference_sum(points[i], points[j])
    return math.sqrt(squared_difference_sum(points[i], points[j]))


@kernel
def distance_bounds(points: Floats, order: int) -> tuple[Floats, Floats]:
    """Distances of rows of (n, P) from the first, (n,), and upper bounds on those from their mean, (n,)."""
    n, P = points.shape
    first, mean = np.empty(n), np.empty(n)
    both = np.empty((2, P))  # a row, and the mean
    both[1] = 0.0
    for i in range(n):
        first[i] = distance(points, i, 0, order)
        for p in range(P):
            both[1, p] += points[i, p] / n
    for i in range(n):
        for p in range(P):
            both[0, p] = points[i, p]
        # Rounding must not make the bound on a pair smaller than its distance.
        mean[i] = _ABOVE * distance(both, 0, 1, order)
    return first, mean


def farthest_pair(points: Floats, order: int, least: float) -> tuple[int, int, float]:
    """Rows (i, j) of (n, P) farther apart than `least` and than any other two; (-1, -1, least) if none are.

    Pairs whose distances from the first row, or from the mean, sum to less than the best one's are skipped:
    by the triangle inequality they are no farther apart. Rows are visited from the farthest from the first
    row on, so that most pairs are.
    """
    if points.shape[0] < 2:
        return -1, -1, least
    first, mean = distance_bounds(points, order)
    # NumPy sorts: numba needs a second to compile that.
    i, j, apart = search_pairs(points, order, first, mean, np.argsort(-first, kind="stable"), least)
    return int(i), int(j), float(apart)


@kernel
def search_pairs(
    points: Floats, order: int, first: Floats, mean: Floats, by_first: Ints, least: float
) -> tuple[int, int, float]:
    """See `farthest_pair`, from `distance_bounds` and rows by falling distance from the first."""
    best_i, best_j, best = -1, -1, least
    farthest = 0.0
    for i in range(mean.size):
        farthest = max(farthest, mean[i])
    for a in range(1, by_first.size):
        i = by_first[a]
        if first[by_first[0]] + first[i] <= best:
            break
        if mean[i] + farthest <= best:
            continue
        for b in range(a):
            j = by_first[b]
            if first[i] + first[j] <= best:
                break
            if mean[i] + mean[j] <= best:
                continue
            apart = distance(points, i, j, order)
            if apart > best:
                best_i, best_j, best = i, j, apart
    return best_i, best_j, best


@kernel
def farthest_flip(points: Floats, order: int, least: float) -> tuple[int, int, float]:
    """The same among rows whose numbers, of 0 .. 2^k - 1, differ in one bit; (n, P) with n = 2^k."""
    n = points.shape[0]
    best_i, best_j, best = -1, -1, least
    bit = 1
    while bit < n:
        for i in range(n):
            if i & bit == 0:
                apart = distance(points, i, i | bit, order)
                if apart > best:
                    best_i, best_j, best = i, i | bit, apart
        bit *= 2
    return best_i, best_j, best
