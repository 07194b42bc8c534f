"""The secrets of the clients in one round, and the seeds that pairs of clients agree on.

All secrets come from the experiment's streams, so that the same Spec gives the same bytes. This is a
simulation: whoever knows the seed of an experiment knows its secrets.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from foltr_audit.rng import ClientStreams

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

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
