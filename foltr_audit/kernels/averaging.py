"""The server's weighted sum of messages."""

from __future__ import annotations

import numpy as np

from .jit import Floats, kernel
from .threads import in_parts

_COLUMNS = 64  # parameters that one thread sums, so that it writes whole cache lines


def weighted_sum(messages: Floats, weights: Floats) -> Floats:
    """`sum_c weights[c] messages[c]` over messages (C, P) of weight above 0, in their order; (P,)."""
    out = np.zeros(messages.shape[1])
    in_parts(lambda begin, end: add_columns(messages, weights, out, begin, end), out.size, _COLUMNS)
    return out


@kernel
def add_columns(messages: Floats, weights: Floats, out: Floats, begin: int, end: int) -> None:
    """Add the weighted columns begin .. end - 1 of messages (C, P) to out (P,)."""
    # Clients outside: rows are read as they lie, and each parameter is summed in the order of clients,
    # whatever the number of threads.
    for c in range(messages.shape[0]):
        if weights[c] > 0.0:
            for j in range(begin, end):
                out[j] += weights[c] * messages[c, j]
