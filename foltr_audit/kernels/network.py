"""Scores of a ranker with hidden layers, and weighted sums of its Jacobian rows, for a whole cohort.

A model is a row `[W1 | b1 | ... | w]` of P parameters: for each hidden layer its weights (h, inputs)
row by row and its biases (h,), then the weights of the output (h,), which has no bias.
Queries, candidates and shown lists lie as in the kernels of the linear ranker.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foltr_audit.kernels.jit import Floats, Ints, inlined, kernel, read_only, unsigned
from foltr_audit.kernels.ranking import Features
from foltr_audit.kernels.sums import add_products
from foltr_audit.kernels.threads import filled, in_parts

# --- one layer -------------------------------------------------------------------------------------
# Documents go through it side by side, LANES at a time: a tile has one row for each number (a feature, or the
# output of a unit) and one column for each document. A tile is always full; with fewer documents the other
# columns are computed and ignored. So each document meets the same operations in the same order in any
# column, and they use wide registers without fast-math.

LANES = 16
"""Documents of a tile: more would waste columns at the end of a query, fewer leave registers idle."""


@kernel
def fill_units(model: Floats, at: int, inputs: Floats, n: int, units: Floats) -> None:
    """Fill `units` (h, LANES) with `relu(W x + b)` of inputs (n, LANES); the model has [W | b] at `at`."""
    biases = at + units.shape[0] * n
    for u in range(units.shape[0]):
        for i in range(LANES):
            units[u, i] = model[biases + u]
    add_products(model, (at, n, 1), inputs, (0, LANES), units, (0, LANES), n, units.shape[0], LANES)
    # One long loop: the compiler writes one over the columns of a row in scalar instructions.
    flat = units.reshape(-1)
    for i in range(flat.size):
        flat[i] = 0.0 if flat[i] <= 0.0 else flat[i]


@kernel
def fill_input_slopes(model: Floats, at: int, slopes: Floats, inputs: Floats, below: Floats) -> None:
    """Fill `below` (h, LANES) with the derivatives by this layer's inputs, from slopes (h, LANES).

    Both layers have h units. The derivative of relu at 0 is 0: where an input is 0, so is its slope.
    """
    below[:] = 0.0
    h = below.shape[0]
    add_products(model, (at, 1, h), slopes, (0, LANES), below, (0, LANES), slopes.shape[0], h, LANES)
    flat, given = below.reshape(-1), inputs.reshape(-1)
    for i in range(flat.size):
        flat[i] = flat[i] if given[i] > 0.0 else 0.0


@kernel
def add_weight_slopes(
    slopes: Floats, inputs: Floats, n: int, columns: int, rows: Floats, out: Floats, at: int
) -> None:
    """Add the derivatives by [W | b] to out[at ...], from slopes (h, LANES) of the first `columns` columns.

    `rows` is memory of at least (LANES, n) for the inputs (n, LANES), document by document.
    """
    h, biases = slopes.shape[0], at + slopes.shape[0] * n
    for i in range(columns):
        for j in range(n):
            rows[i, j] = inputs[j, i]
    add_products(slopes, (0, LANES, 1), rows, (0, rows.shape[1]), out, (at, n), columns, h, n)
    for u in range(h):
        for i in range(columns):
            out[biases + u] += slopes[u, i]


# --- whole networks --------------------------------------------------------------------------------

_QUERIES = 4  # of one part: less work is done before a thread has started


class NetworkShape(NamedTuple):
    """The shape of a network: d features, and some hidden layers of h units each."""

    features: int
    hidden: int
    layers: int


class NetworkTile(NamedTuple):
    """Memory for LANES documents on their way through a network and back.

    Attributes:
        network: its shape.
        documents: their features, (d, LANES).
        units: outputs of the units of each layer, (layers, h, LANES).
        slopes: derivative of the result by each unit's sum, (layers, h, LANES).
        rows: inputs of a layer document by document, (LANES, the most inputs).
        scores: of the documents, (1, LANES).
        weights: of the documents in a sum of Jacobian rows, (LANES,).
        lanes: which document of the query each column holds, (LANES,).
    """

    network: NetworkShape
    documents: Floats
    units: Floats
    slopes: Floats
    rows: Floats
    scores: Floats
    weights: Floats
    lanes: Ints


@kernel
def new_tile(network: NetworkShape) -> NetworkTile:
    d, h, layers = network.features, network.hidden, network.layers
    return NetworkTile(
        network,
        np.zeros((d, LANES)),
        np.empty((layers, h, LANES)),
        np.empty((layers, h, LANES)),
        np.empty((LANES, max(d, h))),
        np.empty((1, LANES)),
        np.empty(LANES),
        np.empty(LANES, dtype=np.int64),
    )


@inlined
def _start(network: NetworkShape, layer: int) -> int:
    """Where the weights of a hidden layer begin in a model; of the layer after the last, the output's."""
    d, h = network.features, network.hidden
    return h * (d + 1) + (layer - 1) * h * (h + 1) if layer > 0 else 0


@kernel
def _go_through(features: Features, first: int, columns: int, model: Floats, tile: NetworkTile) -> None:
    """Take the documents first + tile.lanes[:columns] through all hidden layers."""
    network, documents, lanes, units = tile.network, tile.documents, tile.lanes, tile.units
    d = network.features
    for i in range(columns):
        document = unsigned(first + lanes[i])
        for j in range(d):
            documents[unsigned(j), unsigned(i)] = features[document, unsigned(j)]
    fill_units(model, 0, documents, d, units[0])
    for layer in range(1, network.layers):
        fill_units(model, _start(network, layer), units[layer - 1], network.hidden, units[layer])


@kernel
def fill_scores(
    features: Features, first: int, size: int, model: Floats, tile: NetworkTile, out: Floats
) -> None:
    """Fill out[:size] with the scores of the documents first .. first + size - 1 under a model (P,)."""
    network, scores = tile.network, tile.scores
    output, h = _start(network, network.layers), network.hidden
    for begin in range(0, size, LANES):
        columns = min(LANES, size - begin)
        for i in range(columns):
            tile.lanes[i] = begin + i
        _go_through(features, first, columns, model, tile)
        scores[:] = 0.0
        units = tile.units[network.layers - 1]
        add_products(model, (output, h, 1), units, (0, LANES), scores, (0, LANES), h, 1, LANES)
        for i in range(columns):
            out[begin + i] = scores[0, i]


@kernel
def _go_back(columns: int, model: Floats, tile: NetworkTile, out: Floats) -> None:
    """Add `sum_i weights_i d f_i / d theta` of the documents that went through a network to out (P,)."""
    network, units, slopes, weights = tile.network, tile.units, tile.slopes, tile.weights
    h, last, output = network.hidden, network.layers - 1, _start(network, network.layers)
    for u in range(h):
        for i in range(LANES):
            active = i < columns and units[last, u, i] > 0.0
            slopes[last, u, i] = weights[i] * model[output + u] if active else 0.0
        for i in range(columns):
            out[output + u] += weights[i] * units[last, u, i]
    for layer in range(last, 0, -1):
        at, inputs = _start(network, layer), units[layer - 1]
        add_weight_slopes(slopes[layer], inputs, h, columns, tile.rows, out, at)
        fill_input_slopes(model, at, slopes[layer], inputs, slopes[layer - 1])
    add_weight_slopes(slopes[0], tile.documents, network.features, columns, tile.rows, out, 0)


@kernel
def fill_gradient(
    features: Features,
    first: int,
    shown: Ints,
    weights: Floats,
    model: Floats,
    tile: NetworkTile,
    out: Floats,
) -> None:
    """Fill out (P,) with `sum_i weights[i] d f_i / d theta` over shown documents (k,) of a query."""
    out[:] = 0.0
    columns = 0
    for i in range(shown.size):
        if shown[i] >= 0 and weights[i] != 0.0:
            tile.lanes[columns], tile.weights[columns] = shown[i], weights[i]
            columns += 1
        if columns == LANES or (columns > 0 and i == shown.size - 1):
            _go_through(features, first, columns, model, tile)
            _go_back(columns, model, tile, out)
            columns = 0


def neural_scores(
    features: Features, offsets: Ints, queries: Ints, starts: Ints, models: Floats, network: NetworkShape
) -> Floats:
    """Scores of every candidate, summed in float64, flat as in `linear_scores`.

    `models` has one row a client, or a single row that all share.
    """
    scores = np.empty(starts[-1], dtype=np.float64)
    given = (features, offsets, queries, starts, read_only(models), network, scores)
    in_parts(lambda begin, end: fill_neural_scores(*given, begin, end), queries.size, _QUERIES)
    return scores


@kernel
def fill_neural_scores(
    features: Features,
    offsets: Ints,
    queries: Ints,
    starts: Ints,
    models: Floats,
    network: NetworkShape,
    scores: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill the scores of queries begin .. end - 1 of `neural_scores`."""
    tile = new_tile(network)
    for c in range(begin, end):
        model, first = models[min(c, models.shape[0] - 1)], starts[c]
        size = starts[c + 1] - first
        fill_scores(features, offsets[queries[c]], size, model, tile, scores[first : first + size])


def neural_gradients(
    features: Features,
    offsets: Ints,
    queries: Ints,
    shown: Ints,
    weights: Floats,
    models: Floats,
    network: NetworkShape,
) -> Floats:
    """`sum_i weights[c, i] d f_i / d theta` over the shown documents, float64, shape (C, P).

    `models` has one row a client, or a single row that all share.
    """
    given = (features, offsets, queries, shown, read_only(weights), read_only(models), network)
    return filled(np.empty((queries.size, models.shape[1])), _QUERIES, fill_neural_gradients, *given)


@kernel
def fill_neural_gradients(
    features: Features,
    offsets: Ints,
    queries: Ints,
    shown: Ints,
    weights: Floats,
    models: Floats,
    network: NetworkShape,
    sums: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill sums[begin:end] of `neural_gradients`."""
    tile = new_tile(network)
    for c in range(begin, end):
        model = models[min(c, models.shape[0] - 1)]
        first = offsets[queries[c]]
        fill_gradient(features, first, shown[c], weights[c], model, tile, sums[c])
