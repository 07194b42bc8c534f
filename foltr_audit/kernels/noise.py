"""Noise of defenses: differences of Gamma and of Poisson variates, and discrete Gaussian ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from foltr_audit.kernels.elementary import cosine_and_sine, decay, exp, log, log_normal
from foltr_audit.kernels.jit import Floats, Ints, kernel, read_only, unsigned
from foltr_audit.kernels.philox import AHEAD, fill_pairs, refill
from foltr_audit.kernels.threads import filled

_CLIENTS = 32  # of one part: less work is done before a thread has started


def _by_client(
    fill: Callable[..., None],
    parameter: float,
    size: int,
    clients: Ints,
    round_: int,
    purpose: int,
    key: np.uint64,
) -> Floats:
    """The numbers that a kernel draws with a parameter per client and coordinate, shape (C, size)."""
    given = (parameter, read_only(clients), round_, purpose, key)
    return filled(np.empty((clients.size, size), dtype=np.float64), _CLIENTS, fill, *given)


# --- Gamma differences (FPDGD) ---------------------------------------------------------------------
# Source: Best 1983, "A note on gamma variate generators with shape parameter less than unity", as
# algorithm RGS in Devroye 1986, "Non-uniform random variate generation", section IX.3.6, for shapes up to 1.
# It needs one pair of uniform numbers a try, and hardly ever a second try where the shape is small.
# Sums of many variates, of shapes above 1: Marsaglia & Tsang 2000, "A simple method for generating gamma
# variables", which takes a second try for at most one variate in twenty.

_COLUMNS = 256  # coordinates that are drawn at once: what they are made of stays in the second-level cache
_SPARE, _BEHIND = 16, 1 << 31  # numbers that are made at once for second tries, and their first block
_LOG_LEAST = -700.0  # a variate below exp(-700), 1e-304, is 0: subnormal numbers cost as much as all others


@kernel
def _gamma_try(shape: float, t: float, b: float, v: float, w: float) -> float:
    """One try of Best's algorithm from numbers of (0, b) and (0, 1); -1 if it fails."""
    if v <= 1.0:
        x = t * exp(log(v) / shape)
        return x if w <= (2.0 - x) / (2.0 + x) or w <= exp(-x) else -1.0
    x = -log(t * (b - v) / shape)
    y = x / t
    return x if w * (shape + y * (1.0 - shape)) <= 1.0 or w <= exp((shape - 1.0) * log(y)) else -1.0


@kernel
def fill_gamma_differences(
    shape: float, clients: Ints, round_: int, purpose: int, key: np.uint64, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `gamma_differences`.

    Variate i makes its first try from pair i of the stream, in loops that compile to wide registers. The few
    that fail the squeeze test are looked at one after the other; other tries take pairs from far behind.
    """
    # Best's formula for the place where the hat changes from a power to an exponential: close to the one with
    # the fewest rejections.
    t = 0.07 + 0.75 * math.sqrt(1.0 - shape)
    b = 1.0 + exp(-t) * shape / t
    most = 2 * min(_COLUMNS, out.shape[1])
    pairs, spare = np.empty((2, most)), np.empty((1, _SPARE))
    x, unsure = np.empty(most), np.empty(most + 1, dtype=np.int64)
    for c in range(begin, end):
        at, block = _SPARE, _BEHIND
        for first in range(0, out.shape[1], _COLUMNS):
            width = min(_COLUMNS, out.shape[1] - first)
            fill_pairs(pairs, 2 * width, 2 * first, clients[c], round_, purpose, key)
            for i in range(2 * width):
                power = log_normal(b * pairs[0, i]) / shape
                x[i] = t * decay(power) if power > _LOG_LEAST else 0.0
            count = 0
            for i in range(2 * width):
                squeezed = pairs[1, i] * (2.0 + x[i]) <= 2.0 - x[i]
                unsure[unsigned(count)] = i
                count += not ((b * pairs[0, i] <= 1.0) & squeezed)
            for i in unsure[:count]:
                drawn = _gamma_try(shape, t, b, b * pairs[0, i], pairs[1, i])
                while drawn < 0.0:
                    at, block = refill(spare, at, block, clients[c], round_, purpose, key)
                    drawn = _gamma_try(shape, t, b, b * spare[0, at], spare[0, at + 1])
                    at += 2
                x[i] = drawn
            for i in range(width):
                out[c, first + i] = x[2 * i] - x[2 * i + 1]


@kernel
def fill_large_gamma_differences(
    shape: float, clients: Ints, round_: int, purpose: int, key: np.uint64, out: Floats, begin: int, end: int
) -> None:
    """The same for a shape above 1; of four numbers a try the last one is not used."""
    numbers = np.empty((1, AHEAD))
    d = shape - 1.0 / 3.0
    slope = 1.0 / math.sqrt(9.0 * d)
    for c in range(begin, end):
        at, block = numbers.shape[1], numbers.shape[0] - 1  # 0, but no literal: see `refill`
        for variate in range(2 * out.shape[1]):
            x, drawn = 0.0, False
            while not drawn:
                at, block = refill(numbers, at, block, clients[c], round_, purpose, key)
                normal = math.sqrt(-2.0 * log_normal(numbers[0, at])) * cosine_and_sine(numbers[0, at + 1])[0]
                root, w = 1.0 + slope * normal, numbers[0, at + 2]
                at += 4
                if root > 0.0:
                    cube = root * root * root
                    x = d * cube
                    drawn = log(w) <= 0.5 * normal * normal + d * (1.0 - cube + log(cube))
            column = variate // 2
            out[c, column] = x if variate % 2 == 0 else out[c, column] - x


def gamma_differences(
    shape: float, size: int, clients: Ints, round_: int, purpose: int, key: np.uint64
) -> Floats:
    """`gamma - gamma'` of scale 1 and a shape above 0 per client and coordinate, shape (C, size)."""
    fill = fill_gamma_differences if shape <= 1.0 else fill_large_gamma_differences
    return _by_client(fill, shape, size, clients, round_, purpose, key)


# --- Poisson differences (Skellam) -----------------------------------------------------------------
# Source: Hoermann 1993, "The transformed rejection method for generating Poisson random variables",
# algorithm PTRS, for means from 10 on; below by inversion. The log mass is taken as in Loader 2000, "Fast and
# accurate computation of binomial probabilities", so that no digits are lost where the mean is large.

_INVERTED = 10.0  # means from here on are drawn by rejection: the paper's constants hold from 10 on
_CLOSE = 0.1  # relative distance within which k ln(k / mean) + mean - k would cancel: Loader's choice
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


def poisson_differences(
    mean: float, size: int, clients: Ints, round_: int, purpose: int, key: np.uint64
) -> Floats:
    """`k - k'` of Poisson variates of a mean per client and coordinate, shape (C, size)."""
    return _by_client(fill_poisson_differences, mean, size, clients, round_, purpose, key)


@kernel
def fill_poisson_differences(
    mean: float, clients: Ints, round_: int, purpose: int, key: np.uint64, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `poisson_differences`."""
    numbers = np.empty((1, AHEAD))
    b = 0.931 + 2.53 * math.sqrt(mean)
    for c in range(begin, end):
        at, block = numbers.shape[1], numbers.shape[0] - 1  # 0, but no literal: see `refill`
        for column in range(out.shape[1]):
            first, drawn = -1.0, False
            while not drawn:
                at, block = refill(numbers, at, block, clients[c], round_, purpose, key)
                u, v = numbers[0, at], numbers[0, at + 1]
                at += 2
                if mean < _INVERTED:
                    out[c, column] = _inverted(mean, u) - _inverted(mean, v)
                    drawn = True
                else:
                    k = _rejected(mean, b, u, v)
                    if first < 0.0:
                        first = k
                    elif k >= 0.0:
                        out[c, column] = first - k
                        drawn = True


# --- discrete Gaussian -----------------------------------------------------------------------------
# Where the paper draws exact rational coins, this compares uniform numbers of 52 bits.
#
# Source: Canonne, Kamath & Steinke 2020, "The discrete Gaussian for differential privacy", algorithms 2 and
# 3, with coins and geometric variates made from uniform numbers.

_CANDIDATES = 128  # made at once, from two pairs each: almost half of them are taken


def discrete_gaussians(
    sigma: float, size: int, clients: Ints, round_: int, purpose: int, key: np.uint64
) -> Floats:
    """Whole numbers k with P(k) ~ exp(-(k / sigma)^2 / 2) per client and coordinate, shape (C, size)."""
    return _by_client(fill_discrete_gaussians, sigma, size, clients, round_, purpose, key)


@kernel
def fill_discrete_gaussians(
    sigma: float, clients: Ints, round_: int, purpose: int, key: np.uint64, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `discrete_gaussians`.

    Candidates are made many at once, in loops that compile to wide registers; those that fail are left out.
    """
    pairs, size = np.empty((2, 2 * _CANDIDATES)), np.empty(_CANDIDATES)
    taken = np.empty(_CANDIDATES, np.bool_)
    t = np.floor(sigma) + 1.0
    centre = sigma * sigma / t
    for c in range(begin, end):
        column, block = 0, 0
        while column < out.shape[1]:
            fill_pairs(pairs, 2 * _CANDIDATES, block, clients[c], round_, purpose, key)
            block += 2 * _CANDIDATES
            for i in range(_CANDIDATES):
                low = np.floor(pairs[0, i] * t)
                size[i] = low - t * np.ceil(log_normal(pairs[0, _CANDIDATES + i]))
                taken[i] = pairs[1, i] <= decay(-low / t)
            for i in range(_CANDIDATES):
                # One number is sign and coin: given the sign, the rest of it is uniform again.
                w = pairs[1, _CANDIDATES + i]
                sign, coin = (-1.0, 2.0 * w) if w < 0.5 else (1.0, 2.0 * w - 1.0)
                off = (size[i] - centre) / sigma
                # Zero has two signs, and would be drawn twice as often if both were taken.
                once = (sign > 0.0) | (size[i] > 0.0)
                taken[i] &= once & (coin <= decay(-0.5 * off * off))
                size[i] *= sign
            for i in range(_CANDIDATES):
                if taken[i] and column < out.shape[1]:
                    out[c, column] = size[i]
                    column += 1
