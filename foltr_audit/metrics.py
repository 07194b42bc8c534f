"""Ranking metrics of shown lists.

A shown list holds positions inside its query, padded with -1. Source of nDCG in this form: Burges et
al. 2005, "Learning to rank using gradient descent" (gain 2^r - 1, discount log2(i + 1)); the ideal is
taken over all candidates of the query.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foltr_audit.records import Dataset

LIST_LENGTH = 10
"""Documents in a shown list, k: a user sees at most ten."""

ONLINE_DISCOUNT = 0.9995
"""What a later round counts in the online sum (Oosterhuis & de Rijke 2018, section 5.4)."""


def _discounts(k: int) -> NDArray[np.float64]:
    return np.asarray(1.0 / np.log2(np.arange(2, k + 2)))


def dcg(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """DCG of lists of grades (C, k), -1 at the padding; float64 (C,).

    >>> float(dcg(np.array([[2, 0, -1]]))[0])
    3.0
    """
    gains = np.exp2(np.maximum(labels, 0)) - 1.0
    return np.asarray(np.add.reduce(gains * _discounts(labels.shape[1]), axis=1))


def ideal_dcg(data: Dataset, k: int = LIST_LENGTH) -> NDArray[np.float64]:
    """The highest DCG@k that each query allows, float64 (queries,)."""
    best = np.zeros((data.n_queries, k), dtype=np.int64)
    for query in range(data.n_queries):
        grades = data.labels[data.offsets[query] : data.offsets[query + 1]]
        top = np.sort(grades)[::-1][:k]
        best[query, : top.size] = top
    return dcg(best)


def ndcg(labels: NDArray[np.int64], ideal: NDArray[np.float64]) -> NDArray[np.float64]:
    """NDCG of lists of grades (C, k) against their ideal DCG (C,); 0 where nothing is relevant."""
    return np.divide(dcg(labels), ideal, out=np.zeros(labels.shape[0]), where=ideal > 0)


def mean_ndcg(labels: NDArray[np.int64], ideal: NDArray[np.float64], no_relevant: str) -> float:
    """Mean nDCG; queries without relevant documents count 0 (`zero`) or are left out (`skip`).

    NaN where no list is left.
    """
    values = ndcg(labels, ideal)
    if no_relevant == "skip":
        values = values[ideal > 0]
    return float(values.mean()) if values.size else float("nan")


def max_rr(clicks: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Reciprocal rank of the first click of each list (C, k), 0 without a click; float64 (C,).

    >>> max_rr(np.array([[False, True, True], [False, False, False]])).tolist()
    [0.5, 0.0]
    """
    first = np.argmax(clicks, axis=1)
    return np.where(clicks.any(axis=1), 1.0 / (first + 1.0), 0.0)


def online_sum(per_round: NDArray[np.float64]) -> float:
    """Discounted online performance: sum over rounds t = 1.. of nDCG_t .9995^(t-1)."""
    return float(np.add.reduce(per_round * ONLINE_DISCOUNT ** np.arange(per_round.size)))
