"""Laws that no defense draws from: what decoders reckon with where there is no noise, or none is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.privacy.noise.base import check_scale, multiples


@dataclass(frozen=True, kw_only=True)
class RoundingNoise:
    """What rounding leaves of a message without noise, as a Laplace law.

    The true law depends on the size of each number. A law so narrow decides alike whatever its form:
    one hypothesis fits to the last digits and the others do not. Laplace tails forgive a few digits more.

    Attributes:
        resolution: how far off rounded numbers typically are, above 0.

    Raises:
        UsageError: resolution out of range.
    """

    resolution: float

    def __post_init__(self) -> None:
        check_scale("resolution", self.resolution)

    @property
    def text(self) -> str:
        """`none`: there is no noise."""
        return "none"

    @property
    def scale(self) -> float:
        """The resolution."""
        return self.resolution

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        return 2.0 * self.resolution * self.resolution

    def log_density(self, x: ArrayLike) -> NDArray[np.float64]:
        """Natural logarithm of the density at each x."""
        return np.asarray(-multiples(x, self.resolution) - math.log(2.0) - math.log(self.resolution))


@dataclass(frozen=True, kw_only=True)
class ScaleFreeNoise:
    """Noise of which nothing is known: density 1 / (|x| + resolution), whose integral is infinite.

    But for its constant it is what the law of a Gamma share tends to as shape and 1 / scale go to 0. Above
    the resolution no scale is preferred; log densities may be compared with each other only.

    Attributes:
        resolution: how far off rounded numbers typically are, above 0.

    Raises:
        UsageError: resolution out of range.
    """

    resolution: float

    def __post_init__(self) -> None:
        check_scale("resolution", self.resolution)

    @property
    def text(self) -> str:
        """`unknown`, which `parse_law` does not read."""
        return "unknown"

    @property
    def scale(self) -> float:
        """1: there is none of its own."""
        return 1.0

    @property
    def variance(self) -> float:
        """Infinite."""
        return math.inf

    def log_density(self, x: ArrayLike) -> NDArray[np.float64]:
        """Natural logarithm of the density at each x, up to a constant."""
        return np.asarray(-np.log(multiples(x, 1.0) + self.resolution))
