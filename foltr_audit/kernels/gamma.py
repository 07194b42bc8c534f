"""Differences of Gamma variates: the noise shares that clients of FPDGD add.

Source: Marsaglia & Tsang 2000, "A simple method for generating gamma variables" (shape >= 1);
a smaller shape a comes from shape a + 1 times U^(1/a), section 6 of the same paper.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from .jit import kernel, parallel_kernel
from .philox import uniform

# exp(-800) times any Gamma(a + 1) variate is 0 in float64: no need to draw that variate.
_LOG_UNDERFLOW = -800.0


@kernel
def _large_gamma(
    shape: float, n: int, client: int, round_: int, purpose: int, key: np.uint64
) -> tuple[float, int]:
    """One Gamma(shape >= 1) variate, and the number of the next unused draw of the stream."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        radius = math.sqrt(-2.0 * math.log(uniform(n, client, round_, purpose, key)))
        x = radius * math.cos(2.0 * math.pi * uniform(n + 1, client, round_, purpose, key))
        u = uniform(n + 2, client, round_, purpose, key)
        n += 3
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v, n


@kernel
def _gamma(shape: float, n: int, client: int, round_: int, purpose: int, key: np.uint64) -> tuple[float, int]:
    """One Gamma(shape) variate of scale 1, and the number of the next unused draw."""
    if shape >= 1.0:
        return _large_gamma(shape, n, client, round_, purpose, key)
    log_power = math.log(uniform(n, client, round_, purpose, key)) / shape
    if log_power < _LOG_UNDERFLOW:
        return 0.0, n + 1
    value, n = _large_gamma(shape + 1.0, n + 1, client, round_, purpose, key)
    return value * math.exp(log_power), n


@parallel_kernel
def gamma_differences(
    shape: float, size: int, clients: NDArray[np.int64], round_: int, purpose: int, key: np.uint64
) -> NDArray[np.float64]:
    """`gamma - gamma'` of scale 1 for each client and coordinate, shape (C, size)."""
    out = np.empty((clients.size, size), dtype=np.float64)
    for i in numba.prange(clients.size):
        n = 0
        for j in range(size):
            plus, n = _gamma(shape, n, clients[i], round_, purpose, key)
            minus, n = _gamma(shape, n, clients[i], round_, purpose, key)
            out[i, j] = plus - minus
    return out
