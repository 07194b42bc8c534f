"""Shamir's shares, keys of pairs of clients, the graph of neighbours, and masks expanded from seeds.

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
    """
    drawn = hashlib.shake_256(seed).digest(_WIDE * (threshold - 1))
    others = (
        int.from_bytes(drawn[first : first + _WIDE], "little") % PRIME
        for first in range(0, len(drawn), _WIDE)
    )
    return (int.from_bytes(secret, "little"), *others)


def shares(coefficients: Sequence[int], points: Sequence[int]) -> list[int]:
    """Values of a polynomial at some points from 1: the shares of the clients there."""
    values = []
    for point in points:
        value = 0
        for coefficient in coefficients[::-1]:  # points are small: one reduction modulo the prime is enough
            value = value * point + coefficient
        values.append(value % PRIME)
    return values


def reconstruct(held: Mapping[int, int]) -> bytes | None:
    """The secret that shares, given by point, determine; None if it is not a 256-bit number.

    Fewer shares than the threshold, or wrong ones, give another secret or None.
    """
    pairs = zip(lagrange_weights(tuple(held)), held.values(), strict=True)
    value = sum(weight * share for weight, share in pairs) % PRIME
    return value.to_bytes(SECRET_BYTES, "little") if value.bit_length() <= 8 * SECRET_BYTES else None


@lru_cache(maxsize=4096)
def lagrange_weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """The weight of each point's value in the value at 0, modulo the prime."""
    weights = []
    for own in points:
        others = [other for other in points if other != own]
        bottom = math.prod(other - own for other in others)
        weights.append(math.prod(others) * pow(bottom, -1, PRIME) % PRIME)
    return tuple(weights)


Agreement = Literal["none", "x25519"]
"""How a pair gets its seed: by a keyed hash of both public keys, or by key agreement on Curve25519."""

SEED_BYTES = 32
PUBLIC_KEY_BYTES = 32

_PAIR = b"foltr-audit/secure-aggregation/pair"


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
        both = b"".join(sorted((self.public, other)))
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


PrivateKey = HashKey | CurveKey
"""One client's private key: with another's public key it gives the seed that both share."""


def private_key(private: bytes, agreement: Agreement, experiment: int) -> PrivateKey:
    """The key pair of 32 private bytes, in the experiment with this key."""
    return CurveKey(private) if agreement == "x25519" else HashKey(private, experiment.to_bytes(8, "little"))


def bound_seed(seed: bytes, digest: bytes) -> bytes:
    """The seed of a pair, bound to the digest of what a client received.

    Both of a pair make the same mask only if they received the same.

    Source: Pasquini, Francati & Ateniese 2022, "Eluding secure aggregation in federated learning via model
    inconsistency", section 6.
    """
    return hashlib.blake2b(seed, key=digest, person=b"received", digest_size=SEED_BYTES).digest()


# Source: Bell, Bonawitz, Gascon, Lepoint & Raykova 2020, "Secure single-server aggregation with
# (poly)logarithmic overhead", section 3 (Harary graph of randomly permuted clients).


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


def masks_of(
    seeds: Sequence[bytes], size: int, signs: Ints | None = None
) -> Iterator[tuple[slice, NDArray[np.uint64]]]:
    """The masks of some seeds, each times its sign (+1 or -1), in parts (n, size), uint64 modulo 2^64."""
    each = max(1, _AT_ONCE // max(size, 1))
    for first in range(0, len(seeds), each):
        part = slice(first, first + each)
        masks = expand(seeds[part], size)
        yield part, masks if signs is None else masks * signs[part, np.newaxis].astype(np.uint64)


def sum_of_masks(seeds: Sequence[bytes], size: int, signs: Ints | None = None) -> NDArray[np.uint64]:
    """The sum of the masks of some seeds, each with its sign (+1 or -1), modulo 2^64, uint64 (size,)."""
    total = np.zeros(size, dtype=np.uint64)
    for _, masks in masks_of(seeds, size, signs):
        total += masks.sum(axis=0, dtype=np.uint64)
    return total
