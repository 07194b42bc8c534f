"""The server's weighted sum of messages."""

from __future__ import annotations

import numba
import numpy as np

from .jit import Floats, parallel_kernel

_COLUMNS = 64  # parameters that one thread sums, so that it writes whole cache lines


@parallel_kernel
def weighted_sum(messages: Floats, weights: Floats) -> Floats:
    """`sum_c weights[c] messages[c]` over messages (C, P) of weight above 0, in their order; (P,)."""
    C, P = messages.shape
    out = np.zeros(P)
    for block in numba.prange((P + _COLUMNS - 1) // _COLUMNS):
        first, last = block * _COLUMNS, min((block + 1) * _COLUMNS, P)
        # Clients outside: rows are read as they lie, and each parameter is summed in the order of clients
        # whatever the number of threads.
        for c in range(C):
            if weights[c] > 0.0:
                for j in range(first, last):
                    out[j] += weights[c] * messages[c, j]
    return out
