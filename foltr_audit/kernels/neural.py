"""Scores of a ranker with one hidden layer, and weighted sums of its Jacobian rows, for a whole cohort.

A model is a row `[W1 | b1 | w2]` of P = h d + 2 h parameters: W1 (h, d) row by row, b1 (h,), w2 (h,).
Queries, candidates and shown lists lie as in the kernels of the linear ranker.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from .jit import inlined, parallel_kernel, reduction
from .ranking import Features


@reduction
def _weighted(features: Features, document: int, models: NDArray[np.float64], row: int, first: int) -> float:
    """`x . w` of a document, w being the models' entries from models[row, first] on; in float64."""
    total = 0.0
    for j in range(features.shape[1]):
        total += features[document, j] * models[row, first + j]
    return total


@parallel_kernel
def neural_scores(
    features: Features,
    offsets: NDArray[np.int64],
    queries: NDArray[np.int64],
    starts: NDArray[np.int64],
    models: NDArray[np.float64],
    hidden: int,
) -> NDArray[np.float64]:
    """Scores `w2 . relu(W1 x + b1)` of every candidate, summed in float64, flat as in `linear_scores`.

    `models` has one row a client, or a single row that all share.
    """
    scores = np.empty(starts[-1], dtype=np.float64)
    d = features.shape[1]
    for c in numba.prange(queries.size):
        row = min(np.int64(c), models.shape[0] - 1)
        first = offsets[queries[c]]
        for i in range(starts[c + 1] - starts[c]):
            score = 0.0
            for unit in range(hidden):
                value = _weighted(features, first + i, models, row, unit * d) + models[row, hidden * d + unit]
                score += models[row, hidden * (d + 1) + unit] * max(value, 0.0)
            scores[starts[c] + i] = score
    return scores


@inlined
def _add_jacobian(
    features: Features,
    document: int,
    weight: float,
    models: NDArray[np.float64],
    row: int,
    hidden: int,
    out: NDArray[np.float64],
    to: int,
) -> None:
    """Add `weight * d f / d theta` of a document under one row of models to out[to]."""
    d = features.shape[1]
    for unit in range(hidden):
        first = unit * d
        value = _weighted(features, document, models, row, first) + models[row, hidden * d + unit]
        if value > 0.0:
            slope = weight * models[row, hidden * (d + 1) + unit]
            for j in range(d):
                out[to, first + j] += slope * features[document, j]
            out[to, hidden * d + unit] += slope
            out[to, hidden * (d + 1) + unit] += weight * value


@parallel_kernel
def neural_gradients(
    features: Features,
    offsets: NDArray[np.int64],
    queries: NDArray[np.int64],
    shown: NDArray[np.int64],
    weights: NDArray[np.float64],
    models: NDArray[np.float64],
    hidden: int,
) -> NDArray[np.float64]:
    """`sum_i weights[c, i] d f_i / d theta` over the shown documents, float64, shape (C, P).

    `models` has one row a client, or a single row that all share.
    """
    sums = np.zeros((queries.size, models.shape[1]), dtype=np.float64)
    for c in numba.prange(queries.size):
        row = min(np.int64(c), models.shape[0] - 1)
        first = offsets[queries[c]]
        for i in range(shown.shape[1]):
            weight = weights[c, i]
            if shown[c, i] >= 0 and weight != 0.0:
                _add_jacobian(features, first + shown[c, i], weight, models, row, hidden, sums, c)
    return sums
