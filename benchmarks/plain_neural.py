"""FPDGD of a ranker with hidden layers as a careful researcher writes it in NumPy, gradients by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.plain_loop import PlainLoop, cascade_clicks, pdgd_coefficients, sample_list
from foltr_audit.utils.arrays import Floats


class PlainLayers(NamedTuple):
    """Views of a flat model or gradient: weights (h, inputs) and biases (h,) of each layer, output (h,)."""

    weights: list[Floats]
    biases: list[Floats]
    output: Floats


class ForwardPass(NamedTuple):
    """What a model makes of a query: its parts, features (n, d), units (n, h) of each layer, scores (n,)."""

    parts: PlainLayers
    X: Floats
    units: list[Floats]
    scores: Floats


@dataclass(frozen=True, eq=False)
class PlainNeuralLoop(PlainLoop):
    """Federated rounds of a model `[W1 | b1 | ... | w]` with rectified linear units.

    Attributes:
        hidden: units h of each hidden layer.
        layers: number of hidden layers.
    """

    hidden: int = 64
    layers: int = 1

    def views(self, model: Floats, inputs: int) -> PlainLayers:
        """The parts of a model (P,) of this many features; writing to them writes to it."""
        weights, biases, at = [], [], 0
        for size in [inputs] + [self.hidden] * (self.layers - 1):
            end = at + self.hidden * size
            weights.append(model[at:end].reshape(self.hidden, size))
            biases.append(model[end : end + self.hidden])
            at = end + self.hidden
        return PlainLayers(weights, biases, model[at:])

    @staticmethod
    def units(parts: PlainLayers, X: Floats) -> Iterator[Floats]:
        """What the units of each hidden layer give for documents X (n, d), (n, h)."""
        for weights, biases in zip(parts.weights, parts.biases, strict=True):
            X = X @ weights.T
            X += biases
            yield np.maximum(X, 0.0, out=X)

    def forward(self, model: Floats, query: int) -> ForwardPass:
        """A model (P,) on its way through all documents of a query."""
        X = self.features[query]
        parts = self.views(model, X.shape[1])
        units = list(self.units(parts, X))
        return ForwardPass(parts, X, units, units[-1] @ parts.output)

    def gradient(self, forward: ForwardPass, shown: NDArray[np.int64], coefficients: Floats) -> Floats:
        """`sum_i coefficients_i d f_i / d theta` over shown documents (k,), (P,)."""
        parts, inputs = forward.parts, [forward.X, *forward.units]
        given = [each[shown] for each in inputs]
        gradient = np.empty(sum(w.size + w.shape[0] for w in parts.weights) + self.hidden)
        into = self.views(gradient, forward.X.shape[1])
        np.matmul(coefficients, given[-1], out=into.output)
        slopes = np.multiply.outer(coefficients, parts.output)
        for layer in range(self.layers - 1, -1, -1):
            slopes *= given[layer + 1] > 0.0
            np.matmul(slopes.T, given[layer], out=into.weights[layer])
            slopes.sum(axis=0, out=into.biases[layer])
            if layer:
                slopes = slopes @ parts.weights[layer]
        return gradient

    def stepped(
        self, model: Floats, forward: ForwardPass, shown: NDArray[np.int64], clicks: NDArray[np.bool_]
    ) -> Floats:
        """The local model (P,) after a list with clicks, both (k,)."""
        coefficients = pdgd_coefficients(forward.scores, shown, clicks)
        if coefficients is None:
            return model
        return model + self.learning_rate * self.gradient(forward, shown, coefficients)

    def step(self, model: Floats, query: int, rng: np.random.Generator) -> Floats:
        """See `PlainLoop.step`."""
        forward = self.forward(model, query)
        shown = sample_list(forward.scores, rng)
        clicks = cascade_clicks(self.labels[query][shown], self.click, self.stop, rng)
        return self.stepped(model, forward, shown, clicks)
