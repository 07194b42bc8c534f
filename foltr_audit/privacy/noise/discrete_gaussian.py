"""Normal noise on a grid: the discrete Gaussian, and sums of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.privacy.noise.base import (
    FARTHEST,
    check_count,
    check_grid,
    multiples,
    stream_key,
)
from foltr_audit.privacy.noise.grid import GridNoise
from foltr_audit.privacy.noise.probit import slope_of_lattice
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Floats

_LATTICE = np.arange(1.0, 6.0)  # further terms of the sums below are smaller than 1e-70
_LARGEST_TAU = 1e-9  # distance of a sum of discrete Gaussians from a discrete Gaussian
_SUMMANDS = 10_000  # terms of tau that are added one by one: the later ones are all but equal


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(GridNoise):
    """The sum of `count` discrete Gaussian variates on the multiples of `step`.

    As text e.g. `discrete-gaussian:sigma=0.5,step=0.01,count=7`.

    P(k step) of one of them is proportional to `exp(-(k step / sigma)^2 / 2)`. Their sum is **not** again a
    discrete Gaussian. Its variance is `count` times that of one, exactly. Its log mass is given as that of
    one discrete Gaussian of `sigma sqrt(count)`: right for a count of 1, else off by at most `tau / 2` at any
    point (3e-4 for two of them at sigma = step, 1e-16 at sigma = 2 step).

    Source: Kairouz, Liu & Steinke 2021, "The distributed discrete Gaussian mechanism for federated learning
    with secure aggregation", theorem 1 and section 4, whose bounds need sigma >= step / 2.

    Attributes:
        sigma: parameter of one variate, in units of x; 1/2 to 2^24 steps.
        step: width of the grid, above 0.
        count: how many variates are added up, at least 1.

    Raises:
        UsageError: sigma, step or count out of range.
    """

    name: ClassVar[str] = "discrete-gaussian"
    title: ClassVar[str] = "discrete Gaussian"
    fewest_steps: ClassVar[float] = 0.5

    count: int = 1

    def __post_init__(self) -> None:
        check_count(self.count)
        check_grid("discrete Gaussian", self.sigma, self.step, (0.5, "1/2"))

    @property
    def scale(self) -> float:
        """The parameter of the discrete Gaussian that comes nearest to the sum."""
        return self.sigma * math.sqrt(self.count)

    @property
    def variance(self) -> float:
        """Variance of one coordinate, exactly: a little below `count sigma^2` on a coarse grid."""
        spread = self.sigma / self.step
        weights = 2.0 * np.exp(-2.0 * (math.pi * spread * _LATTICE) ** 2)
        mean_square = float(weights @ _LATTICE**2) / (1.0 + float(weights.sum()))
        lost = (2.0 * math.pi * spread) ** 2 * mean_square
        return self.count * self.sigma**2 * (1.0 - lost)

    @property
    def tau(self) -> float:
        """The tau of the paper's theorem 1: 0 for a count of 1."""
        k = np.arange(1.0, min(self.count, _SUMMANDS + 1))
        terms = np.exp(-2.0 * (math.pi * self.sigma / self.step) ** 2 * k / (k + 1.0))
        rest = (self.count - 1 - k.size) * float(terms[-1]) if k.size else 0.0
        return 10.0 * (float(terms.sum()) + rest)

    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the mass at each multiple of `step` over `step`, smooth in between."""
        spread = self.scale / self.step
        images = 1.0 + 2.0 * float(np.exp(-2.0 * (math.pi * spread * _LATTICE) ** 2).sum())
        z = np.minimum(multiples(x, self.scale), math.sqrt(FARTHEST))
        constant = 0.5 * math.log(2.0 * math.pi) + math.log(self.scale) + math.log(images)
        return np.asarray(-0.5 * z * z - constant)

    def integers(self, streams: ClientStreams, size: int) -> Floats:
        """Noise in grid steps, whole numbers as float64, (C, size); in time proportional to `count`."""
        from foltr_audit.kernels.discrete_gaussian import discrete_gaussians

        drawn = discrete_gaussians(self.sigma / self.step, size * self.count, *stream_key(streams))
        return np.asarray(drawn.reshape(streams.clients.size, size, self.count).sum(axis=2))

    def sample(self, streams: ClientStreams, size: int) -> Floats:
        """One sum per client and coordinate, shape (C, size)."""
        return self.step * self.integers(streams, size)

    def summed(self, count: int) -> DiscreteGaussian:
        """The law of the sum of `count` >= 1 independent draws."""
        return replace(self, count=self.count * count)

    def within_steps(self, steps: Floats) -> Floats | None:
        """P[|X| <= steps], whole numbers >= 0; None for a sum that is no discrete Gaussian."""
        return None if self.tau > _LARGEST_TAU else super().within_steps(steps)

    @property
    def gaussian_slope(self) -> float:
        """The slope c for moves by multiples of the grid.

        It is that of one discrete Gaussian. For a sum, the error of its log mass, tau / 2, adds to the
        difference of two heights `Phi^-1(F)` at most `sqrt(pi / 2) tau`, since `S(x) / phi(x)` is
        largest at 0.

        Source: `foltr_audit.privacy.noise.probit`; sums of log-concave lattice laws are log-concave.
        """

        def log_mass(k: Floats) -> Floats:
            return self.log_density(k * self.step) + math.log(self.step)

        slope = slope_of_lattice(log_mass, self.scale / self.step)
        error = math.sqrt(0.5 * math.pi) * self.tau if self.count > 1 else 0.0
        return (slope + error) / self.step

    def renyi(self, order: float, l1: float, l2: float, coordinates: int) -> float:
        """Upper bound on the Renyi divergence of this noise from itself moved by a multiple of the grid.

        Args:
            order: alpha >= 1.
            l1: L1 norm of the move, in units of x.
            l2: its L2 norm.
            coordinates: how many coordinates there are.

        Source: Kairouz, Liu & Steinke 2021, proposition 14.
        """
        across, far, tau = l1 / self.scale, l2 / self.scale, self.tau
        return min(
            0.5 * order * far**2 + tau * coordinates,
            0.5 * order * (far**2 + 2.0 * across * tau + tau**2 * coordinates),
            0.5 * order * (far + tau * math.sqrt(coordinates)) ** 2,
        )
