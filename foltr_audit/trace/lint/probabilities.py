"""How probable it is that noise of a law is small, or lies near any one point."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.privacy.noise import DiscreteGaussian, GammaShare, Gaussian, NoiseLaw, Skellam
from foltr_audit.utils.arrays import Floats

LatticeLaw = DiscreteGaussian | Skellam
"""Laws on the multiples of a `step`."""

_LARGEST_SHAPE = 8.0  # of Gamma shares: above it the Bessel functions lose digits
_LARGEST_TAU = 1e-9  # distance of a sum of discrete Gaussians from a discrete Gaussian
_WIDE = 4096.0  # steps of standard deviation from which a law on a grid is normal to 1e-8
_FEWEST_STEPS = 0.5  # standard deviation of the narrowest discrete Gaussian
_SLACK = 1e-9  # of one step: what rounding may add to a width in steps
_PLACES = 500  # half-widths that are tried, of which few become windows


def probability_within(law: NoiseLaw, size: ArrayLike) -> Floats | None:
    """P[|X| <= size] at each size >= 0; None for a law that this is not known for.

    For Gamma shares of shape a, with z = size / scale, v = a - 1/2, and L the modified Struve function, it is
    `z (K_v(z) L_(v-1)(z) + K_(v-1)(z) L_v(z))`. On a grid it is the sum of the masses, and where the standard
    deviation is above 4,096 steps that of normal noise within half a step more, which is right to 1e-8.

    Source: Olver et al. 2010, "NIST handbook of mathematical functions", 10.43.2.
    """
    x = np.abs(np.asarray(size, dtype=np.float64))
    if isinstance(law, DiscreteGaussian | Skellam):
        return _of_steps(law, np.floor(x / law.step + _SLACK))
    if isinstance(law, Gaussian):
        return _normal(x / law.sigma)
    if isinstance(law, GammaShare) and law.shape <= _LARGEST_SHAPE:
        return _of_shares(law.shape, x / law.scale)
    return None


def concentration(law: NoiseLaw, half: ArrayLike) -> Floats | None:
    """The largest P[|X - c| < half] over all c, at each half > 0; None for a law that this is not known for.

    It is the concentration function of Levy 1937, "Theorie de l'addition des variables aleatoires". All laws
    here are symmetric and unimodal. Where X has a density, the interval around 0 is the most probable one of
    its length (Anderson 1955, "The integral of a symmetric unimodal function over a symmetric convex set and
    some probability inequalities"). On a grid, an open interval of length `2 half` holds at most
    m = ceil(2 half / step) grid points, wherever it lies; any m points are at most as probable as the m most
    probable ones, and these are the m next to 0, as the mass falls on both sides.
    """
    if not isinstance(law, DiscreteGaussian | Skellam):
        return probability_within(law, half)
    points = np.ceil(2.0 * np.asarray(half, dtype=np.float64) / law.step - _SLACK)
    inner, outer = np.floor((points - 1.0) / 2.0), np.floor(points / 2.0)
    both = (_of_steps(law, inner), _of_steps(law, outer))
    return None if both[0] is None or both[1] is None else 0.5 * (both[0] + both[1])


def half_widths(law: NoiseLaw) -> Floats:
    """Half-widths of windows from tiny to nearly all of the noise, rising; on a grid, k + 1/2 steps."""
    if not isinstance(law, DiscreteGaussian | Skellam):
        return law.scale * np.geomspace(1e-3, 1e2, _PLACES)
    most = 8.0 * max(1.0, law.scale / law.step)
    whole = np.unique(np.round(np.geomspace(1.0, most, _PLACES)))
    return np.asarray(law.step * (np.concatenate([[0.0], whole]) + 0.5))


def with_variance(law: NoiseLaw, share: float) -> NoiseLaw:
    """The same form of law with this share of its variance; a discrete Gaussian with 1/2 step at least."""
    factor = math.sqrt(share)
    if isinstance(law, GammaShare):
        return replace(law, scale=law.scale * factor)
    if isinstance(law, DiscreteGaussian):
        return replace(law, sigma=max(law.sigma * factor, _FEWEST_STEPS * law.step))
    if isinstance(law, Gaussian | Skellam):
        return replace(law, sigma=law.sigma * factor)
    return law


def _normal(z: Floats) -> Floats:
    from scipy.special import erf

    return np.asarray(erf(z / math.sqrt(2.0)))


def _of_shares(shape: float, z: Floats) -> Floats:
    from scipy.special import kv, modstruve

    order = shape - 0.5
    least = 1e-150 if shape <= 1.0 else 1e-15  # Bessel functions of higher order overflow earlier
    y = np.clip(z, least, 500.0)
    found = y * (kv(order, y) * modstruve(order - 1, y) + kv(order - 1, y) * modstruve(order, y))
    return np.where(z > 0, np.clip(found, 0.0, 1.0), 0.0)


def _of_steps(law: LatticeLaw, steps: Floats) -> Floats | None:
    """P[|X| <= steps], whole numbers >= 0; None for a sum that is no discrete Gaussian."""
    if isinstance(law, DiscreteGaussian) and law.tau > _LARGEST_TAU:
        return None
    spread = law.scale / law.step
    if spread > _WIDE:
        return _normal((steps + 0.5) / spread)
    # Beyond 12 deviations (and 40 steps for narrow laws) the mass is below the rounding of the sum.
    last = min(float(np.max(steps, initial=0.0)), math.ceil(12.0 * spread) + 40.0)
    mass = law.step * np.exp(law.log_density(law.step * np.arange(last + 1.0)))
    within = mass[0] + 2.0 * np.concatenate([[0.0], np.cumsum(mass[1:])])
    return np.asarray(np.minimum(within, 1.0)[np.minimum(steps, last).astype(np.int64)])
