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
from .jit import Floats, Ints, kernel, unsigned

LANES = 64
"""Directions that are made at once: 64 float64 numbers of one coordinate are eight cache lines."""
_SOME = 32  # of them: loops over so many compile to wide registers, and fewer than all need fewer of these

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)  # as in `philox`
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _HALF, _CUT = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(12)
_STEP = 1.0 / 4503599627370496.0  # 2^-52


@kernel
def _fill_uniforms(
    out: Floats, row: int, where: Ints, first: int, purpose: int, key: np.uint64, bits: NDArray[np.uint64]
) -> None:
    """Uniform numbers out[row] and out[row + 1] of some lanes from `first` on, those of `fill_uniforms`.

    The loop over lanes is the outer one, so that words stay in registers for all rounds of `philox`. Their
    upper halves are not cleared: a product reads the lower ones. `bits` (2, _SOME) is scratch memory.
    """
    half, pair = out.shape[0] // 2, row // 2
    for some in range(_SOME):
        lane = unsigned(first + some)
        a, b = np.uint64(where[2, lane] * half + pair), np.uint64(where[1, lane])
        c, d = np.uint64(where[0, lane]), np.uint64(purpose)
        k0, k1 = key & _LOW, key >> _HALF
        for _ in range(10):
            p0, p1 = _M0 * (a & _LOW), _M1 * (c & _LOW)
            a, b, c, d = (p1 >> _HALF) ^ b ^ k0, p1, (p0 >> _HALF) ^ d ^ k1, p0
            k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
        bits[0, some] = ((a << _HALF) | (b & _LOW)) >> _CUT
        bits[1, some] = ((c << _HALF) | (d & _LOW)) >> _CUT
    for some in range(_SOME):
        lane = unsigned(first + some)
        out[row, lane] = (np.float64(np.int64(bits[0, some])) + 0.5) * _STEP
        out[row + 1, lane] = (np.float64(np.int64(bits[1, some])) + 0.5) * _STEP


@kernel
def _make_normal(out: Floats, row: int, first: int) -> None:
    """Turn the uniform numbers out[row] and out[row + 1] of some lanes from `first` on into normal ones.

    One loop for each step: each compiles to wide registers, a single loop over all steps does not.
    """
    for some in range(_SOME):
        lane = unsigned(first + some)
        out[row, lane] = math.sqrt(-2.0 * log_normal(out[row, lane]))
    for some in range(_SOME):
        lane = unsigned(first + some)
        length = out[row, lane]
        cosine, sine = cosine_and_sine(out[row + 1, lane])
        out[row, lane] = length * cosine
        out[row + 1, lane] = length * sine


@kernel
def fill_directions(
    out: Floats, where: Ints, count: int, dimension: int, purpose: int, key: np.uint64
) -> None:
    """Fill the first columns of `out` with unit vectors of a dimension d, one a lane, and some more columns.

    Args:
        out: float64 (d + d % 2, LANES); where d is odd the last row is left over.
        where: int64 (3, LANES): round, client and place m of each lane. It is made of the normal numbers
            from `m (d + d % 2)` on of this client's stream of a purpose in this round.
        count: unit vectors that are wanted.
        dimension: d.
        purpose: of the stream.
        key: of the stream.
    """
    squares, bits = np.zeros(LANES), np.empty((2, _SOME), dtype=np.uint64)
    for first in range(0, count, _SOME):
        for row in range(0, out.shape[0], 2):
            _fill_uniforms(out, row, where, first, purpose, key, bits)
            _make_normal(out, row, first)
    for j in range(dimension):
        for lane in range(LANES):
            squares[lane] += out[j, lane] * out[j, lane]
    for lane in range(LANES):
        squares[lane] = 1.0 / math.sqrt(squares[lane])
    for j in range(dimension):
        for lane in range(LANES):
            out[j, lane] *= squares[lane]
