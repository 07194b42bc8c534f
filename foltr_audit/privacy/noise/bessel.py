"""Logarithms of modified Bessel functions of any order, also where the functions overflow or vanish."""

from __future__ import annotations

import math

import numpy as np

from foltr_audit.utils.arrays import Floats

# SciPy's `kve` overflows for large orders and small arguments, and `ive` becomes 0: from these
# limits on the logarithm is taken from an expansion, whose error is given below.
_LARGE_ORDER, _LARGE_ARGUMENT = 25.0, 1e4  # of K
_LARGE = 100.0  # sqrt(order^2 + z^2) of I
_SERIES_TERMS = 16  # for z < 1 the next one is below 1e-30


def log_bessel_k(order: float, z: Floats) -> Floats:
    """Logarithm of K of an order >= 0 at each z > 0."""
    from scipy.special import kve

    far = (z > _LARGE_ARGUMENT) | (order > _LARGE_ORDER)
    out = np.empty_like(z)
    out[far] = _expanded_log_bessel_k(order, z[far])
    out[~far] = np.log(kve(order, z[~far])) - z[~far]
    return out


def log_scaled_bessel_i(orders: Floats, z: float) -> Floats:
    """Logarithm of `exp(-z) I(z)` of each order >= 0, for one z > 0."""
    from scipy.special import ive

    if z < 1.0:
        return _log_series_i(orders, z) - z
    far = np.hypot(orders, z) > _LARGE
    out = np.empty_like(orders)
    out[far] = _expanded_log_scaled_bessel_i(orders[far], z)
    out[~far] = np.log(ive(orders[~far], z))
    return out


def _log_series_i(orders: Floats, z: float) -> Floats:
    """Logarithm of I for z <= 1, where a few terms of its power series reach full precision.

    Source: Olver et al. 2010, "NIST handbook of mathematical functions", 10.25.2.
    """
    from scipy.special import gammaln

    rest, term = np.zeros_like(orders), np.ones_like(orders)
    for j in range(1, _SERIES_TERMS):
        term = term * (0.25 * z * z) / (j * (orders + j))
        rest += term
    return np.asarray(orders * math.log(0.5 * z) - gammaln(orders + 1.0) + np.log1p(rest))


def _expanded_log_bessel_k(order: float, z: Floats) -> Floats:
    """Logarithm of K for a large order or argument: K has a relative error of about (order^2 + z^2)^(-5/2).

    Source: Olver et al. 2010, "NIST handbook of mathematical functions", 10.41.4 and 10.41.10, with
    r = sqrt(order^2 + z^2) as the unit, so that it holds for order 0 too.
    """
    r = np.hypot(order, z)
    rest = _terms((order / r) ** 2, -r)
    return np.asarray(
        np.log1p(rest) - r - order * np.log(z / (order + r)) + 0.5 * (math.log(0.5 * math.pi) - np.log(r))
    )


def _expanded_log_scaled_bessel_i(orders: Floats, z: float) -> Floats:
    """Logarithm of `exp(-z) I(z)` where order or argument is large; I has the error of K.

    Source: Olver et al. 2010, "NIST handbook of mathematical functions", 10.41.3 and 10.41.10, in the
    same unit. `r - z` is written without a difference of large numbers.
    """
    r = np.hypot(orders, z)
    rest = _terms((orders / r) ** 2, r)
    rise = orders * (orders / (r + z)) - orders * np.arcsinh(orders / z)
    return np.asarray(np.log1p(rest) + rise - 0.5 * (math.log(2.0 * math.pi) + np.log(r)))


def _terms(p: Floats, unit: Floats) -> Floats:
    """The uniform expansions less their leading 1, by four terms: `sum_i U_i(p) / unit^i`."""
    terms = (
        (3 - 5 * p) / 24,
        (81 + p * (-462 + p * 385)) / 1152,
        (30375 + p * (-369603 + p * (765765 - p * 425425))) / 414720,
        (4465125 + p * (-94121676 + p * (349922430 + p * (-446185740 + p * 185910725)))) / 39813120,
    )
    rest = np.zeros_like(unit)
    for term in reversed(terms):
        rest = (rest + term) / unit
    return rest
