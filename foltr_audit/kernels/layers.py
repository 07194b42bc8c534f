"""One layer of a network: weighted sums of inputs, their rectified values, and derivatives of both.

Documents go through it side by side, LANES at a time: a tile has one row for each number (a feature, or the
output of a unit) and one column for each document. A tile is always full; with fewer documents the other
columns are computed and ignored. So each document meets the same operations in the same order in any column,
and they use wide registers without fast-math.
"""

from __future__ import annotations

from .jit import Floats, kernel

LANES = 16
"""Documents of a tile: more would waste columns at the end of a query, fewer leave registers idle."""


@kernel
def add_weighted(
    model: Floats, at: int, unit_stride: int, input_stride: int, inputs: Floats, n: int, sums: Floats
) -> None:
    """Add `sum_j w[u, j] inputs[j]` over n inputs to each row u of `sums`, column by column.

    Weight w[u, j] is model[at + u * unit_stride + j * input_stride]: strides (n, 1) go forward through
    weights that lie unit by unit, strides (1, units) go back through them. Four units take turns, so
    that their sums stay in registers.
    """
    fours = sums.shape[0] // 4 * 4
    for u in range(0, fours, 4):
        first = at + u * unit_stride
        second, third, fourth = first + unit_stride, first + 2 * unit_stride, first + 3 * unit_stride
        for j in range(n):
            a, b = model[first + j * input_stride], model[second + j * input_stride]
            c, d = model[third + j * input_stride], model[fourth + j * input_stride]
            for i in range(LANES):
                value = inputs[j, i]
                sums[u, i] += a * value
                sums[u + 1, i] += b * value
                sums[u + 2, i] += c * value
                sums[u + 3, i] += d * value
    for u in range(fours, sums.shape[0]):
        for j in range(n):
            weight = model[at + u * unit_stride + j * input_stride]
            for i in range(LANES):
                sums[u, i] += weight * inputs[j, i]


@kernel
def fill_units(model: Floats, at: int, inputs: Floats, n: int, units: Floats) -> None:
    """Fill `units` (h, LANES) with `relu(W x + b)` of inputs (n, LANES); the model has [W | b] at `at`."""
    biases = at + units.shape[0] * n
    for u in range(units.shape[0]):
        for i in range(LANES):
            units[u, i] = model[biases + u]
    add_weighted(model, at, n, 1, inputs, n, units)
    for u in range(units.shape[0]):
        for i in range(LANES):
            units[u, i] = 0.0 if units[u, i] <= 0.0 else units[u, i]


@kernel
def fill_input_slopes(model: Floats, at: int, slopes: Floats, inputs: Floats, below: Floats) -> None:
    """Fill `below` (h, LANES) with the derivatives by this layer's inputs, from slopes (h, LANES).

    Both layers have h units. The derivative of relu at 0 is 0: where an input is 0, so is its slope.
    """
    below[:] = 0.0
    add_weighted(model, at, 1, below.shape[0], slopes, slopes.shape[0], below)
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
    h = slopes.shape[0]
    fours, biases = h // 4 * 4, at + h * n
    for i in range(columns):
        for j in range(n):
            rows[i, j] = inputs[j, i]
    for u in range(0, fours, 4):
        _add_to_four_units(slopes, u, rows, columns, out[at + u * n : at + (u + 4) * n])
    for u in range(fours, h):
        for i in range(columns):
            for j in range(n):
                out[at + u * n + j] += slopes[u, i] * rows[i, j]
    for u in range(h):
        for i in range(columns):
            out[biases + u] += slopes[u, i]


@kernel
def _add_to_four_units(slopes: Floats, u: int, rows: Floats, columns: int, out: Floats) -> None:
    """Add to the weights (4 n,) of the units u .. u + 3, whose slopes share each input that is read."""
    n = out.size // 4
    a, b, c, d = out[:n], out[n : 2 * n], out[2 * n : 3 * n], out[3 * n :]
    for i in range(columns):
        slope_a, slope_b, slope_c, slope_d = (
            slopes[u, i],
            slopes[u + 1, i],
            slopes[u + 2, i],
            slopes[u + 3, i],
        )
        row = rows[i]
        for j in range(n):
            a[j] += slope_a * row[j]
            b[j] += slope_b * row[j]
            c[j] += slope_c * row[j]
            d[j] += slope_d * row[j]
