"""Differences of Gamma variates: the noise shares that clients of FPDGD add.

Source: Best 1983, "A note on gamma variate generators with shape parameter less than unity", as
algorithm RGS in Devroye 1986, "Non-uniform random variate generation", section IX.3.6. It needs one
block of two uniform numbers a try, and hardly ever a second try where the shape is small.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from .jit import kernel, parallel_kernel
from .philox import uniform_pair

# exp(-800) is 0 in float64, and so is any multiple of it that can occur.
_LOG_UNDERFLOW = -800.0


@kernel
def _gamma(
    shape: float, block: int, client: int, round_: int, purpose: int, key: np.uint64
) -> tuple[float, int]:
    """One Gamma variate of scale 1 and shape in (0, 1], and the number of the next unused block."""
    t = 0.07 + 0.75 * math.sqrt(1.0 - shape)
    b = 1.0 + math.exp(-t) * shape / t
    while True:
        u, w = uniform_pair(block, client, round_, purpose, key)
        block += 1
        v = b * u
        if v <= 1.0:
            log_power = math.log(v) / shape
            if log_power < _LOG_UNDERFLOW:
                return 0.0, block
            x = t * math.exp(log_power)
            if w <= (2.0 - x) / (2.0 + x) or w <= math.exp(-x):
                return x, block
        else:
            x = -math.log(t * (b - v) / shape)
            y = x / t
            if w * (shape + y * (1.0 - shape)) <= 1.0 or w <= y ** (shape - 1.0):
                return x, block


@parallel_kernel
def gamma_differences(
    shape: float, size: int, clients: NDArray[np.int64], round_: int, purpose: int, key: np.uint64
) -> NDArray[np.float64]:
    """`gamma - gamma'` of scale 1 and shape in (0, 1] per client and coordinate, shape (C, size)."""
    out = np.empty((clients.size, size), dtype=np.float64)
    for i in numba.prange(clients.size):
        block = 0
        for j in range(size):
            plus, block = _gamma(shape, block, clients[i], round_, purpose, key)
            minus, block = _gamma(shape, block, clients[i], round_, purpose, key)
            out[i, j] = plus - minus
    return out
