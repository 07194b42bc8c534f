"""Laws of the noise that defenses add: what they draw from, and what an observer may know of it.

A law's `text` is how it travels as public knowledge; `parse_law` reads it back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.errors import UsageError
from foltr_audit.rng import ClientStreams

FLOOR = 1e-9
"""What |x| / scale of a Gamma share counts as at least: its density may be infinite at 0."""

_FARTHEST = 1e300  # what |x| / scale counts as at most: log densities stay finite
_LARGE_ORDER, _LARGE_ARGUMENT = 25.0, 1e4  # from where Bessel functions are taken from their expansion
_SMALLEST, _LARGEST = 1e-300, 1e300  # scales that a text may name


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


@dataclass(frozen=True, kw_only=True)
class GammaShare:
    """The sum of `count` of n independent shares, all of which together are Laplace noise.

    A share is `gamma - gamma'` with both Gamma(shape 1/n, scale s); n of them sum to Laplace(s).
    The variance of one is 2 s^2 / n. For n >= 2 most coordinates of a share are vanishingly small.

    Source: Kotz, Kozubowski & Podgorski 2001, "The Laplace distribution and generalizations", section 2.4
    and, for the density of a share, 4.1; used by Wang et al. 2021, "Effective and privacy-preserving
    federated online learning to rank", eq. 16.

    Attributes:
        n: number of shares that make one Laplace variate, at least 1.
        scale: scale s of that Laplace variate, above 0.
        count: how many shares are added up, at least 1; more than n are possible.

    Raises:
        UsageError: n, scale or count out of range.
    """

    n: int
    scale: float
    count: int = 1

    def __post_init__(self) -> None:
        if not self.n >= 1:
            raise UsageError(f"noise: {self.n} Gamma shares; expected at least 1")
        if not self.count >= 1:
            raise UsageError(f"noise: a sum of {self.count} Gamma shares; expected at least 1")
        _check_scale("scale", self.scale)

    @property
    def shape(self) -> float:
        """Shape of both Gamma variates: 1 for Laplace noise."""
        return self.count / self.n

    @property
    def text(self) -> str:
        """The law as public knowledge, e.g. `gamma-share:n=1000,scale=2.5,count=7`."""
        count = f",count={self.count}" if self.count != 1 else ""
        return f"gamma-share:n={self.n},scale={_plain(self.scale)}{count}"

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        return 2.0 * self.shape * self.scale * self.scale

    def log_density(self, x: ArrayLike) -> NDArray[np.float64]:
        """Natural logarithm of the density at each x; where |x| < 1e-9 scale, what it is there."""
        z = np.maximum(_multiples(x, self.scale), FLOOR)
        order = self.shape - 0.5
        constant = math.lgamma(self.shape) + 0.5 * math.log(math.pi) + math.log(self.scale)
        return np.asarray(order * np.log(0.5 * z) + _log_bessel_k(abs(order), z) - constant)

    def sample(self, streams: ClientStreams, size: int) -> NDArray[np.float64]:
        """One sum of shares per client and coordinate, shape (C, size).

        Shapes above 1 are drawn as sums of several variates.
        """
        from foltr_audit.kernels.gamma import gamma_differences

        parts = math.ceil(self.shape)
        drawn = gamma_differences(
            self.shape / parts,
            size * parts,
            streams.clients,
            streams.round,
            streams.purpose_code,
            np.uint64(streams.key),
        )
        if parts > 1:
            drawn = drawn.reshape(streams.clients.size, size, parts).sum(axis=2)
        return self.scale * drawn


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
        _check_scale("sigma", self.sigma)

    @property
    def text(self) -> str:
        """The law as public knowledge, e.g. `gaussian:sigma=0.5`."""
        return f"gaussian:sigma={_plain(self.sigma)}"

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
        z = np.minimum(_multiples(x, self.sigma), math.sqrt(_FARTHEST))
        return np.asarray(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - math.log(self.sigma))


@dataclass(frozen=True, kw_only=True)
class Rounding:
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
        _check_scale("resolution", self.resolution)

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
        return np.asarray(-_multiples(x, self.resolution) - math.log(2.0) - math.log(self.resolution))


@dataclass(frozen=True, kw_only=True)
class ScaleFree:
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
        _check_scale("resolution", self.resolution)

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
        return np.asarray(-np.log(_multiples(x, 1.0) + self.resolution))


_WHOLE, _NUMBER = "([0-9]{1,15})", r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
_FORMS: tuple[tuple[str, Callable[..., NoiseLaw]], ...] = (
    (
        f"gamma-share:n={_WHOLE},scale={_NUMBER}(?:,count={_WHOLE})?",
        lambda n, scale, count: GammaShare(n=int(n), scale=float(scale), count=int(count or 1)),
    ),
    (f"laplace:scale={_NUMBER}", lambda scale: GammaShare(n=1, scale=float(scale))),
    (f"gaussian:sigma={_NUMBER}", lambda sigma: Gaussian(sigma=float(sigma))),
)


def parse_law(text: str) -> NoiseLaw | None:
    """The law that a text names, or None where it names none that is known here.

    Sums of laws (`a+b`), numbers out of range and scales outside 1e-300 .. 1e300 are not known.

    >>> parse_law("laplace:scale=2.5")
    GammaShare(n=1, scale=2.5, count=1)
    """
    for form, made in _FORMS:
        match = re.fullmatch(form, text)
        if match is None:
            continue
        try:
            law = made(*match.groups())
        except UsageError:
            return None
        return law if _SMALLEST <= law.scale <= _LARGEST else None
    return None


def _check_scale(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise UsageError(f"noise: {name} {value}; expected a positive number")


def _plain(value: float) -> str:
    """A number as plug-ins write their parameters, e.g. `3`, `2.5`."""
    whole = float(value).is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else str(value)


def _multiples(x: ArrayLike, scale: float) -> NDArray[np.float64]:
    """|x| / scale, at most 1e300; NaN stays NaN."""
    with np.errstate(over="ignore"):
        z = np.abs(np.asarray(x, dtype=np.float64)) / scale
    return np.minimum(z, _FARTHEST)


def _log_bessel_k(order: float, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of K of an order >= 0 at each z > 0, also where K itself overflows or vanishes."""
    from scipy.special import kve

    far = (z > _LARGE_ARGUMENT) | (order > _LARGE_ORDER)
    out = np.empty_like(z)
    out[far] = _expanded_log_bessel_k(order, z[far])
    out[~far] = np.log(kve(order, z[~far])) - z[~far]
    return out


def _expanded_log_bessel_k(order: float, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of K for a large order or argument: K errs by a share of about (order^2 + z^2)^(-5/2).

    Source: Olver et al. 2010, "NIST handbook of mathematical functions", 10.41.4 and 10.41.10, with
    r = sqrt(order^2 + z^2) as the unit, so that it holds for order 0 too.
    """
    r = np.hypot(order, z)
    p = (order / r) ** 2
    terms = (
        (3 - 5 * p) / 24,
        (81 + p * (-462 + p * 385)) / 1152,
        (30375 + p * (-369603 + p * (765765 - p * 425425))) / 414720,
        (4465125 + p * (-94121676 + p * (349922430 + p * (-446185740 + p * 185910725)))) / 39813120,
    )
    rest = np.zeros_like(r)
    for term in reversed(terms):
        rest = (rest + term) / -r
    return np.asarray(
        np.log1p(rest) - r - order * np.log(z / (order + r)) + 0.5 * (math.log(0.5 * math.pi) - np.log(r))
    )
