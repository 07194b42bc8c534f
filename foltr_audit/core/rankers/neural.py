"""The neural ranker with one or two hidden layers of rectified linear units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foltr_audit.core.rankers.base import Documents, Ranker
from foltr_audit.core.rankers.first_layer import FirstLayer
from foltr_audit.utils.arrays import Features, Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.kernels.network import NetworkShape


class _HiddenLayer(NamedTuple):
    """A hidden layer of models (...): weights (..., h, inputs) and biases (..., h)."""

    weights: Floats
    biases: Floats


def neural_text(hidden: int, layers: int) -> str:
    """The canonical text of a neural ranker; `layers` is left out if it is 1."""
    return f"neural:hidden={hidden}" + (f",layers={layers}" if layers > 1 else "")


@dataclass(frozen=True)
class NeuralRanker(Ranker):
    """Scores documents by `f(x) = w2 . relu(W1 x + b1)`, or `w3 . relu(W2 relu(W1 x + b1) + b2)`.

    A model is the flat vector `[W1 | b1 | w2]` or `[W1 | b1 | W2 | b2 | w3]`: W1 (hidden, features) and
    W2 (hidden, hidden) row by row, the others (hidden,). With 46 features and 64 hidden units P = 3,072
    for one layer and 7,232 for two.
    There is no output bias, since PDGD could not learn it: the coefficients of a list sum to zero, so the
    gradient of the bias is always zero. The derivative of relu at 0 is 0.

    Attributes:
        features: number of features d.
        hidden: number of units h of each hidden layer.
        layers: number of hidden layers.
    """

    features: int
    hidden: int
    layers: int = 1

    @property
    def text(self) -> str:
        """Its text form, e.g. `neural:hidden=64` or `neural:hidden=64,layers=2`."""
        return neural_text(self.hidden, self.layers)

    @property
    def n_parameters(self) -> int:
        """Number of parameters P."""
        return sum(self.hidden * (inputs + 1) for inputs in self._inputs) + self.hidden

    @property
    def first_layer(self) -> FirstLayer:
        """The place of W1, b1 and, with one hidden layer, of w2."""
        biases = self.hidden * self.features
        output = biases + self.hidden if self.layers == 1 else None
        return FirstLayer(0, self.hidden, self.features, output=output, bias=biases)

    @property
    def _network(self) -> NetworkShape:
        from foltr_audit.kernels.network import NetworkShape

        return NetworkShape(self.features, self.hidden, self.layers)

    def initial(self, rng: np.random.Generator) -> Floats:
        """A random untrained model, float64 (P,), since the gradient at zero is zero.

        Weights are normal with variance 2 / (inputs of their layer), biases 0.

        Source: He et al. 2015, "Delving deep into rectifiers", section 2.2, equation 10.
        """
        parts = []
        for inputs in self._inputs:
            parts += [rng.normal(scale=np.sqrt(2 / inputs), size=self.hidden * inputs), np.zeros(self.hidden)]
        return np.concatenate([*parts, rng.normal(scale=np.sqrt(2 / self.hidden), size=self.hidden)])

    def scores(self, parameters: Floats, data: Documents, queries: Ints) -> tuple[Floats, Ints]:
        """See `Ranker.scores`; sums are in float64."""
        from foltr_audit.kernels.network import neural_scores

        features, offsets = data.features, data.offsets
        starts = np.concatenate([[0], np.cumsum(offsets[queries + 1] - offsets[queries])])
        models = np.ascontiguousarray(parameters)
        return neural_scores(features, offsets, queries, starts, models, self._network), starts

    def gradient(
        self, parameters: Floats, data: Documents, queries: Ints, shown: Ints, coefficients: Floats
    ) -> Floats:
        """See `Ranker.gradient`; it does not store the Jacobian."""
        from foltr_audit.kernels.network import neural_gradients

        models = np.ascontiguousarray(parameters)
        return neural_gradients(
            data.features, data.offsets, queries, shown, coefficients, models, self._network
        )

    def score(self, parameters: Floats, features: Features) -> Floats:
        """Scores (..., m) of documents with features (..., m, d) under models (..., P)."""
        units = features.astype(np.float64)
        for layer in self._layers(parameters):
            units = _units(layer, units)
        scores: Floats = np.einsum("...mh,...h->...m", units, self._output(parameters))
        return scores

    def jacobian(self, parameters: Floats, features: Features) -> Floats:
        """`d f_i / d theta` of documents (..., m, d) at models (..., P), float64 (..., m, P)."""
        layers, given = list(self._layers(parameters)), [features.astype(np.float64)]
        for layer in layers:
            given.append(_units(layer, given[-1]))
        parts = [given[-1]]
        # relu(z) is positive exactly where z is. So the stored outputs also tell where the derivative is 1,
        # and the sums before relu need not be kept.
        slopes = np.where(given[-1] > 0.0, self._output(parameters)[..., np.newaxis, :], 0.0)
        for layer, inputs in zip(reversed(layers), reversed(given[:-1]), strict=True):
            products = slopes[..., np.newaxis] * inputs[..., np.newaxis, :]
            parts = [products.reshape(*slopes.shape[:-1], self.hidden * inputs.shape[-1]), slopes, *parts]
            if inputs is not given[0]:
                below = np.einsum("...mv,...vu->...mu", slopes, layer.weights)
                slopes = np.where(inputs > 0.0, below, 0.0)
        return np.concatenate(parts, axis=-1)

    @property
    def _inputs(self) -> list[int]:
        """Number of inputs of each hidden layer."""
        return [self.features] + [self.hidden] * (self.layers - 1)

    def _layers(self, parameters: Floats) -> Iterator[_HiddenLayer]:
        """The hidden layers of models (..., P), from the first to the last."""
        start = 0
        for inputs in self._inputs:
            biases = start + self.hidden * inputs
            shape = (*parameters.shape[:-1], self.hidden, inputs)
            weights = parameters[..., start:biases].reshape(shape)
            start = biases + self.hidden
            yield _HiddenLayer(weights, parameters[..., biases:start])

    def _output(self, parameters: Floats) -> Floats:
        """Weights of the output, (..., h)."""
        return parameters[..., -self.hidden :]


def _units(layer: _HiddenLayer, inputs: Floats) -> Floats:
    """`relu(W x + b)` of inputs (..., m, n), (..., m, h)."""
    sums: Floats = np.einsum("...mn,...hn->...mh", inputs, layer.weights)
    return np.maximum(sums + layer.biases[..., np.newaxis, :], 0.0)
