"""What a noise law is, and what laws have in common."""

from __future__ import annotations

import math
import re
from dataclasses import MISSING, dataclass, fields
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.errors import UsageError
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Floats, Ints

FARTHEST = 1e300
"""|x| / scale is cut off here, so that log densities stay finite."""

MOST_STEPS = 2.0**24
"""Largest standard deviation of noise on a grid, in grid steps: up to here its samplers are exact."""

NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
# Fifteen digits bound what `int` parses from a text of unknown origin, and are exact in float64.
_KINDS = {"int": ("([0-9]{1,15})", int), "float": (NUMBER, float)}  # by annotation, which is text here


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


class AdditiveNoise(NoiseLaw, Protocol):
    """A law that defenses draw from."""

    def sample(self, streams: ClientStreams, size: int) -> Floats:
        """Independent noise per client and coordinate, (C, size)."""

    def summed(self, count: int) -> AdditiveNoise:
        """The law of the sum of `count` >= 1 independent draws."""

    def worst_loss(self, shifts: ArrayLike) -> Floats:
        """The largest `ln f(x) / f(x - shift)` over all x for each shift; infinite where unbounded."""

    @property
    def gaussian_slope(self) -> float:
        """c: noise moved by L2 length D, in any number of coordinates, is c D-GDP; infinite if not known."""


@dataclass(frozen=True, kw_only=True)
class ParametricNoise:
    """What the laws of this package share: their text, and the defaults of laws with light tails."""

    name: ClassVar[str]

    @property
    def text(self) -> str:
        """The law as public knowledge: its name and parameters, defaults left out."""
        values = [(field, getattr(self, field.name)) for field in fields(self)]
        named = (f"{field.name}={plain(value)}" for field, value in values if value != field.default)
        return f"{self.name}:{','.join(named)}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The law that a text names; None where it names no law of this class.

        Raises:
            UsageError: a parameter out of range.
        """
        form = f"{cls.name}:"
        for place, field in enumerate(fields(cls)):
            part = f"{',' if place else ''}{field.name}={_KINDS[str(field.type)][0]}"
            form += part if field.default is MISSING else f"(?:{part})?"
        match = re.fullmatch(form, text)
        if match is None:
            return None
        found = zip(fields(cls), match.groups(), strict=True)
        return cls(**{field.name: _KINDS[str(field.type)][1](one) for field, one in found if one is not None})

    def worst_loss(self, shifts: ArrayLike) -> Floats:
        """Infinite for any shift but 0: tails that fall this fast have a loss for a delta above 0 only."""
        return np.where(np.asarray(shifts, dtype=np.float64) != 0, np.inf, 0.0)


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
