"""How private a shift of log-concave noise is, as the mu of Gaussian differential privacy.

Let F be the distribution function of one coordinate's noise and `G = Phi^-1(F)`. Noise with a log-concave
density has a monotone likelihood ratio, so a most powerful test between the noise and the noise moved by
D is a threshold t, and its two error rates satisfy `-Phi^-1(FPR) - Phi^-1(FNR) = G(t) - G(t - D)`. If the
slope of G is at most c, this is at most `c D`: the move is c D-GDP. On a lattice the tests between two
thresholds lie on the chord between them, above the convex trade-off curve of a Gaussian. Independent
coordinates compose: a move of L2 length D is `c D`-GDP in any number of coordinates.

Source for GDP and its composition: Dong, Roth & Su 2022, "Gaussian differential privacy", theorem 2.7 and
corollary 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from foltr_audit.utils.arrays import Floats

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
