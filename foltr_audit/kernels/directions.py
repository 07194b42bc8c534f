"""Unit vectors in uniformly distributed directions, many at once.

A direction is a standard normal vector over its length. The normal numbers are those of
`kernels.standard_normal`, computed for many directions side by side, one lane each: in this form the loops
compile to wide registers.

Source: Muller 1959, "A note on a method for generating points uniformly on n-dimensional spheres";
Box & Muller 1958, "A note on the generation of random normal deviates".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .elementary import cosine_and_sine, log_normal
from .jit import Floats, Ints, inlined, kernel

LANES = 64
"""Directions that are made at once: 64 float64 numbers of one coordinate are eight cache lines."""

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)  # as in `philox`
_W0, _W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_LOW, _HALF, _CUT = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(12)
_STEP = 1.0 / 4503599627370496.0  # 2^-52


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
    """Two words as the number of (0, 1) that `fill_uniforms` makes from them."""
    bits = ((np.uint64(high) << _HALF) | np.uint64(low)) >> _CUT
    return (np.float64(np.int64(bits)) + 0.5) * _STEP


@kernel
def _fill_pair(out: Floats, row: int, words: NDArray[np.uint32]) -> None:
    """Normal numbers out[row] and out[row + 1] of every lane, from four random words each.

    One loop for each step: each compiles to wide registers, a single loop over all steps does not.
    """
    for lane in range(LANES):
        out[row, lane] = _unit(words[0, lane], words[1, lane])
        out[row + 1, lane] = _unit(words[2, lane], words[3, lane])
    for lane in range(LANES):
        out[row, lane] = math.sqrt(-2.0 * log_normal(out[row, lane]))
    for lane in range(LANES):
        length = out[row, lane]
        cosine, sine = cosine_and_sine(out[row + 1, lane])
        out[row, lane] = length * cosine
        out[row + 1, lane] = length * sine


@kernel
def fill_directions(out: Floats, where: Ints, dimension: int, purpose: int, key: np.uint64) -> None:
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
