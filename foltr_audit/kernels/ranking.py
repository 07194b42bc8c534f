"""Scores of the linear ranker and the lists made from them, for a whole cohort at once.

A cohort asks one query a client. Scores of its candidates lie in one flat array; client c owns
`scores[starts[c] : starts[c + 1]]`. A shown list holds positions inside the query, padded with -1.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from .jit import kernel, parallel_kernel
from .philox import uniform


@parallel_kernel
def linear_scores(
    features: NDArray[np.float32],
    offsets: NDArray[np.int64],
    queries: NDArray[np.int64],
    starts: NDArray[np.int64],
    parameters: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Scores `x . theta` of every candidate, summed in float64 in the order of the features.

    `parameters` has one row a client, or a single row that all share.
    """
    scores = np.empty(starts[-1], dtype=np.float64)
    for c in numba.prange(queries.size):
        theta = parameters[min(np.int64(c), parameters.shape[0] - 1)]
        first = offsets[queries[c]]
        for i in range(starts[c + 1] - starts[c]):
            total = 0.0
            for j in range(theta.size):
                total += features[first + i, j] * theta[j]
            scores[starts[c] + i] = total
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
    """K positions a client, sampled from Plackett-Luce without replacement; shape (C, k), padded with -1.

    Adds a Gumbel variate to each score and takes the best k (Yellott 1977), which is the same law
    and, unlike a running sum of exponentials, exact for any spread of the scores. Number `first + i`
    of a client's stream goes to its candidate i.
    """
    shown = np.full((starts.size - 1, k), -1, dtype=np.int64)
    for c in numba.prange(starts.size - 1):
        values = scores[starts[c] : starts[c + 1]].copy()
        for i in range(values.size):
            values[i] -= np.log(-np.log(uniform(first + i, clients[c], round_, purpose, key)))
        _take_best(values, shown[c])
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
