"""The linear ranker `f = X theta` without a bias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.records import Dataset
from foltr_audit.records.frozen import Features


@dataclass(frozen=True)
class LinearRanker:
    """Scores documents by a weighted sum of their features; P = d parameters."""

    features: int

    @property
    def n_parameters(self) -> int:
        """Number of parameters P."""
        return self.features

    def initial(self) -> NDArray[np.float64]:
        """The untrained model: zeros, float64 (P,). It ranks by the order in the file."""
        return np.zeros(self.features)

    def scores(
        self, parameters: NDArray[np.float64], data: Dataset, queries: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Scores of all candidates of some queries under one model each (or one for all).

        Args:
            parameters: float64 (C, P), or (1, P) for one model that all share.
            data: the data set that the queries index.
            queries: int64 (C,).

        Returns:
            Flat scores, and `starts` int64 (C + 1,): client c owns `scores[starts[c]:starts[c+1]]`.
        """
        from foltr_audit.kernels.ranking import linear_scores

        starts = np.concatenate([[0], np.cumsum(data.lengths[queries])])
        theta = np.ascontiguousarray(parameters)
        return linear_scores(data.features, data.offsets, queries, starts, theta), starts

    def jacobian(self, features: Features) -> NDArray[np.float64]:
        """`d f_i / d theta` of each document, float64 (..., P): its features themselves."""
        return features.astype(np.float64)
