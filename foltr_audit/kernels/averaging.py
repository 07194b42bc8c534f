"""The server's weighted sum of messages."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from .jit import parallel_kernel

_COLUMNS = 64  # parameters that one thread sums, so that it writes whole cache lines


@parallel_kernel
def weighted_sum(messages: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """`sum_c weights[c] messages[c]` over messages (C, P) of weight above 0, in their order; (P,)."""
    C, P = messages.shape
    out = np.zeros(P)
    for block in numba.prange((P + _COLUMNS - 1) // _COLUMNS):
        first, last = block * _COLUMNS, min((block + 1) * _COLUMNS, P)
        for c in range(C):
            if weights[c] > 0.0:
                for j in range(first, last):
                    out[j] += weights[c] * messages[c, j]
    return out
