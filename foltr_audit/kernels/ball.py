"""Scaling models back into a norm ball: the clip that local steps may end with, and which models moved."""

from __future__ import annotations

import math

import numpy as np

from .jit import Bools, Floats, inlined, kernel
from .lanes import product_sum, size_sum
from .scaling import ROUNDING

_SMALLEST, _LARGEST = 1e-280, 1e280  # between them sums of squares lost nothing to under- or overflow


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
        size = math.sqrt(size) if _SMALLEST < size < _LARGEST else _scaled_length(models, row)
    return size


@inlined
def project_row(models: Floats, row: int, norm: float, order: int) -> bool:
    """Scale models[row] by min(1, norm / its norm), in place; whether that moved it by more than rounding."""
    size = _length(models, row, order)
    moved = False
    if size > norm:
        factor = norm / size
        moved = 1.0 - factor > ROUNDING
        for j in range(models.shape[1]):
            models[row, j] *= factor
    return moved


@kernel
def projected(models: Floats, norm: float, order: int) -> Floats:
    """Models (C, P) scaled into the ball, each by min(1, norm / its norm)."""
    inside = models.copy()
    for c in range(models.shape[0]):
        project_row(inside, c, norm, order)
    return inside


@kernel
def moved_rows(before: Floats, after: Floats) -> Bools:
    """Which models (C, P) moved by more than rounding, (C,): a number that is not finite has moved."""
    found = np.empty(before.shape[0], dtype=np.bool_)
    for c in range(before.shape[0]):
        farthest, largest, all_numbers = 0.0, 0.0, True
        for j in range(before.shape[1]):
            apart, size = abs(after[c, j] - before[c, j]), abs(before[c, j])
            farthest, largest = max(farthest, apart), max(largest, size)
            all_numbers &= apart == apart
        found[c] = not (all_numbers and farthest <= ROUNDING * largest)
    return found
