"""Messages of clients: models in a norm ball, weighted sums, and updates that messages tell."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from foltr_audit.kernels.elementary import ROUNDING
from foltr_audit.kernels.jit import Bools, Floats, inlined, kernel, uncounted, uncounted_kernel
from foltr_audit.kernels.sums import product_sum, size_sum
from foltr_audit.kernels.threads import filled

# --- norm balls ------------------------------------------------------------------------------------

_SMALLEST, _LARGEST = 1e-280, 1e280  # between them sums of squares lost nothing to under- or overflow
_LEAST_FACTOR = 2.0**-1022  # smaller ones have fewer digits


@inlined
def _scaled_length(models: Floats, row: int) -> float:
    """The L2 norm of a huge or tiny model, from its ratio to its largest coordinate, as BLAS's `nrm2`."""
    largest = 0.0
    for j in range(models.shape[1]):
        largest = max(largest, abs(models[row, j]))
    total = 0.0
    for j in range(models.shape[1]):
        total += (models[row, j] / largest) ** 2
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
        size = _scaled_length(models, row) if size <= _SMALLEST or size >= _LARGEST else math.sqrt(size)
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


# --- steps, and the updates that messages tell -----------------------------------------------------
# Steps count the floating-point numbers between two, 0, -1, 1, -2, 2 ... upwards as 0, 1, 2, 3, 4 ..., in
# uint32 for float32 and uint64 for float64. `trace.differences` goes them and says what for.

Numbers = NDArray[np.generic]
Bits = NDArray[np.signedinteger]
Steps = NDArray[np.unsignedinteger]

_NEAR = 256  # steps below it take a byte


def steps_between(start: Numbers, end: Numbers) -> Steps:
    """The steps from numbers (*shape) to others of the same type, (M, *shape)."""
    steps = np.empty(end.shape, dtype=f"u{end.itemsize}")
    width = start.size
    fill_steps(_bits(start).reshape(width), _bits(end).reshape(-1, width), steps.reshape(-1, width))
    return steps


def corrections(updates: Numbers, messages: Numbers, base: Floats) -> tuple[Numbers, Steps]:
    """Scales (M,) and steps (M, P) with which messages (M, P) less `base` (P,) tell updates (M, P) exactly.

    A message is divided by its scale: by what a clip has divided it, where more updates are then near.
    """
    scale, steps = np.ones_like(updates[:, 0]), np.empty(updates.shape, dtype=f"u{updates.itemsize}")
    told, again = np.empty_like(updates[:1]), np.empty_like(steps[:1])
    rounding = float(np.finfo(updates.dtype.name).eps)
    fill_corrections(
        updates, _bits(updates), messages, base, rounding, scale, steps, told, _bits(told), again
    )
    return scale, steps


def _bits(numbers: Numbers) -> Bits:
    return np.ascontiguousarray(numbers).view(f"i{numbers.itemsize}")


@uncounted_kernel
def fill_steps(start: Bits, end: Bits, steps: Steps) -> None:
    """See `steps_between`; bits (P,) and (M, P)."""
    for row in range(end.shape[0]):
        for j in range(end.shape[1]):
            steps[row, j] = _steps(start[j], end[row, j], 64 - 8 * steps.itemsize)


@uncounted_kernel
def fill_corrections(
    updates: Numbers,
    bits: Bits,
    messages: Numbers,
    base: Floats,
    rounding: float,
    scale: Numbers,
    steps: Steps,
    told: Numbers,
    told_bits: Bits,
    again: Steps,
) -> None:
    """See `corrections`; told (1, P) and its bits, and again (1, P), are room to work in."""
    for row in range(updates.shape[0]):
        _tell(messages, row, 1.0, base, rounding, told)
        near = _fill_row(told_bits, bits, row, steps, row)
        if 2 * near >= updates.shape[1]:
            continue
        scale[row] = _clip_scale(updates, messages, row, base)
        if not np.isfinite(scale[row]) or scale[row] == 0.0:
            scale[row] = 1.0
        _tell(messages, row, np.float64(scale[row]), base, rounding, told)
        if _fill_row(told_bits, bits, row, again, 0) > near:
            for j in range(updates.shape[1]):
                steps[row, j] = again[0, j]
        else:
            scale[row] = 1.0


@uncounted
def _tell(messages: Numbers, row: int, scale: float, base: Floats, rounding: float, told: Numbers) -> None:
    """Fill told (1, P) with the update that a message of a scale tells."""
    for j in range(base.size):
        found = messages[row, j] / scale - base[j]
        # What is left of a model that did not move is rounding.
        if abs(found) <= rounding * abs(base[j]):
            found = 0.0
        told[0, j] = found
        # Bits of what is no number differ from processor to processor.
        if not np.isfinite(told[0, j]):
            told[0, j] = 0.0


@uncounted
def _clip_scale(updates: Numbers, messages: Numbers, row: int, base: Floats) -> float:
    """By what a clip has scaled the model or update behind a message: at its largest number."""
    largest, place = -1.0, 0
    for j in range(base.size):
        whole = abs(np.float64(updates[row, j]) + base[j])
        if np.isfinite(whole) and whole > largest:
            largest, place = whole, j
    ratio: float = messages[row, place] / (np.float64(updates[row, place]) + base[place])
    return ratio


@uncounted
def _fill_row(told: Bits, bits: Bits, row: int, steps: Steps, to: int) -> int:
    """Fill a row of steps with those from told (1, P) to a row of numbers; how many are near."""
    near = 0
    for j in range(bits.shape[1]):
        found = _steps(told[0, j], bits[row, j], 64 - 8 * steps.itemsize)
        steps[to, j] = found
        near += int(0 <= found < _NEAR)
    return near


@uncounted
def _steps(start: int, end: int, spare: int) -> np.int64:
    """The steps between two numbers from their bits, which leave some of 64 bits unused."""
    low = 0x7FFFFFFFFFFFFFFF >> spare
    # Places in the order of the numbers, and the way between them modulo 2^32 or 2^64.
    first, last = np.int64(start), np.int64(end)
    forward = (last ^ ((last >> 63) & low)) - (first ^ ((first >> 63) & low))
    forward = (forward << spare) >> spare
    return (forward << 1) ^ (forward >> 63)
