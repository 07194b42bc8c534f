"""The mean that a server makes of messages, weighted by their counts, as far as rounding lets it be told."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-5
"""How far a mean may be off, as a share of its largest number: servers may average in float32."""


def weighted_mean(
    weights: NDArray[np.float64], arrays: Iterable[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of M messages, (P,), and the largest size of each number in a message, (P,).

    Args:
        weights: of the messages (M,), not all of them 0.
        arrays: the arrays of the messages, each (M, p), which make P numbers in a row.
    """
    shares, means, largest = weights / weights.sum(), [np.empty(0)], [np.empty(0)]
    for numbers in arrays:
        means.append(shares @ numbers)
        largest.append(np.abs(numbers).max(axis=0))
    return np.concatenate(means), np.concatenate(largest)
