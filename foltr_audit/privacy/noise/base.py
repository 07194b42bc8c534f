"""What a noise law is, and the numbers that laws have in common."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.errors import UsageError
from foltr_audit.rng import ClientStreams

FARTHEST = 1e300
"""What |x| / scale counts as at most: log densities stay finite."""

MOST_STEPS = 2.0**24
"""How many grid steps the standard deviation of noise on a grid may be: its samplers are exact so far."""


class NoiseLaw(Protocol):
    """A law of independent, symmetric noise on each coordinate."""

    def __hash__(self) -> int: ...

    @property
    def text(self) -> str:
        """The law as public knowledge, e.g. `gamma-share:n=1000,scale=2.5`."""

    @property
    def scale(self) -> float:
        """The unit of x in which the log density has one and the same form."""

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""

    def log_density(self, x: ArrayLike) -> NDArray[np.float64]:
        """Natural logarithm of the density (in units of 1/x) at each x: finite for every finite x."""


class AdditiveNoise(NoiseLaw, Protocol):
    """A law that defenses draw from."""

    def sample(self, streams: ClientStreams, size: int) -> NDArray[np.float64]:
        """Independent noise per client and coordinate, (C, size)."""

    def summed(self, count: int) -> AdditiveNoise:
        """The law of the sum of `count` >= 1 independent ones."""

    def worst_loss(self, shifts: ArrayLike) -> NDArray[np.float64]:
        """The largest `ln f(x) / f(x - shift)` over all x for each shift; infinite where unbounded."""

    @property
    def gaussian_slope(self) -> float:
        """c: noise moved by L2 length D, in any number of coordinates, is c D-GDP; infinite if not known."""


def check_scale(name: str, value: float) -> None:
    """Refuse a scale that is no positive number.

    Raises:
        UsageError: it is not above 0, or infinite.
    """
    if not 0 < value < math.inf:
        raise UsageError(f"noise: {name} {value}; expected a positive number")


def check_count(count: int) -> None:
    """Refuse a sum of no noise at all.

    Raises:
        UsageError: the count is below 1.
    """
    if not count >= 1:
        raise UsageError(f"noise: a sum of {count} shares; expected at least 1")


def plain(value: float) -> str:
    """A number as plug-ins write their parameters, e.g. `3`, `2.5`."""
    whole = float(value).is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else str(value)


def multiples(x: ArrayLike, scale: float) -> NDArray[np.float64]:
    """|x| / scale, at most 1e300; NaN stays NaN."""
    with np.errstate(over="ignore"):
        z = np.abs(np.asarray(x, dtype=np.float64)) / scale
    return np.minimum(z, FARTHEST)


def unbounded_loss(shifts: ArrayLike) -> NDArray[np.float64]:
    """The worst loss of a law whose tails fall too fast: infinite for any shift but 0."""
    return np.where(np.asarray(shifts, dtype=np.float64) != 0, np.inf, 0.0)
