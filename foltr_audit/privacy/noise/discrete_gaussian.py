"""Normal noise on a grid: the discrete Gaussian, and sums of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.errors import UsageError
from foltr_audit.privacy.noise.base import FARTHEST, MOST_STEPS, check_count, multiples, plain, unbounded_loss
from foltr_audit.privacy.noise.probit import CHECKED_STEPS, fine_slope, lattice_points, lattice_slope
from foltr_audit.rng import ClientStreams

_FEWEST_STEPS = 0.5
_LATTICE = np.arange(1.0, 6.0)  # further terms of the sums below are smaller than 1e-70
_SUMMANDS = 10_000


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """The sum of `count` discrete Gaussian variates on the multiples of `step`.

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

    sigma: float
    step: float
    count: int = 1

    def __post_init__(self) -> None:
        check_count(self.count)
        if not (0 < self.step < math.inf and _FEWEST_STEPS <= self.sigma / self.step <= MOST_STEPS):
            raise UsageError(
                f"noise: discrete Gaussian of sigma {self.sigma:g} on a grid of {self.step:g}; "
                "expected sigma from 1/2 to 2^24 grid steps"
            )

    @property
    def text(self) -> str:
        """The law as public knowledge, e.g. `discrete-gaussian:sigma=0.5,step=0.01,count=7`."""
        count = f",count={self.count}" if self.count != 1 else ""
        return f"discrete-gaussian:sigma={plain(self.sigma)},step={plain(self.step)}{count}"

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

    def log_density(self, x: ArrayLike) -> NDArray[np.float64]:
        """Natural logarithm of the mass at each multiple of `step` over `step`, smooth in between."""
        spread = self.scale / self.step
        images = 1.0 + 2.0 * float(np.exp(-2.0 * (math.pi * spread * _LATTICE) ** 2).sum())
        z = np.minimum(multiples(x, self.scale), math.sqrt(FARTHEST))
        constant = 0.5 * math.log(2.0 * math.pi) + math.log(self.scale) + math.log(images)
        return np.asarray(-0.5 * z * z - constant)

    def integers(self, streams: ClientStreams, size: int) -> NDArray[np.float64]:
        """Noise in grid steps, whole numbers as float64, (C, size); in time proportional to `count`."""
        from foltr_audit.kernels.discrete_gaussian import discrete_gaussians

        drawn = discrete_gaussians(
            self.sigma / self.step,
            size * self.count,
            streams.clients,
            streams.round,
            streams.purpose_code,
            np.uint64(streams.key),
        )
        return np.asarray(drawn.reshape(streams.clients.size, size, self.count).sum(axis=2))

    def sample(self, streams: ClientStreams, size: int) -> NDArray[np.float64]:
        """One sum per client and coordinate, shape (C, size)."""
        return self.step * self.integers(streams, size)

    def summed(self, count: int) -> DiscreteGaussian:
        """The law of the sum of `count` >= 1 independent ones."""
        return replace(self, count=self.count * count)

    def worst_loss(self, shifts: ArrayLike) -> NDArray[np.float64]:
        """Infinite for any shift: it has a loss for a delta above 0 only."""
        return unbounded_loss(shifts)

    @property
    def gaussian_slope(self) -> float:
        """The c of `AdditiveNoise` for moves by multiples of the grid.

        That of one discrete Gaussian, and for a sum what the error of its log mass, tau / 2, adds to the
        difference of two heights `Phi^-1(F)`: at most `sqrt(pi / 2) tau`, since `S(x) / phi(x)` is nowhere
        larger than at 0.

        Source: `foltr_audit.privacy.noise.probit`; sums of log-concave lattice laws are log-concave.
        """
        spread = self.scale / self.step
        if spread > CHECKED_STEPS:
            slope = fine_slope(float(self.log_density(0.0)) + math.log(self.step))
        else:
            masses = self.log_density(lattice_points(spread) * self.step) + math.log(self.step)
            slope = lattice_slope(masses)
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
