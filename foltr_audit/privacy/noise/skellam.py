"""Differences of Poisson variates on a grid: noise whose sums have exactly the same form."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.privacy.noise.base import check_count, check_grid, drawn, multiples, stream_key
from foltr_audit.privacy.noise.bessel import log_scaled_bessel_i
from foltr_audit.privacy.noise.grid import GridNoise
from foltr_audit.privacy.noise.probit import slope_of_lattice
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class Skellam(GridNoise):
    """Differences `step (k - k')` of two Poisson variates of mean `(sigma / step)^2 / 2`.

    As text e.g. `skellam:sigma=0.5,step=0.01`.

    The sum of n of them is Skellam noise of `sigma sqrt(n)`, exactly. With v = (sigma / step)^2 and the
    modified Bessel function I, P(k step) = exp(-v) I_|k|(v).

    Source: Agarwal, Kairouz & Liu 2021, "The Skellam mechanism for differentially private federated
    learning", sections 2 and 3.

    Attributes:
        sigma: standard deviation, in units of x; 1e-6 to 2^24 steps.
        step: width of the grid, above 0.

    Raises:
        UsageError: sigma or step out of range.
    """

    name: ClassVar[str] = "skellam"
    title: ClassVar[str] = "Skellam"

    def __post_init__(self) -> None:
        check_grid("Skellam noise", self.sigma, self.step, (1e-6, "1e-6"))

    @property
    def scale(self) -> float:
        """The standard deviation."""
        return self.sigma

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        return self.sigma * self.sigma

    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the mass at each multiple of `step` over `step`, smooth in between."""
        orders = multiples(x, self.step)
        log_mass = log_scaled_bessel_i(orders.ravel(), (self.sigma / self.step) ** 2)
        return np.asarray(log_mass.reshape(orders.shape) - math.log(self.step))

    def integers(self, streams: ClientStreams, size: int) -> Floats:
        """Noise in grid steps, whole numbers as float64, (C, size)."""
        from foltr_audit.kernels.poisson import poisson_differences

        mean = 0.5 * (self.sigma / self.step) ** 2
        given = (mean, size, *stream_key(streams))
        return drawn("poisson", streams, (mean, size), lambda: poisson_differences(*given))

    def sample(self, streams: ClientStreams, size: int) -> Floats:
        """One number per client and coordinate, shape (C, size)."""
        return self.step * self.integers(streams, size)

    def summed(self, count: int) -> Skellam:
        """The law of the sum of `count` >= 1 independent draws."""
        check_count(count)
        return replace(self, sigma=self.sigma * math.sqrt(count))

    @property
    def gaussian_slope(self) -> float:
        """The slope c for moves by multiples of the grid, about `(1 + 1 / (6 v)) / sigma`.

        Source: `foltr_audit.privacy.noise.probit`; the law is log-concave, as a convolution of Poisson laws.
        """
        return _slope((self.sigma / self.step) ** 2) / self.step

    def renyi(self, order: int, l1: float, l2: float) -> float:
        """Upper bound on the Renyi divergence of this noise from itself moved by a multiple of the grid.

        Args:
            order: alpha, a whole number above 1.
            l1: L1 norm of the move, in units of x.
            l2: its L2 norm.

        Source: Agarwal, Kairouz & Liu 2021, theorem 3.5 (as corollary 4.1 for a scaled grid).
        """
        across, far, v = l1 / self.step, l2 / self.step, (self.sigma / self.step) ** 2
        near = ((2.0 * order - 1.0) * far**2 + 6.0 * across) / (4.0 * v) / v
        return order * far**2 / (2.0 * v) + min(near, 1.5 * across / v)


@lru_cache(maxsize=256)
def _slope(v: float) -> float:
    """The slope of Skellam noise of variance v on the whole numbers."""
    return slope_of_lattice(lambda k: log_scaled_bessel_i(k, v), math.sqrt(v))
