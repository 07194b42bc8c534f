"""Messages of clients: models in a norm ball, and weighted sums."""

from __future__ import annotations

import math

import numpy as np

from foltr_audit.kernels.elementary import ROUNDING
from foltr_audit.kernels.jit import Bools, Floats, Ints, inlined, kernel
from foltr_audit.kernels.sums import product_sum, size_sum
from foltr_audit.kernels.threads import filled

# --- norm balls ------------------------------------------------------------------------------------

_SMALLEST, _LARGEST = 1e-280, 1e280  # between them sums of squares lost nothing to under- or overflow
_LEAST_FACTOR = 2.0**-1022  # smaller ones have fewer digits


@inlined
def scaled_length(model: Floats) -> float:
    """The L2 norm of a huge or tiny model, from its ratio to its largest coordinate, as BLAS's `nrm2`."""
    largest = 0.0
    for number in model:
        largest = max(largest, abs(number))
    total = 0.0
    for number in model:
        total += (number / largest) ** 2
    # A model of zeros, or with an infinite number, has its largest coordinate as its length: the ratios above
    # are NaN.
    return largest * math.sqrt(total) if 0.0 < largest < math.inf else largest


@inlined
def _length(models: Floats, row: int, order: int) -> float:
    """The L1 or L2 norm (order 1 or 2) of a model."""
    model = models[row]
    size = size_sum(model) if order == 1 else product_sum(model, model)
    if order != 1:
        # No comparison holds for NaN, whose root is NaN.
        size = scaled_length(model) if size <= _SMALLEST or size >= _LARGEST else math.sqrt(size)
    return size


@inlined
def project_row(models: Floats, row: int, norm: float, order: int) -> bool:
    """Scale models[row] by min(1, norm / its norm), in place; whether that moved it by more than rounding.

    A model that is not finite, or whose norm is not, becomes the centre: zeros.
    """
    size = _length(models, row, order)
    if size <= norm:
        return False
    factor = norm / size
    if factor >= _LEAST_FACTOR:
        for j in range(models.shape[1]):
            models[row, j] *= factor
    else:
        for j in range(models.shape[1]):
            models[row, j] = 0.0
    return not factor >= _LEAST_FACTOR or 1.0 - factor > ROUNDING


@kernel
def projected(models: Floats, norm: float, order: int) -> Floats:
    """Models (C, P) scaled into the ball by min(1, norm / their norm); zeros for one that is not finite."""
    inside = models.copy()
    for c in range(models.shape[0]):
        project_row(inside, c, norm, order)
    return inside


@kernel
def moved_rows(before: Floats, after: Floats) -> Bools:
    """Which models (C, P) moved by more than rounding, (C,): a number that is not finite has moved."""
    moved = np.empty(before.shape[0], dtype=np.bool_)
    for c in range(before.shape[0]):
        farthest, largest, all_numbers = 0.0, 0.0, True
        for j in range(before.shape[1]):
            apart, size = abs(after[c, j] - before[c, j]), abs(before[c, j])
            farthest, largest = max(farthest, apart), max(largest, size)
            all_numbers &= apart == apart
        moved[c] = not (all_numbers and farthest < math.inf and farthest <= ROUNDING * largest)
    return moved


@kernel
def farthest_columns(
    columns: Floats, names: Ints, most: Floats, order: int, best: float, more: float
) -> tuple[int, int, float]:
    """Names of the two columns of (P, n), P even, that are farthest apart in the L1 or L2 norm, and how far.

    Only columns that are more than `more` times as far apart as `best` count, else (-1, -1, best). Column i
    is passed over where `most[i]` says that no other one is. Of equal ones the lowest name counts.
    """
    (P, n), one, other = columns.shape, -1, -1
    sums = np.empty(n)
    for i in range(n - 1):
        if most[i] <= best * more:
            continue
        apart = sums[i + 1 :]
        apart[:] = 0.0
        for p in range(0, P, 2):  # two rows at once: a store of each sum would wait for the last one
            a, b = columns[p, i + 1 :], columns[p + 1, i + 1 :]
            for j in range(a.size):
                x, y = abs(a[j] - columns[p, i]), abs(b[j] - columns[p + 1, i])
                apart[j] += x + y if order == 1 else x * x + y * y
        farthest = apart.max()
        if (farthest if order == 1 else math.sqrt(farthest)) > best * more:
            equals = farthest / (more if order == 1 else more * more)
            first = int(np.argmin(np.where(apart >= equals, names[i + 1 :], n)))
            one, other = names[i], names[i + 1 + first]
            best = apart[first] if order == 1 else math.sqrt(apart[first])
    return one, other, best


# --- weighted sums ---------------------------------------------------------------------------------

_COLUMNS = 64  # parameters that one thread sums, so that it writes whole cache lines


def weighted_sum(messages: Floats, weights: Floats) -> Floats:
    """`sum_c weights[c] messages[c]` over messages (C, P) of weight above 0, in their order; (P,)."""
    return filled(np.zeros(messages.shape[1]), _COLUMNS, add_columns, messages, weights)


@kernel
def add_columns(messages: Floats, weights: Floats, out: Floats, begin: int, end: int) -> None:
    """Add the weighted columns begin .. end - 1 of messages (C, P) to out (P,)."""
    # Clients outside: rows are read as they lie, and each parameter is summed in the order of clients,
    # whatever the number of threads.
    for c in range(messages.shape[0]):
        if weights[c] > 0.0:
            for j in range(begin, end):
                out[j] += weights[c] * messages[c, j]
