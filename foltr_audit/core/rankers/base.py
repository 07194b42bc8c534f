"""The interface of rankers: scores of documents, and their derivatives by the parameters."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from foltr_audit.core.rankers.first_layer import FirstLayer
from foltr_audit.utils.arrays import Features, Floats, Ints


class Documents(Protocol):
    """Candidate documents of some queries, e.g. a `Dataset`.

    Attributes:
        features: float32 or float64, (documents, d).
        offsets: int64 (queries + 1,); query q owns rows offsets[q] .. offsets[q+1]-1.
    """

    @property
    def features(self) -> Features: ...

    @property
    def offsets(self) -> Ints: ...


class Ranker(Protocol):
    """A scoring function `f_theta(x)` of d features with P parameters."""

    @property
    def text(self) -> str:
        """Its text form, e.g. `linear` or `neural:hidden=64`."""
        ...

    @property
    def n_parameters(self) -> int:
        """Number of parameters P."""
        ...

    @property
    def first_layer(self) -> FirstLayer:
        """Where its first layer lies in a model."""
        ...

    def initial(self, rng: np.random.Generator) -> Floats:
        """An untrained model, float64 (P,)."""
        ...

    def scores(self, parameters: Floats, data: Documents, queries: Ints) -> tuple[Floats, Ints]:
        """Scores of all candidates of some queries under one model each (or one for all).

        Args:
            parameters: float64 (C, P), or (1, P) for one common model.
            data: the candidates that the queries index.
            queries: int64 (C,).

        Returns:
            Flat scores, and `starts` int64 (C + 1,): client c owns `scores[starts[c]:starts[c+1]]`.
        """
        ...

    def gradient(
        self, parameters: Floats, data: Documents, queries: Ints, shown: Ints, coefficients: Floats
    ) -> Floats:
        """`sum_i coefficient_i d f_i / d theta` over each client's shown documents, float64 (C, P).

        Args:
            parameters: float64 (C, P), or (1, P) for one common model.
            data: the data set that the queries index.
            queries: int64 (C,).
            shown: positions of the shown documents inside their query, int64 (C, k), padded with -1.
            coefficients: float64 (C, k); ignored at the padding.
        """
        ...

    def score(self, parameters: Floats, features: Features) -> Floats:
        """Scores (..., m) of documents with features (..., m, d) under models (..., P)."""
        ...

    def jacobian(self, parameters: Floats, features: Features) -> Floats:
        """`d f_i / d theta` of documents (..., m, d) at models (..., P), float64 (..., m, P)."""
        ...
