"""How many floating-point numbers lie between two, as whole numbers: exact, whatever the two are.

`kernels.update_steps` counts them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Steps = NDArray[np.unsignedinteger]
"""0, -1, 1, -2, 2 ... numbers upwards as 0, 1, 2, 3, 4 ..., of uint32 for float32 and uint64 for float64."""


def step_type(kind: str) -> str:
    """Type of the steps between numbers of a type."""
    return f"uint{8 * np.dtype(kind).itemsize}"


def after_steps(start: NDArray[np.generic], steps: NDArray[np.generic]) -> NDArray[np.generic]:
    """The numbers that so many steps lead to, in the type of those that they begin at."""
    words: Steps = steps.astype(f"u{start.dtype.itemsize}", copy=False)
    forward = (words >> 1) ^ (~(words & 1) + 1)  # back from 0, 1, 2, 3 ... to 0, -1, 1, -2 ...
    place = _place(start) + forward
    return _place(place.view(start.dtype)).view(start.dtype)


def rounded(numbers: NDArray[np.float64], kind: str) -> NDArray[np.generic]:
    """Numbers in a type, 0 where they are none in it, whose bits differ from processor to processor."""
    with np.errstate(all="ignore"):
        found: NDArray[np.generic] = numbers.astype(kind)
    finite = np.isfinite(found)
    return found if finite.all() else np.where(finite, found, found.dtype.type(0))


def _place(values: NDArray[np.generic]) -> Steps:
    """The bits of numbers, in the order of the numbers modulo 2^32 or 2^64; twice gives the bits back."""
    bits = np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}")
    low = np.iinfo(bits.dtype).max
    return np.asarray((bits ^ ((bits >> (8 * bits.itemsize - 1)) & low)).view(f"u{bits.itemsize}"))
