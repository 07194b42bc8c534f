"""Sizes of a vector in three norms at once, each as small as the others allow; and grids that it lies on."""

from __future__ import annotations

import math
from dataclasses import dataclass

_NEAR = 1e-9  # how far the ratio of two grids may be from a whole number


@dataclass(frozen=True)
class Norms:
    """Upper bounds on the norms of a vector; infinite where none is known.

    Attributes:
        l1: sum of absolute values.
        l2: Euclidean norm.
        linf: largest absolute value.
    """

    l1: float = math.inf
    l2: float = math.inf
    linf: float = math.inf

    @classmethod
    def of_ball(cls, radius: float, order: float) -> Norms:
        """The bounds of a vector in one ball of order 1, 2 or infinity."""
        return cls(**{{1.0: "l1", 2.0: "l2", math.inf: "linf"}[float(order)]: radius})

    @property
    def known(self) -> bool:
        """Whether any norm is bounded."""
        return math.isfinite(min(self.l1, self.l2, self.linf))

    def within(self, other: Norms) -> Norms:
        """The bounds of a vector that obeys both."""
        return Norms(min(self.l1, other.l1), min(self.l2, other.l2), min(self.linf, other.linf))

    def times(self, factor: float) -> Norms:
        """The bounds of the vector times a positive number."""
        return Norms(self.l1 * factor, self.l2 * factor, self.linf * factor)

    def moved(self, by: float, size: int) -> Norms:
        """The bounds of a vector of `size` coordinates after each of them moved by at most `by`."""
        return Norms(self.l1 + size * by, self.l2 + math.sqrt(size) * by, self.linf + by)

    def tightened(self, size: int) -> Norms:
        """The three bounds for a vector of `size` coordinates, each as small as the others allow.

        `linf <= l2 <= l1 <= sqrt(P) l2`, `l2 <= sqrt(P) linf`, `l1 <= P linf` and `l2^2 <= l1 linf`.
        """
        root = math.sqrt(size)
        linf = min(self.linf, self.l2, self.l1)
        l1 = min(self.l1, root * self.l2, size * linf)
        l2 = min(self.l2, l1, root * linf, math.sqrt(l1) * math.sqrt(linf))
        return Norms(l1, l2, linf)


def whole_multiple(grid: float, step: float) -> bool:
    """Whether every multiple of `grid` is one of `step`."""
    if not (grid > 0 and step > 0):
        return False
    ratio = grid / step
    return ratio >= 1 - _NEAR and abs(ratio - round(ratio)) <= _NEAR * ratio
