"""The secrets of the clients in one round, their shares, and the masks that are expanded from seeds of pairs.

All secrets come from the experiment's streams, so that the same Spec gives the same bytes. This is a
simulation: whoever knows the seed of an experiment knows its secrets.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Bools, Ints

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

# Source: Shamir 1979, "How to share a secret".

PRIME = 2**256 + 297
"""The smallest prime above 2^256: the field of the shares."""

SECRET_BYTES = 32
SHARE_BYTES = 33

_WIDE = 64  # bytes per coefficient: modulo the prime its law is uniform up to 2^-255


def polynomial(secret: bytes, threshold: int, seed: bytes) -> tuple[int, ...]:
    """Coefficients of a random polynomial of degree threshold - 1 whose value at 0 is the secret.

    Args:
        secret: 32 bytes.
        threshold: shares t that reconstruct the secret, at least 1.
        seed: of the other coefficients.

    Raises:
        UsageError: a secret of another length, or a threshold below 1.
    """
    if len(secret) != SECRET_BYTES or not threshold >= 1:
        raise UsageError(
            f"shamir: a secret of {len(secret)} bytes with threshold {threshold}; "
            f"expected {SECRET_BYTES} bytes and a threshold of 1 or more"
        )
    drawn = hashlib.shake_256(seed).digest(_WIDE * (threshold - 1))
    others = (
        int.from_bytes(drawn[first : first + _WIDE], "little") % PRIME
        for first in range(0, len(drawn), _WIDE)
    )
    return (int.from_bytes(secret, "little"), *others)


def shares(coefficients: Sequence[int], points: Sequence[int]) -> list[int]:
    """Values of a polynomial at some points: the shares of the clients there.

    Raises:
        UsageError: a point that is 0 (it would be the secret itself), or beyond the field.
    """
    _check(points)
    falling = coefficients[::-1]
    values = []
    for point in points:
        value = 0
        for coefficient in falling:  # points are small: one reduction modulo the prime is enough
            value = value * point + coefficient
        values.append(value % PRIME)
    return values


def reconstruct(held: Mapping[int, int]) -> bytes | None:
    """The secret that shares, given by point, determine; None if it is not a 256-bit number.

    Fewer shares than the threshold, or wrong ones, give another secret or None.

    Raises:
        UsageError: no share, or a point that is 0 or beyond the field.
    """
    points = tuple(held)
    if not points:
        raise UsageError("shamir: no share; expected one or more")
    _check(points)
    pairs = zip(lagrange_weights(points), held.values(), strict=True)
    value = sum(weight * share for weight, share in pairs) % PRIME
    return value.to_bytes(SECRET_BYTES, "little") if value.bit_length() <= 8 * SECRET_BYTES else None


@lru_cache(maxsize=4096)
def lagrange_weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """The weight of each point's value in the value at 0, modulo the prime."""
    tops, bottoms = [], []
    for own in points:
        top = bottom = 1
        for other in points:
            if other != own:
                top *= other
                bottom *= other - own
        tops.append(top)
        bottoms.append(bottom)
    return tuple(top * pow(bottom, -1, PRIME) % PRIME for top, bottom in zip(tops, bottoms, strict=True))


def _check(points: Sequence[int]) -> None:
    if not all(0 < point < PRIME for point in points):
        raise UsageError("shamir: a point is 0 or beyond the field; expected 1 or more")


Agreement = Literal["none", "x25519"]
"""How a pair gets its seed: by a keyed hash of both public keys, or by key agreement on Curve25519."""

SEED_BYTES = 32
PUBLIC_KEY_BYTES = 32

_PAIR = b"foltr-audit/secure-aggregation/pair"


@dataclass(frozen=True)
class ClientSecrets:
    """Named 256-bit secrets of the clients in one round.

    Attributes:
        streams: their key, purpose and round name the secrets.
    """

    streams: ClientStreams

    @cached_property
    def _key(self) -> bytes:
        return self.streams.key.to_bytes(8, "little")

    def secret(self, name: str, client: int) -> bytes:
        """A client's secret, 32 bytes."""
        return self.streams.secret(name, client)

    def private_key(self, private: bytes, agreement: Agreement) -> PrivateKey:
        """The key pair of 32 private bytes."""
        return CurveKey(private) if agreement == "x25519" else HashKey(private, self._key)


@dataclass(frozen=True)
class HashKey:
    """A stand-in for a key pair: fast, but no secret from whoever knows the experiment's key.

    The seed of a pair still depends on the private keys of both, so recovery needs the right private key.

    Attributes:
        private: 32 bytes.
        key: of the experiment.
    """

    private: bytes
    key: bytes

    @cached_property
    def public(self) -> bytes:
        """A keyed hash of the private key, 32 bytes."""
        return hashlib.blake2b(
            self.private, key=self.key, person=b"public", digest_size=PUBLIC_KEY_BYTES
        ).digest()

    def seed(self, other: bytes) -> bytes:
        """A keyed hash of both public keys, the smaller one first."""
        own = self.public
        both = own + other if own < other else other + own
        return hashlib.blake2b(both, key=self.key, person=b"pair", digest_size=SEED_BYTES).digest()


@dataclass(frozen=True)
class CurveKey:
    """A key pair on Curve25519; seeds by HKDF-SHA256 of the agreed secret.

    Source: RFC 7748 (X25519) and RFC 5869 (HKDF).

    Attributes:
        private: 32 bytes.
    """

    private: bytes

    @cached_property
    def _loaded(self) -> X25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return X25519PrivateKey.from_private_bytes(self.private)

    @cached_property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._loaded.public_key().public_bytes_raw()

    def seed(self, other: bytes) -> bytes:
        """The seed shared with the owner of another public key, 32 bytes."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        agreed = self._loaded.exchange(X25519PublicKey.from_public_bytes(other))
        return HKDF(algorithm=SHA256(), length=SEED_BYTES, salt=None, info=_PAIR).derive(agreed)


def bound_seed(seed: bytes, digest: bytes) -> bytes:
    """The seed of a pair, bound to the digest of what a client received; an empty digest leaves it as it is.

    Both of a pair make the same mask only if they received the same.

    Source: Pasquini, Francati & Ateniese 2022, "Eluding secure aggregation in federated learning via model
    inconsistency", section 6.
    """
    if not digest:
        return seed
    return hashlib.blake2b(seed, key=digest, person=b"received", digest_size=SEED_BYTES).digest()


PrivateKey = HashKey | CurveKey
"""One client's private key: with another's public key it gives the seed that both share."""


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
