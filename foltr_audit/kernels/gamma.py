"""Differences of Gamma variates: the noise shares that clients of FPDGD add.

Source: Best 1983, "A note on gamma variate generators with shape parameter less than unity", as
algorithm RGS in Devroye 1986, "Non-uniform random variate generation", section IX.3.6, for shapes up to 1.
It needs one block of two uniform numbers a try, and hardly ever a second try where the shape is small.
Sums of many variates, of shapes above 1: Marsaglia & Tsang 2000, "A simple method for generating gamma
variables", which takes a second try for at most one variate in twenty.
"""

from __future__ import annotations

import math

import numpy as np

from .elementary import cosine_and_sine, exp, log, log_normal
from .jit import Floats, Ints, inlined, kernel, read_only
from .philox import AHEAD, refill
from .threads import in_parts

# exp(-800) is 0 in float64, and so is any multiple of it that can occur.
_LOG_UNDERFLOW = -800.0
_CLIENTS = 32  # of one part: less work is done before a thread has started


@inlined
def _fill_differences(
    shape: float,
    client: int,
    round_: int,
    purpose: int,
    key: np.uint64,
    numbers: Floats,
    row: int,
    out: Floats,
) -> None:
    """Fill out[row] with `gamma - gamma'`; `numbers` (1, even) is scratch memory for the stream's."""
    # Best's formula for the place where the hat changes from a power to an exponential: close to the one with
    # the fewest rejections.
    t = 0.07 + 0.75 * math.sqrt(1.0 - shape)
    b = 1.0 + exp(-t) * shape / t
    gone = exp(_LOG_UNDERFLOW * shape)
    at, block = numbers.shape[1], numbers.shape[0] - 1  # 0, but no literal: see `refill`
    for variate in range(2 * out.shape[1]):
        x, drawn = 0.0, False
        while not drawn:
            at, block = refill(numbers, at, block, client, round_, purpose, key)
            v, w = b * numbers[0, at], numbers[0, at + 1]
            at += 2
            if v < gone:  # the power below would underflow: `log(v) / shape` is less than -800
                x, drawn = 0.0, True
            elif v <= 1.0:
                x = t * exp(log(v) / shape)
                drawn = w <= (2.0 - x) / (2.0 + x) or w <= exp(-x)
            else:
                x = -log(t * (b - v) / shape)
                y = x / t
                drawn = w * (shape + y * (1.0 - shape)) <= 1.0 or w <= exp((shape - 1.0) * log(y))
        column = variate // 2
        out[row, column] = x if variate % 2 == 0 else out[row, column] - x


@kernel
def _fill_large_differences(
    shape: float,
    client: int,
    round_: int,
    purpose: int,
    key: np.uint64,
    numbers: Floats,
    row: int,
    out: Floats,
) -> None:
    """The same for a shape above 1; `numbers` (1, multiple of four)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    at, block = numbers.shape[1], numbers.shape[0] - 1  # 0, but no literal: see `refill`
    for variate in range(2 * out.shape[1]):
        x, drawn = 0.0, False
        while not drawn:
            at, block = refill(numbers, at, block, client, round_, purpose, key)
            normal = math.sqrt(-2.0 * log_normal(numbers[0, at])) * cosine_and_sine(numbers[0, at + 1])[0]
            root, w = 1.0 + c * normal, numbers[0, at + 2]  # the fourth number is not used
            at += 4
            if root > 0.0:
                cube = root * root * root
                x = d * cube
                drawn = log(w) <= 0.5 * normal * normal + d * (1.0 - cube + log(cube))
        column = variate // 2
        out[row, column] = x if variate % 2 == 0 else out[row, column] - x


def gamma_differences(
    shape: float, size: int, clients: Ints, round_: int, purpose: int, key: np.uint64
) -> Floats:
    """`gamma - gamma'` of scale 1 and a shape above 0 per client and coordinate, shape (C, size)."""
    out = np.empty((clients.size, size), dtype=np.float64)
    given = (shape, read_only(clients), round_, purpose, key, out)
    fill = fill_gamma_differences if shape <= 1.0 else fill_large_gamma_differences
    in_parts(lambda begin, end: fill(*given, begin, end), clients.size, _CLIENTS)
    return out


@kernel
def fill_gamma_differences(
    shape: float, clients: Ints, round_: int, purpose: int, key: np.uint64, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `gamma_differences`."""
    # Two variates a coordinate, two numbers a try, and room for one try that fails.
    numbers = np.empty((1, min(AHEAD, 4 * out.shape[1] + 2)))
    for c in range(begin, end):
        _fill_differences(shape, clients[c], round_, purpose, key, numbers, c, out)


@kernel
def fill_large_gamma_differences(
    shape: float, clients: Ints, round_: int, purpose: int, key: np.uint64, out: Floats, begin: int, end: int
) -> None:
    """The same for a shape above 1."""
    numbers = np.empty((1, AHEAD))
    for c in range(begin, end):
        _fill_large_differences(shape, clients[c], round_, purpose, key, numbers, c, out)
