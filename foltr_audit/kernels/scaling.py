"""Scaling by powers of two, which rounds nothing, so that the numbers of a system are about 1.

Tolerances of solvers can then be absolute. `ROUNDING` is for models, which are not scaled.
"""

from __future__ import annotations

import numpy as np

from .jit import Floats, Ints

NOTHING = -4000
"""The binary exponent of zeros: below that of any number."""

ROUNDING = 1e-9
"""A model that moves by a smaller part of its size has not moved: its norm differs in the last bits."""


def largest_exponent(numbers: Floats) -> Ints:
    """The binary exponent of the largest absolute number along axis 1."""
    largest = np.abs(numbers).max(axis=1, initial=0.0)
    return np.where(largest > 0.0, np.frexp(largest)[1], NOTHING).astype(np.int64)


def typical_exponent(values: Floats) -> Ints:
    """The binary exponent of the median of each row's nonzero absolute numbers; (n, P) to (n,).

    At least that of the largest less 900, so that numbers scaled by it stay finite.
    """
    ordered = np.sort(np.abs(values), axis=1)
    zeros = np.count_nonzero(values == 0.0, axis=1)
    middle = np.minimum((zeros + values.shape[1]) // 2, values.shape[1] - 1)
    median = np.take_along_axis(ordered, middle[:, np.newaxis], axis=1)
    return np.maximum(largest_exponent(median), largest_exponent(values) - 900)


def scaled(numbers: Floats, exponents: Ints) -> Floats:
    """`numbers * 2^exponents`, in C order; what is too large becomes infinite, what is too small 0."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(numbers, exponents, order="C"))
