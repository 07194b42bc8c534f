"""Normal noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.privacy.loss.losses import GaussianLoss
from foltr_audit.privacy.loss.proof import LossProof, SensitivityBound
from foltr_audit.privacy.noise.base import FARTHEST, AdditiveNoise, check_scale, multiples
from foltr_audit.rng import UNIFORM_STEP, ClientStreams
from foltr_audit.utils.arrays import Floats


def within_deviations(z: Floats) -> Floats:
    """Probability that a normal variate lies within z >= 0 standard deviations of its mean."""
    from scipy.special import erf

    return np.asarray(erf(z / math.sqrt(2.0)))


@dataclass(frozen=True, kw_only=True)
class Gaussian(AdditiveNoise):
    """Normal noise; as text e.g. `gaussian:sigma=0.5`.

    Attributes:
        sigma: standard deviation, above 0.

    Raises:
        UsageError: sigma out of range.
    """

    name: ClassVar[str] = "gaussian"
    like_normal: ClassVar[bool] = True

    sigma: float

    def __post_init__(self) -> None:
        check_scale("sigma", self.sigma)

    @property
    def scale(self) -> float:
        """The standard deviation."""
        return self.sigma

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        return self.sigma * self.sigma

    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the density at each x."""
        z = np.minimum(multiples(x, self.sigma), math.sqrt(FARTHEST))
        return np.asarray(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - math.log(self.sigma))

    def sample(self, streams: ClientStreams, size: int) -> Floats:
        """One number per client and coordinate, shape (C, size)."""
        from scipy.special import ndtri

        # By inversion and not by `kernels.normal`: each number comes from one uniform number, which is what
        # `steps_off` undoes, and a message's first coordinates do not depend on how many there are.
        return np.asarray(self.sigma * ndtri(streams.uniform(size)))

    def steps_off(self, x: ArrayLike) -> Floats:
        """How far each x is from the nearest number that `sample` draws, in steps of its uniform numbers.

        From 0 to .5. Above one standard deviation float64 is too coarse to tell: .25 there.
        """
        from scipy.special import ndtr

        steps = ndtr(np.asarray(x) / self.sigma) / UNIFORM_STEP - 0.5
        return np.where(np.asarray(x) < self.sigma, np.abs(steps - np.rint(steps)), 0.25)

    def summed(self, count: int) -> Gaussian:
        """The law of the sum of `count` >= 1 independent draws."""
        return Gaussian(sigma=self.sigma * math.sqrt(count))

    @property
    def gaussian_slope(self) -> float:
        """`1 / sigma`, exactly."""
        return 1.0 / self.sigma

    def proofs(self, hidden: SensitivityBound) -> tuple[LossProof, ...]:
        """The loss of Gaussian noise: mu is the L2 distance over sigma.

        Source: Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", theorem 8.
        """
        l2 = hidden.apart.l2
        how = f"Gaussian noise of sigma {self.sigma:.4g} {hidden.where}, L2 distance {l2:.4g}"
        return (LossProof(GaussianLoss(l2 * self.gaussian_slope), how, "Gaussian"),)

    def with_variance(self, share: float) -> Gaussian:
        """Noise of a smaller sigma."""
        return Gaussian(sigma=self.sigma * math.sqrt(share))

    def probability_within(self, size: ArrayLike) -> Floats:
        """P[|X| <= size] at each size >= 0."""
        return within_deviations(np.abs(np.asarray(size, dtype=np.float64)) / self.sigma)
