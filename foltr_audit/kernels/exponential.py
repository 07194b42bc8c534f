"""The exponential function in a form that compiles to wide registers and is the same on every machine.

The library's `exp` is called once a number and differs by a last digit between systems. This one
splits x = n ln 2 + r, takes the Taylor sum of exp(r) for |r| <= ln 2 / 2 to where its rest is below
half a unit in the last place, and puts n into the exponent. Its error stays below two such units.

Source: Cody & Waite 1980, "Software manual for the elementary functions", chapter 6, for the split.
"""

from __future__ import annotations

import math

import numpy as np

from .jit import kernel

_LOWEST = -700.0
_PER_LOG2 = 1.0 / math.log(2.0)
_LOG2_HIGH = 6.93147180369123816490e-01  # its last 21 bits are 0: a product with n is exact
_LOG2_LOW = 1.90821492927058770002e-10
_ROUNDS = 6755399441055744.0  # 1.5 * 2^52: adding and subtracting it rounds to a whole number
_BIAS, _MANTISSA = 1023, 52
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (
    1.0 / math.factorial(i) for i in range(2, 14)
)


@kernel
def decay(x: float) -> float:
    """`exp(x)` for x <= 0; below -700 it stays at exp(-700), which is 1e-304."""
    x = max(x, _LOWEST)
    n = (x * _PER_LOG2 + _ROUNDS) - _ROUNDS
    r = (x - n * _LOG2_HIGH) - n * _LOG2_LOW
    p = _C13
    p = p * r + _C12
    p = p * r + _C11
    p = p * r + _C10
    p = p * r + _C9
    p = p * r + _C8
    p = p * r + _C7
    p = p * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    power = np.int64((np.int64(n) + _BIAS) << _MANTISSA).view(np.float64)
    return float((1.0 + (r + r * r * p)) * power)
