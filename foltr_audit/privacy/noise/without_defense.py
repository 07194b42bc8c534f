"""Laws that no defense draws from: what decoders assume where there is no noise, or none is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.privacy.noise.base import check_scale, multiples
from foltr_audit.utils.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class _Resolution:
    """The one parameter of both laws."""

    resolution: float

    def __post_init__(self) -> None:
        check_scale("resolution", self.resolution)


class RoundingNoise(_Resolution):
    """What rounding leaves of a message without noise, as a Laplace law.

    The true law depends on the size of each number. A law this narrow decides the same way whatever its
    form: one hypothesis fits to the last digits and the others do not. Laplace tails forgive a few digits
    more.

    Attributes:
        resolution: how far off rounded numbers typically are, above 0.

    Raises:
        UsageError: resolution out of range.
    """

    text = "none"

    @property
    def scale(self) -> float:
        """The resolution."""
        return self.resolution

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        return 2.0 * self.resolution * self.resolution

    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the density at each x."""
        return np.asarray(-multiples(x, self.resolution) - math.log(2.0) - math.log(self.resolution))


class ScaleFreeNoise(_Resolution):
    """Noise of which nothing is known: density 1 / (|x| + resolution), whose integral is infinite.

    Up to a constant it is the limit of the law of a Gamma share as shape and 1 / scale go to 0. Above the
    resolution no scale is preferred; log densities may be compared with each other only.

    Attributes:
        resolution: how far off rounded numbers typically are, above 0.

    Raises:
        UsageError: resolution out of range.
    """

    text = "unknown"  # which `parse_law` does not read
    scale = 1.0
    variance = math.inf

    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the density at each x, up to a constant."""
        return np.asarray(-np.log(multiples(x, 1.0) + self.resolution))
