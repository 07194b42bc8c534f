"""Philox4x32-10, the counter-based generator behind every simulated random number, and normal numbers of it.

Why not NumPy's `Philox`: it fills one array from one stream, while kernels read a few numbers from each of
millions of streams, inside compiled loops.

A stream is named by (key, purpose, round, client); its n-th number is a pure function of the
name and n. So no draw depends on how many others were made before, in which order, or on how
many threads. The counter holds n, client, round and purpose in 32 bits each: streams of one key
never overlap unless the 32-bit hashes of two purposes coincide.

Source: Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
"""

from __future__ import annotations

import math

import numpy as np

from foltr_audit.kernels.elementary import cosine_and_sine, log_normal
from foltr_audit.kernels.jit import Floats, Ints, inlined, inner, kernel, read_only, uncounted, unsigned

_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.float64(1.0).view(np.uint64)
_BELOW_ONE = 1.0 - 2.0**-53

AHEAD = 128
"""Uniform numbers that rejection samplers make at once: a kilobyte, which stays in the first-level cache."""


@inlined
def _words(
    c0: int, c1: int, c2: int, c3: int, key: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """What `philox` returns; inlined, so that a loop over counters compiles to wide registers."""
    a, b, c, d = np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)
    k0 = key & _LOW
    k1 = key >> _HALF
    for _ in range(10):
        p0 = _M0 * a
        p1 = _M1 * c
        a, b, c, d = (p1 >> _HALF) ^ b ^ k0, p1 & _LOW, (p0 >> _HALF) ^ d ^ k1, p0 & _LOW
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return a, b, c, d


@inner
def philox(
    c0: int, c1: int, c2: int, c3: int, key: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Four random 32-bit words (as uint64) for a 128-bit counter and a 64-bit key."""
    return _words(c0, c1, c2, c3, key)


@kernel
def _unit(high: np.uint64, low: np.uint64) -> float:
    """Two words as a number of the open interval (0, 1): the middle of one of 2^52 steps."""
    # As the mantissa of a number of [1, 2), which wide registers do without a conversion; 52 bits and not 53:
    # with half a step they still fit into a float64, so that nothing rounds to 1.
    bits = (((high << _HALF) | low) >> np.uint64(12)) | _ONE
    return float(np.uint64(bits).view(np.float64) - _BELOW_ONE)


@inner
def uniform(number: int, client: int, round_: int, purpose: int, key: np.uint64) -> float:
    """One number of a stream, in (0, 1)."""
    a, b, c, d = _words(number // 2, client, round_, purpose, key)
    return _unit(c, d) if number % 2 else _unit(a, b)


@uncounted
def fill_uniforms(
    out: Floats, row: int, size: int, block: int, client: int, round_: int, purpose: int, key: np.uint64
) -> None:
    """Fill out[row, :size] with numbers 2 block, 2 block + 1, ... of a stream, in (0, 1); size is even."""
    for i in range(size // 2):
        a, b, c, d = _words(block + i, client, round_, purpose, key)
        out[row, 2 * i] = _unit(a, b)
        out[row, 2 * i + 1] = _unit(c, d)


@uncounted
def fill_pairs(
    out: Floats, size: int, block: int, client: int, round_: int, purpose: int, key: np.uint64
) -> None:
    """Fill out[:, i] with numbers 2 (block + i) and 2 (block + i) + 1 of a stream, i = 0 .. size - 1."""
    for i in range(size):
        a, b, c, d = _words(block + i, client, round_, purpose, key)
        out[0, i], out[1, i] = _unit(a, b), _unit(c, d)


@uncounted
def fill_columns(
    out: Floats, size: int, blocks: Ints, clients: Ints, count: int, round_: int, purpose: int, key: np.uint64
) -> None:
    """Fill out[:size, c] with numbers 2 blocks[c], 2 blocks[c] + 1, ... of clients[c]; size is even.

    A few numbers of many streams: side by side, words of several streams fill wide registers.
    """
    for i in range(size // 2):
        for c in range(count):
            column = unsigned(c)
            one, two, three, four = _words(blocks[column] + i, clients[column], round_, purpose, key)
            out[unsigned(2 * i), column] = _unit(one, two)
            out[unsigned(2 * i + 1), column] = _unit(three, four)


@inner
def refill(
    numbers: Floats, at: int, block: int, client: int, round_: int, purpose: int, key: np.uint64
) -> tuple[int, int]:
    """Put the next numbers of a stream into `numbers` (1, even) once all are used; next place, next block.

    Rejection samplers need a number of uniforms that is not known before. They read pairs from a buffer and
    call this before each: making many at once keeps the generator's loop in registers.
    """
    if at < numbers.shape[1]:
        return at, block
    row = numbers.shape[0] - 1  # no literal 0, for which kernels would be compiled apart
    fill_uniforms(numbers, row, numbers.shape[1], block, client, round_, purpose, key)
    return 0, block + numbers.shape[1] // 2


def uniforms(first: int, size: int, clients: Ints, round_: int, purpose: int, key: np.uint64) -> Floats:
    """Numbers first .. first+size-1 of each client's stream, as a (clients, size) array."""
    odd = first % 2
    out = np.empty((clients.size, (odd + size + 1) // 2 * 2))
    fill_streams(out, first // 2, read_only(clients), round_, purpose, key)
    return np.ascontiguousarray(out[:, odd : odd + size])


@kernel
def fill_streams(out: Floats, block: int, clients: Ints, round_: int, purpose: int, key: np.uint64) -> None:
    """Fill out (clients, even) with numbers 2 block, 2 block + 1, ... of each client's stream."""
    for c in range(clients.size):
        fill_uniforms(out, c, out.shape[1], block, clients[c], round_, purpose, key)


# --- normal numbers --------------------------------------------------------------------------------
# Box-Muller takes exactly one uniform number for each normal one, so number n of a stream is known without
# those before it; the faster ziggurat rejects an unknown number of them.
#
# Source: Box & Muller 1958, "A note on the generation of random normal deviates".


@kernel
def fill_normals(
    out: Floats, row: int, size: int, block: int, client: int, round_: int, purpose: int, key: np.uint64
) -> None:
    """Fill out[row, :size] with normal numbers 2 block, 2 block + 1, ... of a stream; size is even.

    Numbers 2 i and 2 i + 1 are made from the uniform numbers of the same places.
    """
    fill_uniforms(out, row, size, block, client, round_, purpose, key)
    # One loop for each step: each compiles to wide registers, a single loop over both does not.
    for i in range(size // 2):
        out[row, 2 * i] = math.sqrt(-2.0 * log_normal(out[row, 2 * i]))
    for i in range(size // 2):
        length = out[row, 2 * i]
        cosine, sine = cosine_and_sine(out[row, 2 * i + 1])
        out[row, 2 * i] = length * cosine
        out[row, 2 * i + 1] = length * sine
