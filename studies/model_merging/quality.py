"""Computes nDCG@10, MAP@10 and MRR@10 of each query from the scores of its documents."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from foltr_audit.core.ranking_metrics import (
    LIST_LENGTH,
    average_precision,
    ideal_dcg,
    ndcg,
    reciprocal_rank,
    relevant_documents,
)
from foltr_audit.core.records import Dataset
from foltr_audit.utils.arrays import Floats, Ints

NDCG = "ndcg@10"
METRICS = {NDCG: "nDCG@10", "map@10": "MAP@10", "mrr@10": "MRR@10"}
"""Metrics by name, with their labels; all between 0 and 1, higher is better."""


class RankingJudge:
    """Ranks queries by scores (documents,), with ties by position, and computes metrics of the first ten.

    Queries without relevant documents count as 0.
    """

    def __init__(self, data: Dataset) -> None:
        """Compute the ideal lists."""
        self.data = data
        self.ideal = ideal_dcg(data)
        self.queries = np.arange(data.n_queries)

    def ndcg(self, scores: Floats) -> Floats:
        """NDCG@10 of each query, gain 2^r - 1; (queries,)."""
        return ndcg(self.data, self.queries, self._shown(scores), self.ideal)

    def mean_ndcg(self, scores: Floats) -> float:
        """Mean nDCG@10 over the queries."""
        return float(self.ndcg(scores).mean())

    def metrics(self, scores: Floats) -> dict[str, Floats]:
        """Each of `METRICS` of each query, (queries,)."""
        lists = (self.data, self.queries, self._shown(scores))
        values = (
            ndcg(*lists, self.ideal),
            average_precision(*lists, self._relevant),
            reciprocal_rank(*lists),
        )
        return dict(zip(METRICS, values, strict=True))

    @cached_property
    def _relevant(self) -> Ints:
        return relevant_documents(self.data)

    def _shown(self, scores: Floats) -> Ints:
        from foltr_audit.kernels.ranking import top_lists

        return top_lists(np.asarray(scores, dtype=np.float64), self.data.offsets, LIST_LENGTH)
