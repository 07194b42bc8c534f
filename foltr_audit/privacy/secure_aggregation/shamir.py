"""Secret sharing: any t of k shares reconstruct a secret, fewer reveal nothing of it.

Source: Shamir 1979, "How to share a secret".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

from foltr_audit.errors import UsageError

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
