"""Unit vectors in uniformly distributed directions, many at once.

A direction is a standard normal vector over its length, and the normal numbers are made of a stream's
uniform numbers as `kernels.normal` makes them, but in a form that compiles to wide registers and is the
same on every machine: series for the logarithm, the sine and the cosine, one lane a direction.

Source: Muller 1959, "A note on a method for generating points uniformly on n-dimensional spheres";
Box & Muller 1958, "A note on the generation of random normal deviates".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .jit import inlined, kernel

LANES = 64
"""Directions that are made at once."""

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)  # as in `philox`
_W0, _W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_LOW, _HALF, _CUT = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(12)
_STEP = 1.0 / 4503599627370496.0  # 2^-52
_ROUNDS = 6755399441055744.0  # 1.5 * 2^52: adding and subtracting it rounds to a whole number
_MANTISSA = 52
_ROOT_HALF = int(np.float64(math.sqrt(0.5)).view(np.int64))
_LOG2_HIGH = 6.93147180369123816490e-01  # its last 21 bits are 0: a product with an exponent is exact
_LOG2_LOW = 1.90821492927058770002e-10
_QUARTER = math.pi / 2.0
_L3, _L5, _L7, _L9, _L11, _L13, _L15, _L17, _L19, _L21 = (2.0 / i for i in range(3, 22, 2))
_S3, _S5, _S7, _S9, _S11, _S13, _S15 = ((-1.0) ** i / math.factorial(2 * i + 1) for i in range(1, 8))
_C2, _C4, _C6, _C8, _C10, _C12, _C14, _C16 = ((-1.0) ** i / math.factorial(2 * i) for i in range(1, 9))


@kernel
def _philox_lanes(words: NDArray[np.uint32], key: np.uint64) -> None:
    """`philox` of the counters in the columns of `words` (4, LANES), in place."""
    k0, k1 = np.uint32(key & _LOW), np.uint32(key >> _HALF)
    for _ in range(10):
        for lane in range(LANES):
            p0, p1 = _M0 * np.uint64(words[0, lane]), _M1 * np.uint64(words[2, lane])
            b, d = words[1, lane], words[3, lane]
            words[0, lane] = np.uint32(p1 >> _HALF) ^ b ^ k0
            words[1, lane] = np.uint32(p1)
            words[2, lane] = np.uint32(p0 >> _HALF) ^ d ^ k1
            words[3, lane] = np.uint32(p0)
        k0, k1 = np.uint32(k0 + _W0), np.uint32(k1 + _W1)


@inlined
def _unit(high: np.uint32, low: np.uint32) -> float:
    """Two words as the number of (0, 1) that `fill_uniforms` makes of them."""
    bits = ((np.uint64(high) << _HALF) | np.uint64(low)) >> _CUT
    return (np.float64(np.int64(bits)) + 0.5) * _STEP


@inlined
def _minus_log(u: float) -> float:
    """`-log(u)` for u in (0, 1): u = 2^e m with m about 1, and the series of log m in (m - 1) / (m + 1)."""
    bits = np.float64(u).view(np.int64)
    e = (bits - _ROOT_HALF) >> _MANTISSA
    m = np.int64(bits - (e << _MANTISSA)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = _L21
    p = p * z + _L19
    p = p * z + _L17
    p = p * z + _L15
    p = p * z + _L13
    p = p * z + _L11
    p = p * z + _L9
    p = p * z + _L7
    p = p * z + _L5
    p = p * z + _L3
    power = np.float64(e)
    return -(power * _LOG2_HIGH + (power * _LOG2_LOW + (2.0 * s + s * z * p)))


@inlined
def _cosine_and_sine(u: float) -> tuple[float, float]:
    """`cos(2 pi u)` and `sin(2 pi u)` for u in (0, 1): series in a quarter turn around the nearest axis."""
    turns = 4.0 * u
    axis = (turns + _ROUNDS) - _ROUNDS
    a = (turns - axis) * _QUARTER
    z = a * a
    p = _S15
    p = p * z + _S13
    p = p * z + _S11
    p = p * z + _S9
    p = p * z + _S7
    p = p * z + _S5
    p = p * z + _S3
    along = a + a * z * p
    q = _C16
    q = q * z + _C14
    q = q * z + _C12
    q = q * z + _C10
    q = q * z + _C8
    q = q * z + _C6
    q = q * z + _C4
    q = q * z + _C2
    across = 1.0 + z * q
    quadrant = np.int64(axis)
    odd = (quadrant & 1) == 1
    cosine, sine = (along if odd else across), (across if odd else along)
    cosine = -cosine if ((quadrant + 1) & 2) == 2 else cosine
    sine = -sine if (quadrant & 2) == 2 else sine
    return cosine, sine


@kernel
def _fill_pair(out: NDArray[np.float64], row: int, words: NDArray[np.uint32]) -> None:
    """Normal numbers out[row] and out[row + 1] of every lane, from four random words each.

    One loop for each step: each of them compiles to wide registers, and all in one do not.
    """
    for lane in range(LANES):
        out[row, lane] = _unit(words[0, lane], words[1, lane])
        out[row + 1, lane] = _unit(words[2, lane], words[3, lane])
    for lane in range(LANES):
        out[row, lane] = math.sqrt(2.0 * _minus_log(out[row, lane]))
    for lane in range(LANES):
        length = out[row, lane]
        cosine, sine = _cosine_and_sine(out[row + 1, lane])
        out[row, lane] = length * cosine
        out[row + 1, lane] = length * sine


@kernel
def fill_directions(
    out: NDArray[np.float64], where: NDArray[np.int64], dimension: int, purpose: int, key: np.uint64
) -> None:
    """Fill columns of `out` with unit vectors of a dimension d, one a lane.

    Args:
        out: float64 (d + d % 2, LANES); where d is odd the last row is left over.
        where: int64 (3, LANES): round, client and place m of each lane. It is made of the normal numbers
            from `m (d + d % 2)` on of this client's stream of a purpose in this round.
        dimension: d.
        purpose: of the stream.
        key: of the stream.
    """
    half = out.shape[0] // 2
    squares = np.zeros(LANES)
    words = np.empty((4, LANES), dtype=np.uint32)
    for pair in range(half):
        for lane in range(LANES):
            words[0, lane] = where[2, lane] * half + pair
            words[1, lane] = where[1, lane]
            words[2, lane] = where[0, lane]
            words[3, lane] = purpose
        _philox_lanes(words, key)
        _fill_pair(out, 2 * pair, words)
    for j in range(dimension):
        for lane in range(LANES):
            squares[lane] += out[j, lane] * out[j, lane]
    for lane in range(LANES):
        squares[lane] = 1.0 / math.sqrt(squares[lane])
    for j in range(dimension):
        for lane in range(LANES):
            out[j, lane] *= squares[lane]
