"""The secrets of the clients in one round, the seeds that pairs agree on, and the shares of secrets.

All secrets come from the experiment's streams, so that the same Spec gives the same bytes. This is a
simulation: whoever knows the seed of an experiment knows its secrets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

from foltr_audit.errors import UsageError
from foltr_audit.rng import ClientStreams

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

# --- shares of secrets -----------------------------------------------------------------------------
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


# --- secrets, and the seeds of pairs ---------------------------------------------------------------

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
        text = f"{self.streams.purpose}/{name}/{self.streams.round}/{client}"
        return hashlib.blake2b(text.encode(), key=self._key, digest_size=SEED_BYTES).digest()

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
