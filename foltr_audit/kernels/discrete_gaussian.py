"""Discrete Gaussian variates, by rejection from discrete Laplace ones.

Where the paper draws exact rational coins, this compares uniform numbers of 52 bits.

Source: Canonne, Kamath & Steinke 2020, "The discrete Gaussian for differential privacy", algorithms 2 and
3, with coins and geometric variates made from uniform numbers.
"""

from __future__ import annotations

import math

import numpy as np

from .elementary import exp, log
from .jit import Floats, Ints, kernel
from .philox import AHEAD, refill
from .threads import in_parts

_CLIENTS = 32  # of one part: less work is done before a thread has started


@kernel
def _fill(
    sigma: float,
    client: int,
    round_: int,
    purpose: int,
    key: np.uint64,
    numbers: Floats,
    row: int,
    out: Floats,
) -> None:
    """Fill out[row]; `numbers` (1, even) is scratch memory for the stream's."""
    t = math.floor(sigma) + 1.0
    centre = sigma * sigma / t
    at, block = numbers.shape[1], numbers.shape[0] - 1  # 0, but no literal: see `refill`
    for column in range(out.shape[1]):
        # A variate takes two pairs: one for its part modulo t, one for the rest, the sign and the coin.
        low, drawn = -1.0, False
        while not drawn:
            at, block = refill(numbers, at, block, client, round_, purpose, key)
            v, w = numbers[0, at], numbers[0, at + 1]
            at += 2
            if low < 0.0:
                low = math.floor(v * t)
                low = low if w <= exp(-low / t) else -1.0
            else:
                size = low + t * math.floor(-log(v))
                # One number is sign and coin: given the sign, the rest of it is uniform again.
                negative = w < 0.5
                coin = 2.0 * w if negative else 2.0 * w - 1.0
                off = (size - centre) / sigma
                # Zero has two signs, and would be drawn twice as often if both were taken.
                drawn = not (negative and size == 0.0) and coin <= exp(-0.5 * off * off)
                out[row, column] = -size if negative else size
                low = -1.0


def discrete_gaussians(
    sigma: float, size: int, clients: Ints, round_: int, purpose: int, key: np.uint64
) -> Floats:
    """Whole numbers k with P(k) ~ exp(-(k / sigma)^2 / 2) per client and coordinate, shape (C, size)."""
    out = np.empty((clients.size, size), dtype=np.float64)
    given = (sigma, clients, round_, purpose, key, out)
    in_parts(lambda begin, end: fill_discrete_gaussians(*given, begin, end), clients.size, _CLIENTS)
    return out


@kernel
def fill_discrete_gaussians(
    sigma: float, clients: Ints, round_: int, purpose: int, key: np.uint64, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `discrete_gaussians`."""
    numbers = np.empty((1, AHEAD))
    for c in range(begin, end):
        _fill(sigma, clients[c], round_, purpose, key, numbers, c, out)
