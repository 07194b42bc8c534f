"""Rankers: they compute scores and Jacobians from parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Features, Floats, Ints
from foltr_audit.utils.reading import whole_number

if TYPE_CHECKING:
    from foltr_audit.kernels.network import NetworkShape


class FirstLayer(NamedTuple):
    """The place of a first layer and of the weights that follow its units.

    Attributes:
        start: index of the first weight; the weights W1 (units, inputs) follow row by row.
        units: number of units.
        inputs: number of inputs of each unit, the features of a document.
        output: index of the first of the `units` weights of the score, for a network with one hidden layer;
            None for a deeper one, and for a linear ranker, whose score is its one unit.
        bias: index of the first of the `units` biases; None without biases.
    """

    start: int
    units: int
    inputs: int
    output: int | None = None
    bias: int | None = None

    @property
    def stop(self) -> int:
        """Index after the last weight."""
        return self.start + self.units * self.inputs

    def rows(self, vectors: Floats) -> Floats:
        """The first layer's part of vectors (n, P), (n, units, inputs)."""
        return vectors[:, self.start : self.stop].reshape(len(vectors), self.units, self.inputs)

    def problem(self, parameters: int, features: int) -> str | None:
        """Why it does not fit P parameters and documents of d features, or None."""
        if self.inputs != features:
            return f"its first layer has {self.inputs} inputs, and documents have {features} features"
        last = max(place for place in (self.stop, (self.output or 0) + self.units) if place)
        if min(self.start, self.units) < 0 or last > parameters:
            return f"its first layer ends at number {last} of {parameters} parameters"
        return None


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


class _HiddenLayer(NamedTuple):
    """A hidden layer of models (...): weights (..., h, inputs) and biases (..., h)."""

    weights: Floats
    biases: Floats

    def units(self, inputs: Floats) -> Floats:
        """`relu(W x + b)` of inputs (..., m, n), (..., m, h)."""
        sums: Floats = np.einsum("...mn,...hn->...mh", inputs, self.weights)
        return np.maximum(sums + self.biases[..., np.newaxis, :], 0.0)


@dataclass(frozen=True)
class Ranker:
    """A scoring function `f_theta(x)` of d features with P parameters.

    Without hidden units it is linear, a weighted sum of the features: P = d. With hidden units
    `f(x) = w2 . relu(W1 x + b1)`, or `w3 . relu(W2 relu(W1 x + b1) + b2)`. A model then is the flat vector
    `[W1 | b1 | w2]` or `[W1 | b1 | W2 | b2 | w3]`: W1 (hidden, features) and W2 (hidden, hidden) row by row,
    the others (hidden,). With 46 features and 64 hidden units P = 3,072 for one layer and 7,232 for two.
    There is no output bias, since PDGD could not learn it: the coefficients of a list sum to zero, so the
    gradient of the bias is always zero. The derivative of relu at 0 is 0.

    Attributes:
        features: number of features d.
        hidden: number of units h of each hidden layer; 0 for the linear ranker.
        layers: number of hidden layers.
    """

    features: int
    hidden: int = 0
    layers: int = 1

    @property
    def text(self) -> str:
        """Its text form, e.g. `linear`, `neural:hidden=64` or `neural:hidden=64,layers=2`."""
        if not self.hidden:
            return "linear"
        return f"neural:hidden={self.hidden}" + (f",layers={self.layers}" if self.layers > 1 else "")

    @property
    def n_parameters(self) -> int:
        hidden = sum(self.hidden * (inputs + 1) for inputs in self._inputs)
        return hidden + (self.hidden or self.features)

    @property
    def first_layer(self) -> FirstLayer:
        """The place of W1, b1 and, with one hidden layer, of w2; the linear ranker is one unit."""
        if not self.hidden:
            return FirstLayer(0, 1, self.features)
        biases = self.hidden * self.features
        output = biases + self.hidden if self.layers == 1 else None
        return FirstLayer(0, self.hidden, self.features, output=output, bias=biases)

    @property
    def network(self) -> NetworkShape:
        """What kernels know of a ranker with hidden units."""
        from foltr_audit.kernels.network import NetworkShape

        return NetworkShape(self.features, self.hidden, self.layers)

    def initial(self, rng: np.random.Generator) -> Floats:
        """An untrained model, float64 (P,): zeros of the linear ranker, which rank documents in file order.

        With hidden units the gradient at zero is zero. So their weights are normal with variance 2 / (inputs
        of their layer), biases 0.

        Source: He et al. 2015, "Delving deep into rectifiers", section 2.2, equation 10.
        """
        if not self.hidden:
            return np.zeros(self.features)
        parts = []
        for inputs in self._inputs:
            parts += [rng.normal(scale=np.sqrt(2 / inputs), size=self.hidden * inputs), np.zeros(self.hidden)]
        return np.concatenate([*parts, rng.normal(scale=np.sqrt(2 / self.hidden), size=self.hidden)])

    def scores(self, parameters: Floats, data: Documents, queries: Ints) -> tuple[Floats, Ints]:
        """Scores of all candidates of some queries under one model each (or one for all); sums in float64.

        Args:
            parameters: float64 (C, P), or (1, P) for one common model.
            data: the candidates that the queries index.
            queries: int64 (C,).

        Returns:
            Flat scores, and `starts` int64 (C + 1,): client c owns `scores[starts[c]:starts[c+1]]`.
        """
        from foltr_audit.kernels.network import neural_scores
        from foltr_audit.kernels.ranking import linear_scores

        features, offsets = data.features, data.offsets
        starts = np.concatenate([[0], np.cumsum(offsets[queries + 1] - offsets[queries])])
        models = np.ascontiguousarray(parameters)
        if not self.hidden:
            return linear_scores(features, offsets, queries, starts, models), starts
        return neural_scores(features, offsets, queries, starts, models, self.network), starts

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
        from foltr_audit.kernels.network import neural_gradients
        from foltr_audit.kernels.ranking import weighted_features

        features, offsets = data.features, data.offsets
        if not self.hidden:
            return weighted_features(features, offsets, queries, shown, coefficients)
        models = np.ascontiguousarray(parameters)
        return neural_gradients(features, offsets, queries, shown, coefficients, models, self.network)

    def score(self, parameters: Floats, features: Features) -> Floats:
        """Scores (..., m) of documents with features (..., m, d) under models (..., P)."""
        units = features.astype(np.float64)
        for layer in self._layers(parameters):
            units = layer.units(units)
        scores: Floats = np.einsum("...mh,...h->...m", units, self._output(parameters))
        return scores

    def jacobian(self, parameters: Floats, features: Features) -> Floats:
        """`d f_i / d theta` of documents (..., m, d) at models (..., P), float64 (..., m, P)."""
        if not self.hidden:
            batch = np.broadcast_shapes(parameters.shape[:-1], features.shape[:-2])
            return np.broadcast_to(features, batch + features.shape[-2:]).astype(np.float64)
        layers, given = self._layers(parameters), [features.astype(np.float64)]
        for layer in layers:
            given.append(layer.units(given[-1]))
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
        return [self.features] + [self.hidden] * (self.layers - 1) if self.hidden else []

    def _layers(self, parameters: Floats) -> list[_HiddenLayer]:
        """The hidden layers of models (..., P), from the first to the last."""
        start, layers = 0, []
        for inputs in self._inputs:
            biases = start + self.hidden * inputs
            shape = (*parameters.shape[:-1], self.hidden, inputs)
            weights = parameters[..., start:biases].reshape(shape)
            start = biases + self.hidden
            layers.append(_HiddenLayer(weights, parameters[..., biases:start]))
        return layers

    def _output(self, parameters: Floats) -> Floats:
        """Weights of the output, (..., h), of the linear ranker all of them, (..., d)."""
        return parameters[..., -(self.hidden or self.features) :]


_EXPECTED = "expected linear or neural:hidden=H,layers=L"
_MOST = {"hidden": 1000, "layers": 2}


def make_ranker(text: str, features: int) -> Ranker:
    """The ranker with this text, for documents with `features` features.

    Raises:
        UsageError: an unknown name or parameter, or a refused value.
    """
    try:
        return _parsed(text, features)
    except ValueError as error:
        raise UsageError(f"ranker: {error}") from error


def ranker_text(text: str) -> str:
    """The canonical text of a ranker.

    >>> ranker_text("neural"), ranker_text("neural:layers=2,hidden=8")
    ('neural:hidden=64', 'neural:hidden=8,layers=2')

    Raises:
        ValueError: an unknown name or parameter, or a refused value.
    """
    return _parsed(text, 0).text


def known_ranker(text: str) -> bool:
    """Whether a text is that of a ranker; in the trace of another system it may not be."""
    try:
        return bool(ranker_text(text))
    except ValueError:
        return False


def _parsed(text: str, features: int) -> Ranker:
    name, colon, rest = (part.strip() for part in text.partition(":"))
    if name not in ("linear", "neural"):
        raise ValueError(f"unknown {text!r}; {_EXPECTED}")
    given: dict[str, int] = {}
    for item in rest.split(",") if colon else []:
        parameter, _, value = (part.strip() for part in item.partition("="))
        if name == "linear" or parameter not in _MOST:
            raise ValueError(f"unknown parameter {parameter!r} in {text!r}; {_EXPECTED}")
        if parameter in given:
            raise ValueError(f"{parameter} given twice in {text!r}")
        most = _MOST[parameter]
        if (number := whole_number(value, 1, most)) is None:
            raise ValueError(f"{parameter}={value} in {text!r}; expected a whole number from 1 to {most}")
        given[parameter] = number
    return Ranker(features) if name == "linear" else Ranker(features, **{"hidden": 64, **given})
