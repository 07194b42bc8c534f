"""Scores of the linear ranker and the lists made from them, for a whole cohort at once.

A cohort asks one query a client. Scores of its candidates lie in one flat array; client c owns
`scores[starts[c] : starts[c + 1]]`. A shown list holds positions inside the query, padded with -1.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from .jit import kernel, parallel_kernel, reduction
from .philox import uniform

_BLOCK = 8  # documents whose weights are summed together
_FADED = 1e-200  # below this sum of weights they are taken relative to a new maximum


@reduction
def dot(row: NDArray[np.float32], theta: NDArray[np.float64]) -> float:
    """`x . theta` in float64."""
    total = 0.0
    for j in range(theta.size):
        total += row[j] * theta[j]
    return total


@parallel_kernel
def linear_scores(
    features: NDArray[np.float32],
    offsets: NDArray[np.int64],
    queries: NDArray[np.int64],
    starts: NDArray[np.int64],
    parameters: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Scores `x . theta` of every candidate, summed in float64.

    `parameters` has one row a client, or a single row that all share.
    """
    scores = np.empty(starts[-1], dtype=np.float64)
    for c in numba.prange(queries.size):
        theta = parameters[min(np.int64(c), parameters.shape[0] - 1)]
        first = offsets[queries[c]]
        for i in range(starts[c + 1] - starts[c]):
            scores[starts[c] + i] = dot(features[first + i], theta)
    return scores


@kernel
def _take_best(values: NDArray[np.float64], shown: NDArray[np.int64]) -> None:
    """Fill `shown` with the positions of the largest values; of equal ones the lower position first."""
    for rank in range(min(shown.size, values.size)):
        best = 0
        for i in range(1, values.size):
            if values[i] > values[best]:
                best = i
        shown[rank] = best
        values[best] = -np.inf


@parallel_kernel
def top_lists(scores: NDArray[np.float64], starts: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The k best-scored positions of each client, ties by position; shape (C, k), padded with -1."""
    shown = np.full((starts.size - 1, k), -1, dtype=np.int64)
    for c in numba.prange(starts.size - 1):
        _take_best(scores[starts[c] : starts[c + 1]].copy(), shown[c])
    return shown


@kernel
def _weigh(scores: NDArray[np.float64], weights: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
    """Weights exp(score - maximum) of the documents left, and the sums of blocks of them.

    A document that was taken has the weight -1 and keeps it.
    """
    top = -np.inf
    for i in range(scores.size):
        if weights[i] >= 0.0:
            top = max(top, scores[i])
    sums[:] = 0.0
    for i in range(scores.size):
        if weights[i] >= 0.0:
            weights[i] = np.exp(scores[i] - top)
            sums[i // _BLOCK] += weights[i]


@kernel
def _total(sums: NDArray[np.float64]) -> float:
    total = 0.0
    for block in range(sums.size):
        total += sums[block]
    return total


@kernel
def _find(weights: NDArray[np.float64], sums: NDArray[np.float64], target: float) -> int:
    """The first document whose running sum of weights exceeds the target; the last one left if none does."""
    block = 0
    while block < sums.size - 1 and target >= sums[block]:
        target -= sums[block]
        block += 1
    found = -1
    for i in range(block * _BLOCK, min((block + 1) * _BLOCK, weights.size)):
        if weights[i] > 0.0:
            found = i
            if target < weights[i]:
                break
            target -= weights[i]
    while found < 0 and block > 0:  # rounding led to a block of which nothing is left
        block -= 1
        for i in range(block * _BLOCK, (block + 1) * _BLOCK):
            if weights[i] > 0.0:
                found = i
    if found < 0:  # scores that are no numbers: the first document left
        found = 0
        while weights[found] < 0.0:
            found += 1
    return found


@kernel
def _take(weights: NDArray[np.float64], sums: NDArray[np.float64], i: int) -> None:
    """Take a document away; its block is summed anew, so that no rounding error stays behind."""
    weights[i] = -1.0
    block = i // _BLOCK
    total = 0.0
    for other in range(block * _BLOCK, min((block + 1) * _BLOCK, weights.size)):
        total += max(weights[other], 0.0)
    sums[block] = total


@parallel_kernel
def sampled_lists(
    scores: NDArray[np.float64],
    starts: NDArray[np.int64],
    k: int,
    first: int,
    clients: NDArray[np.int64],
    round_: int,
    purpose: int,
    key: np.uint64,
) -> NDArray[np.int64]:
    """Up to k positions a client, sampled from Plackett-Luce without replacement; (C, k), padded with -1.

    Inverts the distribution function over blocks of weights. When what is left has faded beside what
    was taken, weights are made anew relative to its own maximum, so any spread of the scores is right.
    Number `first + r` of a client's stream goes to rank r.
    """
    shown = np.full((starts.size - 1, k), -1, dtype=np.int64)
    for c in numba.prange(starts.size - 1):
        mine = scores[starts[c] : starts[c + 1]]
        weights = np.zeros(mine.size)
        sums = np.empty((mine.size + _BLOCK - 1) // _BLOCK)
        _weigh(mine, weights, sums)
        for rank in range(min(k, mine.size)):
            total = _total(sums)
            if total < _FADED:
                _weigh(mine, weights, sums)
                total = _total(sums)
            u = uniform(first + rank, clients[c], round_, purpose, key)
            shown[c, rank] = _find(weights, sums, u * total)
            _take(weights, sums, shown[c, rank])
    return shown


@parallel_kernel
def weighted_features(
    features: NDArray[np.float32],
    offsets: NDArray[np.int64],
    queries: NDArray[np.int64],
    shown: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """`sum_i weights[c, i] x_i` over the shown documents, float64, shape (C, features)."""
    sums = np.zeros((queries.size, features.shape[1]), dtype=np.float64)
    for c in numba.prange(queries.size):
        for i in range(shown.shape[1]):
            if shown[c, i] >= 0 and weights[c, i] != 0.0:
                row = offsets[queries[c]] + shown[c, i]
                for j in range(features.shape[1]):
                    sums[c, j] += weights[c, i] * features[row, j]
    return sums
