"""Normal noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.privacy.noise.base import FARTHEST, check_scale, multiples, plain, unbounded_loss
from foltr_audit.rng import UNIFORM_STEP, ClientStreams


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Normal noise.

    Attributes:
        sigma: standard deviation, above 0.

    Raises:
        UsageError: sigma out of range.
    """

    sigma: float

    def __post_init__(self) -> None:
        check_scale("sigma", self.sigma)

    @property
    def text(self) -> str:
        """The law as public knowledge, e.g. `gaussian:sigma=0.5`."""
        return f"gaussian:sigma={plain(self.sigma)}"

    @property
    def scale(self) -> float:
        """The standard deviation."""
        return self.sigma

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        return self.sigma * self.sigma

    def log_density(self, x: ArrayLike) -> NDArray[np.float64]:
        """Natural logarithm of the density at each x."""
        z = np.minimum(multiples(x, self.sigma), math.sqrt(FARTHEST))
        return np.asarray(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - math.log(self.sigma))

    def sample(self, streams: ClientStreams, size: int) -> NDArray[np.float64]:
        """One number per client and coordinate, shape (C, size)."""
        from scipy.special import ndtri

        return np.asarray(self.sigma * ndtri(streams.uniform(size)))

    def steps_off(self, x: ArrayLike) -> NDArray[np.float64]:
        """How far each x is from what `sample` draws, in steps of its uniform numbers: 0 to .5.

        Above the middle float64 is too coarse to tell: .25 there.
        """
        from scipy.special import ndtr

        steps = ndtr(np.asarray(x) / self.sigma) / UNIFORM_STEP - 0.5
        return np.where(np.asarray(x) < self.sigma, np.abs(steps - np.rint(steps)), 0.25)

    def summed(self, count: int) -> Gaussian:
        """The law of the sum of `count` >= 1 independent ones."""
        return Gaussian(sigma=self.sigma * math.sqrt(count))

    def worst_loss(self, shifts: ArrayLike) -> NDArray[np.float64]:
        """Infinite for any shift: Gaussian noise has a loss for a delta above 0 only."""
        return unbounded_loss(shifts)

    @property
    def gaussian_slope(self) -> float:
        """`1 / sigma`, exactly."""
        return 1.0 / self.sigma
