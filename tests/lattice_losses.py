"""The exact loss of noise on a grid in one coordinate, by adding up its masses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from foltr_audit.privacy.noise import DiscreteGaussian, Gaussian, Skellam

Law = Skellam | DiscreteGaussian | Gaussian
LogMass = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def log_mass(law: Law) -> LogMass:
    """Logarithm of the mass at each multiple of the grid; normal noise is rounded to whole numbers."""
    if not isinstance(law, Gaussian):
        return lambda k: law.log_density(k * law.step) + math.log(law.step)

    def rounded(k: NDArray[np.float64]) -> NDArray[np.float64]:
        nearer, farther = (special.ndtr((off - np.abs(k)) / law.sigma) for off in (0.5, -0.5))
        return np.asarray(np.log(nearer - farther))

    return rounded


def exact_epsilon(law: Law, steps: int, delta: float) -> float:
    """The smallest eps at delta for a shift of whole grid steps: delta = sum of max(0, p - e^eps q)."""
    step = 1.0 if isinstance(law, Gaussian) else law.step
    reach = math.ceil(12 * math.sqrt(law.variance) / step) + 30 + steps
    k = np.arange(-reach, reach + 1.0)
    one, zero = (log_mass(law)(k - moved) for moved in (steps, 0))

    def beyond(eps: float) -> float:
        return math.fsum(-np.exp(one) * np.expm1(np.minimum(eps + zero - one, 0.0))) - delta

    return float(optimize.brentq(beyond, 0.0, 200.0, xtol=1e-12)) if beyond(0.0) > 0 else 0.0
