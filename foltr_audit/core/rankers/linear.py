"""The linear ranker `f = X theta` without a bias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.core.rankers.base import Documents, Ranker
from foltr_audit.core.rankers.first_layer import FirstLayer
from foltr_audit.utils.arrays import Features, Floats, Ints


@dataclass(frozen=True)
class LinearRanker(Ranker):
    """Scores documents by a weighted sum of their features; P = d parameters.

    Attributes:
        features: number of features d.
    """

    features: int

    @property
    def text(self) -> str:
        """Its text form."""
        return "linear"

    @property
    def n_parameters(self) -> int:
        """Number of parameters P."""
        return self.features

    @property
    def first_layer(self) -> FirstLayer:
        """The whole ranker is one unit."""
        return FirstLayer(0, 1, self.features)

    def initial(self, rng: np.random.Generator) -> Floats:
        """The untrained model: zeros, float64 (P,). It ranks documents in file order."""
        return np.zeros(self.features)

    def scores(self, parameters: Floats, data: Documents, queries: Ints) -> tuple[Floats, Ints]:
        """See `Ranker.scores`; sums are in float64."""
        from foltr_audit.kernels.ranking import linear_scores

        features, offsets = data.features, data.offsets
        starts = np.concatenate([[0], np.cumsum(offsets[queries + 1] - offsets[queries])])
        return linear_scores(features, offsets, queries, starts, np.ascontiguousarray(parameters)), starts

    def gradient(
        self, parameters: Floats, data: Documents, queries: Ints, shown: Ints, coefficients: Floats
    ) -> Floats:
        """See `Ranker.gradient`: a weighted sum of feature rows, the same for every model."""
        from foltr_audit.kernels.ranking import weighted_features

        return weighted_features(data.features, data.offsets, queries, shown, coefficients)

    def score(self, parameters: Floats, features: Features) -> Floats:
        """Scores (..., m) of documents with features (..., m, d) under models (..., P)."""
        scores: Floats = np.einsum("...md,...d->...m", features.astype(np.float64), parameters)
        return scores

    def jacobian(self, parameters: Floats, features: Features) -> Floats:
        """`d f_i / d theta` of documents (..., m, d), float64 (..., m, P): their features themselves."""
        batch = np.broadcast_shapes(parameters.shape[:-1], features.shape[:-2])
        return np.broadcast_to(features, batch + features.shape[-2:]).astype(np.float64)
