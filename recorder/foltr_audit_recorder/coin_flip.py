"""Coins for audits of recorded runs: which of two click patterns a laboratory client uses.

An audit of a trace asks whether the server can tell which of two patterns was used. That is a test of
privacy only if a fair coin chose, on which nothing else in the run depends (Steinke, Nasr and Jagielski 2023,
section 3).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Coin:
    """Two click patterns and the one that a coin chose.

    Attributes:
        patterns: the patterns, bool (2, k).
        side: the chosen one, 0 or 1.
    """

    patterns: NDArray[np.bool_]
    side: int

    @property
    def clicks(self) -> NDArray[np.bool_]:
        """The pattern that the client uses, bool (k,)."""
        return np.asarray(self.patterns[self.side], dtype=np.bool_)


def coin_flip(patterns: ArrayLike, secret: bytes | int, *label: object) -> Coin:
    """Choose one of two click patterns by a fair coin that follows from a secret.

    The coin is a bit of HMAC-SHA256 of the label. To those without the secret it is fair and independent of
    all others; the client can repeat it.

    Args:
        patterns: two click patterns of a list of k documents, (2, k).
        secret: what the client alone knows, 16 bytes or more, as from `secrets.token_bytes(32)`. A whole
            number is for laboratories: whoever can guess it knows the coins.
        *label: what makes this coin different from every other of this secret, such as the numbers of the
            node, of the round and of the list.

    Raises:
        ValueError: patterns of another shape, patterns that are equal, a short secret, or no label.
    """
    clicks = np.asarray(patterns)
    if clicks.ndim != 2 or clicks.shape[0] != 2 or not np.all((clicks == 0) | (clicks == 1)):
        raise ValueError(f"patterns have shape {clicks.shape}; expected (2, documents) of true or false")
    if np.array_equal(clicks[0], clicks[1]):
        raise ValueError("the two patterns are equal; a coin between them shows nothing")
    if not label:
        raise ValueError("expected a label, such as node, round and list: coins of one label are equal")
    key = str(secret).zfill(16).encode() if isinstance(secret, int) else secret
    if len(key) < 16:
        raise ValueError(f"the secret has {len(key)} bytes; expected 16 or more")
    digest = hmac.new(key, repr([str(part) for part in label]).encode(), hashlib.sha256).digest()
    return Coin(clicks.astype(np.bool_), digest[0] & 1)
