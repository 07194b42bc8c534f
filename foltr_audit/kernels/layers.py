"""One layer of a network: weighted sums of inputs, their rectified values, and derivatives of both.

Documents go through it side by side, LANES at a time: a tile has one row for each number (a feature, or the
output of a unit) and one column for each document. A tile is always full; with fewer documents the other
columns are computed and ignored. So each document meets the same operations in the same order in any column,
and they use wide registers without fast-math.
"""

from __future__ import annotations

from .jit import Floats, kernel
from .register_tiles import add_products

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
    for u in range(units.shape[0]):
        for i in range(LANES):
            units[u, i] = 0.0 if units[u, i] <= 0.0 else units[u, i]


@kernel
def fill_input_slopes(model: Floats, at: int, slopes: Floats, inputs: Floats, below: Floats) -> None:
    """Fill `below` (h, LANES) with the derivatives by this layer's inputs, from slopes (h, LANES).

    Both layers have h units. The derivative of relu at 0 is 0: where an input is 0, so is its slope.
    """
    below[:] = 0.0
    h = below.shape[0]
    add_products(model, (at, 1, h), slopes, (0, LANES), below, (0, LANES), slopes.shape[0], h, LANES)
    for u in range(below.shape[0]):
        for i in range(LANES):
            below[u, i] = below[u, i] if inputs[u, i] > 0.0 else 0.0


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
