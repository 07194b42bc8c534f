"""Functions that laws of noise need: logarithms of Bessel functions, and how private a shift is."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

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


# Let F be the distribution function of one coordinate's noise and `G = Phi^-1(F)`. Noise with a log-concave
# density has a monotone likelihood ratio, so a most powerful test between the noise and the noise moved by
# D is a threshold t, and its two error rates satisfy `-Phi^-1(FPR) - Phi^-1(FNR) = G(t) - G(t - D)`. If the
# slope of G is at most c, this is at most `c D`: the move is c D-GDP. On a lattice the tests between two
# thresholds lie on the chord between them, above the convex trade-off curve of a Gaussian. Independent
# coordinates compose: a move of L2 length D is `c D`-GDP in any number of coordinates.
#
# Source for GDP and its composition: Dong, Roth & Su 2022, "Gaussian differential privacy", theorem 2.7 and
# corollary 3.3.

MIXTURE_PEAK = math.sqrt(2.0 * math.pi)
"""The slope of a normal scale mixture per unit of its density at 0.

For `X = Z / S` with S > 0 independent of the normal Z, the slope of G is largest at 0, where it is
`sqrt(2 pi) f(0) = E[S]`. At x > 0, with I(p) = phi(Phi^-1(p)), which is concave and falls for p > 1/2, and
with S' of the size-biased law of S, which is stochastically larger: `f(x) = E[S phi(S x)] =
E[S] E[I(Phi(S' x))] <= E[S] I(E[Phi(S' x)]) <= E[S] I(F(x))`.
"""

CHECKED_STEPS = 256.0
"""Lattice laws of a standard deviation up to this number of steps are examined at each point."""

_FARTHEST = 40.0  # standard deviations: beyond, exp(-z^2 / 2) is below the smallest float64
_FINER = 1e-6  # relative: far more than the steps of a finer lattice law differ from those of a normal law


def slope_of_lattice(log_mass: Callable[[Floats], Floats], deviation: float) -> float:
    """The largest step of `Phi^-1(F)` of a symmetric lattice law, per step of the lattice.

    Args:
        log_mass: logarithm of P(k) at each k >= 0.
        deviation: standard deviation, in steps of the lattice.
    """
    if deviation > CHECKED_STEPS:
        return fine_slope(float(log_mass(np.zeros(1))[0]))
    return lattice_slope(log_mass(lattice_points(deviation)))


def lattice_slope(log_masses: Floats) -> float:
    """The largest step of `Phi^-1(F)` of a symmetric lattice law between two neighbouring points.

    Args:
        log_masses: logarithm of P(k) for k = 0, 1, ... J, float64 (J + 1,); the rest beyond J is taken to
            fall on J + 1.
    """
    from scipy.special import ndtri, ndtri_exp

    middle = 2.0 * float(ndtri(0.5 + 0.5 * math.exp(float(log_masses[0]))))
    if log_masses.size < 3:
        return middle
    # The sum begins at the far end, where masses are smallest, and stays in logarithms: tails far below
    # the smallest float64 keep their digits.
    beyond = np.logaddexp.accumulate(log_masses[:0:-1])[::-1]  # log P(X > k), k = 0 .. J - 1
    heights = -ndtri_exp(beyond)
    inside = heights[: _reliable(log_masses, beyond)]
    return max(middle, float(np.diff(inside).max(initial=0.0)))


def _reliable(log_masses: Floats, beyond: Floats) -> int:
    """How many tails are summed up to a share of 1e-12: the last ones lack the mass beyond J."""
    cut = log_masses[-1] - math.log(1e-12)
    return max(1, int(np.searchsorted(-beyond, -cut)))


@lru_cache(maxsize=1024)
def fine_slope(log_peak: float) -> float:
    """`lattice_slope` of a law on a grid so fine that it is nearly normal, from the logarithm of P(0)."""
    from scipy.special import ndtri

    return 2.0 * float(ndtri(0.5 + 0.5 * math.exp(log_peak))) * (1.0 + _FINER)


def lattice_points(deviation: float) -> Floats:
    """The points 0, 1, ... at which a lattice law is examined, by its standard deviation in steps."""
    return np.arange(0.0, math.ceil(_FARTHEST * deviation) + 40.0)
