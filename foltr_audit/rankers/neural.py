"""The neural ranker with one hidden layer of rectified linear units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.rankers.base import Documents, Floats, Ints, Ranker


@dataclass(frozen=True)
class NeuralRanker(Ranker):
    """Scores documents by `f(x) = w2 . relu(W1 x + b1)`.

    A model is the flat vector `[W1 | b1 | w2]`: W1 (hidden, features) row by row, b1 (hidden,),
    w2 (hidden,); P = hidden * features + 2 * hidden parameters, 480 for 46 features and 10 hidden units.
    There is no output bias: PDGD learns from pairs of documents, so the coefficients of a list sum to
    zero, and its gradient would always be zero. The derivative of relu at 0 is 0.

    Attributes:
        features: number of features d.
        hidden: number of hidden units h.
    """

    features: int
    hidden: int

    @property
    def text(self) -> str:
        """Its text form, e.g. `neural:hidden=10`."""
        return f"neural:hidden={self.hidden}"

    @property
    def n_parameters(self) -> int:
        """Number of parameters P."""
        return self.hidden * (self.features + 2)

    def initial(self, rng: np.random.Generator) -> Floats:
        """A random untrained model, float64 (P,): zeros would be a point without any gradient.

        Weights are normal with variance 2 / (inputs of their layer), biases 0.

        Source: He et al. 2015, "Delving deep into rectifiers", section 2.2, equation 10.
        """
        first = rng.normal(scale=np.sqrt(2 / self.features), size=self.hidden * self.features)
        second = rng.normal(scale=np.sqrt(2 / self.hidden), size=self.hidden)
        return np.concatenate([first, np.zeros(self.hidden), second])

    def scores(self, parameters: Floats, data: Documents, queries: Ints) -> tuple[Floats, Ints]:
        """See `Ranker.scores`; sums are in float64."""
        from foltr_audit.kernels.neural import neural_scores

        features, offsets = data.features, data.offsets
        starts = np.concatenate([[0], np.cumsum(offsets[queries + 1] - offsets[queries])])
        models = np.ascontiguousarray(parameters)
        return neural_scores(features, offsets, queries, starts, models, self.hidden), starts

    def gradient(
        self, parameters: Floats, data: Documents, queries: Ints, shown: Ints, coefficients: Floats
    ) -> Floats:
        """See `Ranker.gradient`; no Jacobian is written down for it."""
        from foltr_audit.kernels.neural import neural_gradients

        models = np.ascontiguousarray(parameters)
        return neural_gradients(
            data.features, data.offsets, queries, shown, coefficients, models, self.hidden
        )

    def score(self, parameters: Floats, features: NDArray[Any]) -> Floats:
        """Scores (..., m) of documents with features (..., m, d) under models (..., P)."""
        inputs = self._inputs(parameters, features.astype(np.float64))
        scores: Floats = np.einsum("...mh,...h->...m", np.maximum(inputs, 0.0), self._output(parameters))
        return scores

    def jacobian(self, parameters: Floats, features: NDArray[Any]) -> Floats:
        """`d f_i / d theta` of documents (..., m, d) at models (..., P), float64 (..., m, P)."""
        rows = features.astype(np.float64)
        inputs = self._inputs(parameters, rows)
        slopes = np.where(inputs > 0.0, self._output(parameters)[..., np.newaxis, :], 0.0)
        first = slopes[..., np.newaxis] * rows[..., np.newaxis, :]
        first = first.reshape(*slopes.shape[:-1], self.hidden * self.features)
        return np.concatenate([first, slopes, np.maximum(inputs, 0.0)], axis=-1)

    def _inputs(self, parameters: Floats, features: Floats) -> Floats:
        """`W1 x + b1`, (..., m, h)."""
        weights = self.hidden * self.features
        W1 = parameters[..., :weights].reshape(*parameters.shape[:-1], self.hidden, self.features)
        b1 = parameters[..., weights : weights + self.hidden]
        sums: Floats = np.einsum("...md,...hd->...mh", features, W1)
        return sums + b1[..., np.newaxis, :]

    def _output(self, parameters: Floats) -> Floats:
        """`w2`, (..., h)."""
        return parameters[..., self.hidden * (self.features + 1) :]
