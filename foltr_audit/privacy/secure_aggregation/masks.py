"""Which clients mask together, and the masks: integers that are expanded from seeds and cancel in the sum."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError
from foltr_audit.privacy.secure_aggregation.keys import PrivateKey, bound_seed
from foltr_audit.utils.arrays import Bools, Ints

# --- which clients mask together -------------------------------------------------------------------
# Source: Bell, Bonawitz, Gascon, Lepoint & Raykova 2020, "Secure single-server aggregation with
# (poly)logarithmic overhead", section 3 (Harary graph of randomly permuted clients).

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


# --- masks -----------------------------------------------------------------------------------------

_WORD = 8  # bytes of an integer
_AT_ONCE = 1 << 21  # integers that are expanded at a time: 16 MiB, which bounds the memory


def expand(seeds: Sequence[bytes], size: int) -> NDArray[np.uint64]:
    """The first integers of each seed's ChaCha20 key stream, uint64 (S, size).

    Nonce and counter start at 0: a seed is used once. Integers modulo 2^b are their low b bits.

    Source: RFC 8439, "ChaCha20 and Poly1305 for IETF protocols", section 2.4.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    zeros, nonce = bytes(size * _WORD), bytes(16)
    streams = [Cipher(ChaCha20(seed, nonce), mode=None).encryptor().update(zeros) for seed in seeds]
    # The byte order is fixed, so that a seed gives the same integers on every machine.
    words = np.frombuffer(b"".join(streams), dtype="<u8").reshape(len(streams), size)
    return words.astype(np.uint64, copy=False)


def add_self_masks(out: NDArray[np.uint64], rows: Ints, seeds: Sequence[bytes]) -> None:
    """Add to each of some rows of out (C, P) the mask of its seed."""
    for part in _parts(rows.size, out.shape[1]):
        out[rows[part]] += expand(seeds[part], out.shape[1])


def sum_of_masks(seeds: Sequence[bytes], size: int, signs: Ints) -> NDArray[np.uint64]:
    """The sum of the masks of some seeds, each with its sign (+1 or -1), modulo 2^64, uint64 (size,)."""
    total = np.zeros(size, dtype=np.uint64)
    for part in _parts(len(seeds), size):
        total += (expand(seeds[part], size) * signs[part, np.newaxis].astype(np.uint64)).sum(
            axis=0, dtype=np.uint64
        )
    return total


@dataclass(frozen=True, kw_only=True, eq=False)
class PairwiseMasks:
    """The clients of a round, ready to mask in pairs.

    Attributes:
        graph: who is whose neighbour.
        clients: ids, int64 (C,); of a pair the smaller one adds the mask and the other subtracts it.
        keys: private key of each client by place; None for a client without.
        digests: of what each client received, by place; None if masks do not depend on it.
    """

    graph: MaskGraph
    clients: Ints
    keys: Sequence[PrivateKey | None]
    digests: Sequence[bytes] | None = None

    def add_masks(self, out: NDArray[np.uint64], sends: Bools) -> None:
        """Add to the rows of senders in out (C, P) all their pair masks; each mask is expanded once."""
        has = np.array([key is not None for key in self.keys], dtype=np.bool_)
        for left, right in self.graph.rings():
            used = has[left] & has[right] & (sends[left] | sends[right])
            for part in _parts(int(used.sum()), out.shape[1]):
                self._add(out, left[used][part], right[used][part])
        out[~sends] = 0

    def _add(self, out: NDArray[np.uint64], left: Ints, right: Ints) -> None:
        # A copy, since `np.frombuffer` gives memory that cannot be written, and signs change in place.
        seeds, swapped = self.seeds(left, right), self.clients[left] > self.clients[right]
        ours = self._signed(self._bound(seeds, left), swapped, out.shape[1])
        same = self.digests is None or all(
            self.digests[one] == self.digests[two]
            for one, two in zip(left.tolist(), right.tolist(), strict=True)
        )
        theirs = ours if same else self._signed(self._bound(seeds, right), swapped, out.shape[1])
        # The places of a ring do not repeat on either side; with repeats `+=` would add only one of them.
        out[left] += ours
        out[right] -= theirs

    def _signed(self, seeds: Sequence[bytes], swapped: Bools, size: int) -> NDArray[np.uint64]:
        """The masks (S, size) of seeds, negated where the right one of a pair has the smaller id."""
        masks = expand(seeds, size).copy()
        np.negative(masks, where=swapped[:, np.newaxis], out=masks)
        return masks

    def _bound(self, seeds: Sequence[bytes], places: Ints) -> Sequence[bytes]:
        """The seeds of pairs as the clients in these places use them."""
        digests = self.digests
        if digests is None:
            return seeds
        return [bound_seed(seed, digests[place]) for seed, place in zip(seeds, places.tolist(), strict=True)]

    def seeds(self, left: Ints, right: Ints) -> list[bytes]:
        """The seed of each pair of places."""
        return [
            own.seed(other.public)
            for own, other in (
                (self.keys[one], self.keys[two])
                for one, two in zip(left.tolist(), right.tolist(), strict=True)
            )
            if own is not None and other is not None
        ]


def _parts(count: int, size: int) -> Iterator[slice]:
    each = max(1, _AT_ONCE // max(size, 1))
    for first in range(0, count, each):
        yield slice(first, min(first + each, count))
