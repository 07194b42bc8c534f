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


def dcg(data: Dataset, queries: NDArray[np.int64], shown: NDArray[np.int64]) -> NDArray[np.float64]:
    """DCG of lists (I, k) shown for some queries (I,), float64 (I,)."""
    return ndcg(data, queries, shown, np.ones(data.n_queries))


def ideal_dcg(data: Dataset, k: int = LIST_LENGTH) -> NDArray[np.float64]:
    """The highest DCG@k that each query allows, float64 (queries,)."""
    from foltr_audit.kernels.ndcg import ideal_dcg_of_queries

    return ideal_dcg_of_queries(data.labels, data.offsets, _discounts(k))


def ndcg(
    data: Dataset, queries: NDArray[np.int64], shown: NDArray[np.int64], ideal: NDArray[np.float64]
) -> NDArray[np.float64]:
    """NDCG of lists (I, k) against the ideal DCG of every query (queries,); 0 where nothing is relevant."""
    from foltr_audit.kernels.ndcg import dcg_over_best

    return dcg_over_best(data.labels, data.offsets, queries, shown, _discounts(shown.shape[1]), ideal)


def mean_ndcg(
    data: Dataset,
    queries: NDArray[np.int64],
    shown: NDArray[np.int64],
    ideal: NDArray[np.float64],
    no_relevant: str,
) -> float:
    """Mean nDCG; queries without relevant documents count 0 (`zero`) or are left out (`skip`).

    NaN where no list is left.
    """
    values = ndcg(data, queries, shown, ideal)
    if no_relevant == "skip":
        values = values[ideal[queries] > 0]
    return float(values.mean()) if values.size else float("nan")


def max_rr(clicks: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Reciprocal rank of the first click of each list (I, k), 0 without a click; float64 (I,).

    >>> max_rr(np.array([[False, True, True], [False, False, False]])).tolist()
    [0.5, 0.0]
    """
    from foltr_audit.kernels.ndcg import reciprocal_ranks

    return reciprocal_ranks(clicks)


def online_sum(per_round: NDArray[np.float64]) -> float:
    """Discounted online performance: sum over rounds t = 1.. of nDCG_t .9995^(t-1)."""
    return float(np.add.reduce(per_round * ONLINE_DISCOUNT ** np.arange(per_round.size)))
