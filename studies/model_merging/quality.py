"""What scores of documents are worth: nDCG@10, MAP@10 and MRR@10 of each query."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.ranking_metrics import (
    LIST_LENGTH,
    average_precision,
    ideal_dcg,
    ndcg,
    reciprocal_rank,
    relevant_documents,
)
from foltr_audit.core.records import Dataset

NDCG = "ndcg@10"
METRICS = {NDCG: "nDCG@10", "map@10": "MAP@10", "mrr@10": "MRR@10"}
"""Metrics by name, with their labels; all between 0 and 1, higher is better."""


class RankingJudge:
    """Ranks the queries of a data set by scores (documents,), ties by position, and judges the first ten.

    Queries without relevant documents count 0.
    """

    def __init__(self, data: Dataset) -> None:
        """Prepare the ideal lists."""
        self.data = data
        self.ideal = ideal_dcg(data)
        self.queries = np.arange(data.n_queries)

    def ndcg(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """NDCG@10 of each query, gain 2^r - 1; (queries,)."""
        return ndcg(self.data, self.queries, self._shown(scores), self.ideal)

    def mean_ndcg(self, scores: NDArray[np.float64]) -> float:
        """Mean nDCG@10 over the queries."""
        return float(self.ndcg(scores).mean())

    def metrics(self, scores: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Each of `METRICS` of each query, (queries,)."""
        asked = (self.data, self.queries, self._shown(scores))
        values = (
            ndcg(*asked, self.ideal),
            average_precision(*asked, self._relevant),
            reciprocal_rank(*asked),
        )
        return dict(zip(METRICS, values, strict=True))

    @cached_property
    def _relevant(self) -> NDArray[np.int64]:
        return relevant_documents(self.data)

    def _shown(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        from foltr_audit.kernels.ranking import top_lists

        return top_lists(np.asarray(scores, dtype=np.float64), self.data.offsets, LIST_LENGTH)
