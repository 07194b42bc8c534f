"""Exponential, logarithm, powers, sine and cosine, the same bits on every machine.

The library's functions differ in their last digit between systems, and between processors of one system.
These use additions, multiplications and divisions alone, in one order, and compile to wide registers where
a loop calls them. Errors stay below two units in the last place (tests/kernels/test_elementary.py).

Source: Cody & Waite 1980, "Software manual for the elementary functions", chapters 5 (logarithm), 6
(exponential) and 8 (sine, cosine), for the splits; the polynomials are Taylor sums.
"""

from __future__ import annotations

import math

import numpy as np

from foltr_audit.kernels.jit import Floats, Ints, inlined, inner, kernel

# --- scaling by powers of two ----------------------------------------------------------------------
# It rounds nothing, and makes the numbers of a system about 1, so that tolerances of solvers can be absolute.
# `ROUNDING` is for models, which are not scaled.

NOTHING = -4000
"""The binary exponent of zeros: below that of any number."""

ROUNDING = 1e-9
"""A model that moves by a smaller part of its size has not moved: its norm differs in the last bits."""


def largest_exponent(numbers: Floats) -> Ints:
    """The binary exponent of the largest absolute number along axis 1."""
    largest = np.abs(numbers).max(axis=1, initial=0.0)
    return np.where(largest > 0.0, np.frexp(largest)[1], NOTHING).astype(np.int64)


def typical_exponent(values: Floats) -> Ints:
    """The binary exponent of the median of each row's nonzero absolute numbers; (n, P) to (n,).

    At least that of the largest less 900, so that numbers scaled by it stay finite.
    """
    ordered = np.sort(np.abs(values), axis=1)
    zeros = np.count_nonzero(values == 0.0, axis=1)
    middle = np.minimum((zeros + values.shape[1]) // 2, values.shape[1] - 1)
    median = np.take_along_axis(ordered, middle[:, np.newaxis], axis=1)
    return np.maximum(largest_exponent(median), largest_exponent(values) - 900)


def scaled(numbers: Floats, exponents: Ints) -> Floats:
    """`numbers * 2^exponents`, in C order; what is too large becomes infinite, what is too small 0."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(numbers, exponents, order="C"))


# --- elementary functions --------------------------------------------------------------------------

# Down to -700 the power of two in `decay` is a normal number. Below -746 exp(x) is 0 in float64, above 709.78
# it is infinite.
_LOWEST, _LEAST, _MOST = -700.0, -746.0, 709.782712893384
_PER_LOG2 = 1.4426950408889634  # 1 / ln 2
_LOG2_HIGH = 6.93147180369123816490e-01  # its last 21 bits are 0: a product with an exponent is exact
_LOG2_LOW = 1.90821492927058770002e-10
# 1.5 * 2^52: adding and subtracting it rounds to a whole number, which `floor` does in wide registers
# only where the processor has an instruction for it.
_ROUNDS = 6755399441055744.0
_BIAS, _MANTISSA = 1023, 52
_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_SMALLEST_NORMAL, _LIFT, _LIFTED = 2.2250738585072014e-308, 18014398509481984.0, 54  # 2^-1022, 2^54
_QUARTER = math.pi / 2.0
# Coefficients of Taylor sums, the highest power first: of (exp(r) - 1 - r) / r^2, of (log m - 2 s) / (s z) in
# z = s^2 with s = (m - 1) / (m + 1), of (sin a - a) / (a z) and (cos a - 1) / z in z = a^2. The first
# term left out is below half a unit in the last place of the sum.
_EXP = tuple(1.0 / math.factorial(i) for i in range(13, 1, -1))
_LOG = tuple(2.0 / i for i in range(21, 2, -2))
_SINE = tuple((-1.0) ** i / math.factorial(2 * i + 1) for i in range(7, 0, -1))
_COSINE = tuple((-1.0) ** i / math.factorial(2 * i) for i in range(8, 0, -1))


@inlined
def _horner(coefficients: tuple[float, ...], x: float) -> float:
    """A polynomial from its highest power down; the compiler unrolls it, so that callers' loops vectorize."""
    total = coefficients[0]
    for i in range(1, len(coefficients)):
        total = total * x + coefficients[i]
    return total


@inlined
def _exp_near_zero(r: float) -> float:
    """`exp(r) - 1` for |r| <= ln 2 / 2."""
    return r + r * r * _horner(_EXP, r)


@inlined
def _power_of_two(n: np.int64) -> float:
    """`2^n` for -1022 <= n <= 1023."""
    return float(np.int64((n + _BIAS) << _MANTISSA).view(np.float64))


@inner
def decay(x: float) -> float:
    """`exp(x)` for x <= 0; below -700 it stays at exp(-700), which is 1e-304.

    Without branches, so that loops over weights vectorize.
    """
    x = max(x, _LOWEST)
    n = (x * _PER_LOG2 + _ROUNDS) - _ROUNDS
    r = (x - n * _LOG2_HIGH) - n * _LOG2_LOW
    return float((1.0 + _exp_near_zero(r)) * _power_of_two(np.int64(n)))


@kernel
def exp(x: float) -> float:
    """`exp(x)` of any number."""
    if x != x or x > _MOST:
        return x if x != x else math.inf
    if x < _LEAST:
        return 0.0
    n = (x * _PER_LOG2 + _ROUNDS) - _ROUNDS
    r = (x - n * _LOG2_HIGH) - n * _LOG2_LOW
    half = np.int64(n) >> 1  # in two steps: 2^n alone may be too large or too small
    return float(
        (1.0 + _exp_near_zero(r))
        * _power_of_two(np.int64(half))
        * _power_of_two(np.int64(np.int64(n) - half))
    )


@inlined
def _log_parts(u: float) -> tuple[float, float]:
    """The exponent e and log m of a normal number u = 2^e m with m between sqrt(1/2) and sqrt(2)."""
    bits = np.float64(u).view(np.int64)
    e = (bits - _ROOT_HALF) >> _MANTISSA
    m = np.int64(bits - (e << _MANTISSA)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    return np.float64(e), 2.0 * s + s * z * _horner(_LOG, z)


@inlined
def log_normal(u: float) -> float:
    """`log(u)` of a positive normal number: the same bits as `log`, without branches."""
    e, rest = _log_parts(u)
    # Small terms first: the large product is exact, so that only the last sum rounds visibly.
    return e * _LOG2_HIGH + (e * _LOG2_LOW + rest)


@inner
def log(x: float) -> float:
    """`log(x)` of any number: -inf at 0, NaN below."""
    if not 0.0 < x < math.inf:
        return -math.inf if x == 0.0 else x if x > 0.0 else math.nan
    # Subnormal numbers have no leading bit to read the exponent from: 2^54 makes them normal, without
    # rounding.
    if x < _SMALLEST_NORMAL:
        e, rest = _log_parts(x * _LIFT)
        e -= _LIFTED
        return float(e * _LOG2_HIGH + (e * _LOG2_LOW + rest))
    return float(log_normal(x))


@inner
def log2(x: float) -> float:
    """`log2(x)` of a positive normal number, exact for powers of two."""
    e, rest = _log_parts(x)  # the exponent is added last: its sum with 0 is exact
    return float(e + rest * _PER_LOG2)


@kernel
def power(base: float, n: int) -> float:
    """`base^n` for a whole number n >= 0, by repeated squaring."""
    # Not `base**n`: the library's `pow` differs in its last digit between systems.
    out, square = 1.0, base
    while n > 0:
        if n & 1:
            out *= square
        square *= square
        n >>= 1
    return out


@inlined
def cosine_and_sine(u: float) -> tuple[float, float]:
    """`cos(2 pi u)` and `sin(2 pi u)` for u in (0, 1): series in a quarter turn around the nearest axis."""
    # Reduced in turns, before radians: 4 u and its distance from the nearest whole number are exact.
    turns = 4.0 * u
    axis = (turns + _ROUNDS) - _ROUNDS
    a = (turns - axis) * _QUARTER
    z = a * a
    along = a + a * z * _horner(_SINE, z)
    across = 1.0 + z * _horner(_COSINE, z)
    quadrant = np.int64(axis)
    odd = (quadrant & 1) == 1
    cosine, sine = (along if odd else across), (across if odd else along)
    cosine = -cosine if ((quadrant + 1) & 2) == 2 else cosine
    sine = -sine if (quadrant & 2) == 2 else sine
    return cosine, sine
