"""Which clients mask together: a circular graph of neighbours, in an order that is drawn in every round.

Source: Bell, Bonawitz, Gascon, Lepoint & Raykova 2020, "Secure single-server aggregation with
(poly)logarithmic overhead", section 3 (Harary graph of randomly permuted clients).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Bools, Ints

_EXTRA = 10  # neighbours in addition to 2 log2 n, so that small cohorts stay connected


def default_neighbours(n: int) -> int:
    """About 2 log2 n + 10 neighbours, all others in a small cohort.

    >>> default_neighbours(1000), default_neighbours(8)
    (30, 7)
    """
    return neighbours_of(2 * math.ceil(math.log2(max(n, 1))) + _EXTRA, n)


def neighbours_of(wanted: int, n: int) -> int:
    """The number of neighbours that n clients on a circle can have: even, or all n - 1 others.

    Raises:
        UsageError: fewer than 1 neighbour.
    """
    if not wanted >= 1:
        raise UsageError(f"secure-aggregation: {wanted} neighbours; expected 1 or more, or all")
    return min(wanted + wanted % 2, max(n - 1, 0))


@dataclass(frozen=True, eq=False)
class MaskGraph:
    """Clients on a circle; each is a neighbour of the nearest clients on both sides.

    Attributes:
        order: place in the cohort of each client along the circle, int64 (n,).
        degree: neighbours of each client: even, or n - 1.
    """

    order: Ints
    degree: int

    @property
    def n(self) -> int:
        """Number of clients."""
        return int(self.order.size)

    @property
    def reach(self) -> int:
        """The largest distance of a neighbour along the circle."""
        return (self.degree + 1) // 2

    def rings(self) -> Iterator[tuple[Ints, Ints]]:
        """Every pair of neighbours once, by their distance: two arrays of places, each without repeats."""
        for distance in range(1, self.reach + 1):
            pairs = self.n // 2 if 2 * distance == self.n else self.n
            yield self.order[:pairs], np.roll(self.order, -distance)[:pairs]

    @cached_property
    def table(self) -> Ints:
        """The neighbours of each client, int64 (n, degree); a neighbour's column + 1 is its Shamir point."""
        ahead = np.arange(1, self.degree + 1)
        ahead[self.reach :] += self.n - 1 - self.degree
        table = np.empty((self.n, self.degree), dtype=np.int64)
        table[self.order] = self.order[(np.arange(self.n)[:, np.newaxis] + ahead) % max(self.n, 1)]
        return table

    def groups(self, present: Bools) -> int:
        """Number of connected components among the clients present, bool (n,).

        The circle breaks where `reach` or more clients in a row are missing; one break alone leaves a line.
        """
        places = np.flatnonzero(present[self.order])
        if places.size == 0:
            return 0
        steps = np.diff(places, append=places[0] + self.n)
        return max(1, int((steps > self.reach).sum()))
