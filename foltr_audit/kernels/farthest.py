"""The two points farthest apart, among all or among those whose numbers differ in one bit."""

from __future__ import annotations

import math

import numpy as np

from .jit import Floats, kernel
from .lanes import difference_sum, squared_difference_sum

_ABOVE = 1.0 + 1e-9


@kernel
def distance(points: Floats, i: int, j: int, order: int) -> float:
    """The L1 or L2 distance (order 1 or 2) of two rows of (n, P)."""
    if order == 1:
        return difference_sum(points[i], points[j])
    return math.sqrt(squared_difference_sum(points[i], points[j]))


@kernel
def _from_mean(points: Floats, order: int) -> Floats:
    """Upper bounds on the distances of all rows of (n, P) from their mean, (n,)."""
    n, P = points.shape
    both = np.zeros((2, P))  # a row, and the mean
    for i in range(n):
        for p in range(P):
            both[1, p] += points[i, p] / n
    found = np.empty(n)
    for i in range(n):
        for p in range(P):
            both[0, p] = points[i, p]
        # Rounding must not make the bound on a pair smaller than its distance.
        found[i] = _ABOVE * distance(both, 0, 1, order)
    return found


@kernel
def farthest_pair(points: Floats, order: int, least: float) -> tuple[int, int, float]:
    """Rows (i, j) of (n, P) farther apart than `least` and than any other two; (-1, -1, least) if none are.

    Pairs whose distances from the first row, or from the mean, sum to less than the best one's are skipped:
    by the triangle inequality they are no farther apart. Rows are visited from the farthest from the first
    row on, so that most pairs are.
    """
    n = points.shape[0]
    best_i, best_j, best = -1, -1, least
    if n < 2:
        return best_i, best_j, best
    radius = np.empty(n)
    for i in range(n):
        radius[i] = distance(points, i, 0, order)
    far = _from_mean(points, order)
    farthest = far.max()
    by_radius = np.argsort(-radius, kind="mergesort")
    for a in range(1, n):
        i = by_radius[a]
        if radius[by_radius[0]] + radius[i] <= best:
            break
        if far[i] + farthest <= best:
            continue
        for b in range(a):
            j = by_radius[b]
            if radius[i] + radius[j] <= best:
                break
            if far[i] + far[j] <= best:
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
