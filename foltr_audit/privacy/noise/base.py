"""What a noise law is: the contract that accounting, attacks, audits and the leak lint rely on."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.errors import UsageError
from foltr_audit.privacy.loss.losses import (
    GaussianLoss,
    LossProof,
    PureLoss,
    SensitivityBound,
    whole_multiple,
)
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.array_memo import remembered
from foltr_audit.utils.arrays import Floats, Ints

FARTHEST = 1e300
"""|x| / scale is cut off here, so that log densities stay finite."""

WINDOWS = 500
"""Half-widths that a law offers, of which few become windows."""

MOST_STEPS = 2.0**24
"""Largest standard deviation of noise on a grid, in grid steps: up to here its samplers are exact."""

NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
# Fifteen digits bound what `int` parses from a text of unknown origin, and are exact in float64.
_KINDS: dict[str, tuple[str, type]] = {}
for _kind, _form in ((int, "([0-9]{1,15})"), (float, NUMBER)):
    _KINDS[_kind.__name__] = _KINDS[str(_kind)] = (_form, _kind)  # annotations are text or types


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

    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the density (in units of 1/x) at each x: finite for every finite x."""


_POLE = 0.1  # rise of a log density over six powers of ten near 0; a bounded one is flat there


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise(ABC):
    """A law that defenses draw from: what accounting, attacks, audits and the leak lint ask of it.

    A subclass is a frozen dataclass with a `name` and number fields; its text, e.g. `gaussian:sigma=0.5`,
    follows from them. A law of another package registers under the entry point `foltr_audit.noise_laws`, so
    that traces with its text can be read. All laws are symmetric around 0, and their density does not rise
    with the distance from 0.

    Attributes:
        name: what its text begins with.
        like_normal: whether it is normal noise, or as near to it as the width of its grid allows.
    """

    name: ClassVar[str]
    like_normal: ClassVar[bool] = False

    if TYPE_CHECKING:
        # A property here would become the default of a field `scale` of a subclass.
        @property
        def scale(self) -> float:
            """The unit of x in which the log density has one and the same form: a field or a property."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of one coordinate."""

    @property
    def grid(self) -> float:
        """Step of the grid that draws lie on; 0 if on none."""
        return 0.0

    @abstractmethod
    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the density (in units of 1/x) at each x: finite for every finite x."""

    @property
    def has_pole(self) -> bool:
        """Whether the density rises without bound towards 0, so that most draws are vanishingly small."""
        near, off = self.log_density([1e-9 * self.scale, 1e-3 * self.scale])
        return self.grid == 0 and bool(near - off > _POLE)

    @abstractmethod
    def sample(self, streams: ClientStreams, size: int) -> Floats:
        """Independent noise per client and coordinate, (C, size)."""

    @abstractmethod
    def summed(self, count: int) -> AdditiveNoise:
        """The law of the sum of `count` >= 1 independent draws."""

    def with_variance(self, share: float) -> AdditiveNoise:
        """The same form of law with this share of its variance; the law itself if there is none."""
        return self

    def worst_loss(self, shifts: ArrayLike) -> Floats:
        """The largest `ln f(x) / f(x - shift)` over all x for each shift, rising with |shift|.

        By default infinite for any shift but 0: tails that fall fast have a loss for a delta above 0 only.
        """
        return np.where(np.asarray(shifts, dtype=np.float64) != 0, np.inf, 0.0)

    @property
    def gaussian_slope(self) -> float:
        """c: noise moved by L2 length D, in any number of coordinates, is c D-GDP; infinite if not known."""
        return math.inf

    @property
    def order(self) -> int:
        """1 if the noise gives a pure epsilon, which grows with the L1 distance; else 2."""
        return 1 if np.isfinite(self.worst_loss(self.scale)) else 2

    def proofs(self, hidden: SensitivityBound) -> tuple[LossProof, ...]:
        """The losses that independent noise of this law on every coordinate proves; at least one entry.

        By default the largest pure loss of P coordinates that all move by the Linf distance, and the Gaussian
        loss of the L2 distance; nothing for vectors off the grid of the noise, or for a sum of unequal
        weights. A law that knows more overrides it.
        """
        apart, size = hidden.apart, hidden.parameters
        how = f"{self.text} {hidden.where}"
        if self.grid > 0 and not whole_multiple(hidden.grid, self.grid):
            return (LossProof(None, f"{how}: messages are not rounded to that grid before the noise"),)
        if hidden.stretch > 1:
            return (LossProof(None, f"{how}: the law states no loss for a sum of unequal weights"),)
        pure = size * float(self.worst_loss(apart.linf))
        found = []
        if math.isfinite(pure):
            found.append(LossProof(PureLoss(pure), f"{how}, Linf distance {apart.linf:.4g}"))
        if math.isfinite(self.gaussian_slope):
            near = GaussianLoss(apart.l2 * self.gaussian_slope, normal=False)
            found.append(LossProof(near, f"{how}, L2 distance {apart.l2:.4g}", self.name))
        return tuple(found) or (LossProof(None, f"{how}: the law states no privacy loss"),)

    def probability_within(self, size: ArrayLike) -> Floats | None:
        """`P[|X| <= size]` at each size >= 0; None where it is not known."""
        return None

    def concentration(self, half: ArrayLike) -> Floats | None:
        """The largest P[|X - c| < half] over all c, at each half > 0; None where it is not known.

        It is the concentration function of Levy 1937, "Theorie de l'addition des variables aleatoires".
        Where X has a symmetric and unimodal density, the interval around 0 is the most probable one of its
        length (Anderson 1955, "The integral of a symmetric unimodal function over a symmetric convex set and
        some probability inequalities").
        """
        return self.probability_within(half)

    def half_widths(self) -> Floats:
        """Half-widths of windows from tiny to nearly all of the noise, rising."""
        return self.scale * np.geomspace(1e-3, 1e2, WINDOWS)

    def steps_off(self, x: ArrayLike) -> Floats | None:
        """How far each x is from the nearest number that `sample` draws, in steps of its uniform numbers.

        From 0 to .5; None for a law whose draws are not known to have such gaps.
        """
        return None

    @property
    def text(self) -> str:
        """The law as public knowledge: its name and parameters, defaults left out."""
        values = [(field, getattr(self, field.name)) for field in fields(self)]
        named = (f"{field.name}={plain(value)}" for field, value in values if value != field.default)
        return f"{self.name}:{','.join(named)}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The law that a text names; None where it names no law of this class."""
        form = f"{re.escape(cls.name)}:"
        for place, field in enumerate(fields(cls)):
            part = f"{',' if place else ''}{field.name}={_KINDS[str(field.type)][0]}"
            form += part if field.default is MISSING else f"(?:{part})?"
        match = re.fullmatch(form, text)
        if match is None:
            return None
        found = zip(fields(cls), match.groups(), strict=True)
        return cls(**{field.name: _KINDS[str(field.type)][1](one) for field, one in found if one is not None})


def check_scale(name: str, value: float) -> None:
    """Raise `UsageError` unless a scale is a positive number."""
    if not 0 < value < math.inf:
        raise UsageError(f"noise: {name} {value}; expected a positive number")


def check_count(count: int, what: str = "shares") -> None:
    """Raise `UsageError` unless a sum has at least one summand."""
    if not count >= 1:
        raise UsageError(f"noise: a sum of {count} {what}; expected at least 1")


def check_grid(law: str, sigma: float, step: float, fewest: tuple[float, str]) -> None:
    """Raise `UsageError` unless sigma is between `fewest` (number and text) and 2^24 steps of a grid."""
    if not (0 < step < math.inf and fewest[0] <= sigma / step <= MOST_STEPS):
        raise UsageError(
            f"noise: {law} of sigma {sigma:g} on a grid of {step:g}; "
            f"expected sigma from {fewest[1]} to 2^24 grid steps"
        )


def plain(value: float) -> str:
    """A number as plug-ins write their parameters, e.g. `3`, `2.5`."""
    whole = float(value).is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else str(value)


def multiples(x: ArrayLike, scale: float) -> Floats:
    """|x| / scale, at most 1e300; NaN stays NaN."""
    # A very small scale may make the quotient infinite; it is cut off below.
    with np.errstate(over="ignore"):
        z = np.abs(np.asarray(x, dtype=np.float64)) / scale
    return np.minimum(z, FARTHEST)


def stream_key(streams: ClientStreams) -> tuple[Ints, int, int, np.uint64]:
    """The streams as the sampling kernels take them: clients, round, purpose and key."""
    return streams.clients, streams.round, streams.purpose_code, np.uint64(streams.key)


def drawn(law: str, streams: ClientStreams, given: tuple[float, int], draw: Callable[[], Floats]) -> Floats:
    """Standard draws of a law from these streams, with the same parameters `given`; not to be written to.

    A comparison draws them once for all cells that differ in the scale alone.
    """

    def key() -> tuple[object, ...]:
        return law, *given, streams.key, streams.purpose_code, streams.round, streams.clients.tobytes()

    return remembered(key, draw)


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
    """

    text = "none"

    @property
    def scale(self) -> float:
        return self.resolution

    @property
    def variance(self) -> float:
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
    """

    text = "unknown"  # which `parse_law` does not read
    scale = 1.0
    variance = math.inf

    def log_density(self, x: ArrayLike) -> Floats:
        """Natural logarithm of the density at each x, up to a constant."""
        return np.asarray(-np.log(multiples(x, 1.0) + self.resolution))
