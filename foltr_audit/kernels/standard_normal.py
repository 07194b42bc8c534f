"""Standard normal numbers of counter-based streams.

Source: Box & Muller 1958, "A note on the generation of random normal deviates".
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from .elementary import cosine_and_sine, log_normal
from .jit import kernel, parallel_kernel
from .philox import fill_uniforms


@kernel
def fill_normals(
    out: NDArray[np.float64],
    row: int,
    size: int,
    block: int,
    client: int,
    round_: int,
    purpose: int,
    key: np.uint64,
) -> None:
    """Fill out[row, :size] with normal numbers 2 block, 2 block + 1, ... of a stream; size is even.

    Numbers 2 i and 2 i + 1 are made of the uniform numbers of the same places.
    """
    fill_uniforms(out, row, size, block, client, round_, purpose, key)
    for i in range(0, size, 2):
        length = math.sqrt(-2.0 * log_normal(out[row, i]))
        cosine, sine = cosine_and_sine(out[row, i + 1])
        out[row, i], out[row, i + 1] = length * cosine, length * sine


@parallel_kernel
def normals(
    size: int, clients: NDArray[np.int64], round_: int, purpose: int, key: np.uint64
) -> NDArray[np.float64]:
    """Normal numbers 0 .. size-1 of each client's stream, shape (clients, size)."""
    width = size + size % 2
    out = np.empty((clients.size, width))
    for c in numba.prange(clients.size):
        fill_normals(out, c, width, 0, clients[c], round_, purpose, key)
    return np.ascontiguousarray(out[:, :size])
