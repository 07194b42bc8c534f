"""Differences of two Poisson variates of one mean: Skellam noise.

Source: Hoermann 1993, "The transformed rejection method for generating Poisson random variables",
algorithm PTRS, for means from 10 on; below by inversion. The log mass is taken as in Loader 2000, "Fast and
accurate computation of binomial probabilities", so that no digits are lost where the mean is large.
"""

from __future__ import annotations

import math

import numpy as np

from .elementary import exp, log
from .jit import Floats, Ints, kernel
from .philox import AHEAD, refill
from .threads import in_parts

_INVERTED = 10.0  # means from here on are drawn by rejection: the paper's constants hold from 10 on
_CLOSE = 0.1  # relative distance within which k ln(k / mean) + mean - k would cancel: Loader's choice
_CLIENTS = 32  # of one part: less work is done before a thread has started
_FEW = 15.0  # Loader's series for log k! is exact to the last digit from here on
_FACTORIALS = tuple(float(math.factorial(k)) for k in range(int(_FEW)))


@kernel
def _inverted(mean: float, u: float) -> float:
    """The quantile of a Poisson variate of a small mean."""
    k, mass = 0.0, exp(-mean)
    below = mass
    # By rounding all masses together may stay below u: the loop also ends once they vanish.
    while u > below and mass > 0.0:
        k += 1.0
        mass *= mean / k
        below += mass
    return k


@kernel
def _deviance(k: float, mean: float) -> float:
    """`k ln(k / mean) + mean - k`, also where k and mean are close."""
    if abs(k - mean) >= _CLOSE * (k + mean):
        return k * log(k / mean) + mean - k
    v = (k - mean) / (k + mean)
    total, power = (k - mean) * v, 2.0 * k * v
    for j in range(1, 40):  # |v| < 0.1: it ends after eight terms or so
        power *= v * v
        before = total
        total += power / (2 * j + 1)
        if total == before:
            break
    return total


@kernel
def _log_mass(k: float, mean: float) -> float:
    """Natural logarithm of P(k) of a Poisson variate."""
    if k == 0.0:
        return -mean
    if k < _FEW:
        return k * log(mean) - mean - log(_FACTORIALS[int(k)])
    kk = k * k
    stirling = (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - (1.0 / 1680) / kk) / kk) / kk) / k
    return -stirling - _deviance(k, mean) - 0.5 * log(2.0 * math.pi * k)


@kernel
def _rejected(mean: float, b: float, u: float, v: float) -> float:
    """One try of PTRS; -1 if it fails."""
    a = -0.059 + 0.02483 * b
    u -= 0.5
    near = 0.5 - abs(u)
    k = math.floor((2.0 * a / near + b) * u + mean + 0.43)
    if near >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2.0):
        return k
    if k < 0.0 or (near < 0.013 and v > near):
        return -1.0
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    hat = log(v * inverse_alpha / (a / (near * near) + b))
    return k if hat <= _log_mass(k, mean) else -1.0


@kernel
def _fill_differences(
    mean: float,
    client: int,
    round_: int,
    purpose: int,
    key: np.uint64,
    numbers: Floats,
    row: int,
    out: Floats,
) -> None:
    """Fill out[row]; `numbers` (1, even) is scratch memory for the stream's."""
    at, block = numbers.shape[1], numbers.shape[0] - 1  # 0, but no literal: see `refill`
    b = 0.931 + 2.53 * math.sqrt(mean)
    for column in range(out.shape[1]):
        first, drawn = -1.0, False
        while not drawn:
            at, block = refill(numbers, at, block, client, round_, purpose, key)
            u, v = numbers[0, at], numbers[0, at + 1]
            at += 2
            if mean < _INVERTED:
                out[row, column] = _inverted(mean, u) - _inverted(mean, v)
                drawn = True
            else:
                k = _rejected(mean, b, u, v)
                if first < 0.0:
                    first = k
                elif k >= 0.0:
                    out[row, column] = first - k
                    drawn = True


def poisson_differences(
    mean: float, size: int, clients: Ints, round_: int, purpose: int, key: np.uint64
) -> Floats:
    """`k - k'` of Poisson variates of a mean per client and coordinate, shape (C, size)."""
    out = np.empty((clients.size, size), dtype=np.float64)
    given = (mean, clients, round_, purpose, key, out)
    in_parts(lambda begin, end: fill_poisson_differences(*given, begin, end), clients.size, _CLIENTS)
    return out


@kernel
def fill_poisson_differences(
    mean: float, clients: Ints, round_: int, purpose: int, key: np.uint64, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `poisson_differences`."""
    numbers = np.empty((1, AHEAD))
    for c in range(begin, end):
        _fill_differences(mean, clients[c], round_, purpose, key, numbers, c, out)
