"""How Flower's SecAgg+ turns weighted numbers into integers: clipped, shifted, scaled and rounded."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats, Ints

MOST_BITS = 64


@dataclass(frozen=True, kw_only=True)
class OffsetEncoding:
    """A weight and weighted numbers as integers modulo 2^modulus_bits.

    With q = round(weight / max_weight * quantization_range), a client sends q, and for each number x the
    integer nearest (at random up or down) to `(clip(x q / quantization_range) + c) * quantization_range /
    (2 c)`, where c is `clipping_range`. Sums of n such vectors hold n times the shift c.

    Source: Bell et al. 2020, "Secure single-server aggregation with (poly)logarithmic overhead" (SecAgg+);
    the encoding is that of Flower 1.41 (`flwr.common.secure_aggregation.quantization`).

    Attributes:
        clipping_range: largest absolute value c of a weighted number.
        quantization_range: number of steps between -c and c.
        modulus_bits: width of the integers, 1 to 64.
        max_weight: weight that stands for the share 1.

    Raises:
        UsageError: a number out of range.
    """

    clipping_range: float
    quantization_range: int
    modulus_bits: int
    max_weight: float

    def __post_init__(self) -> None:
        if not 1 <= self.modulus_bits <= MOST_BITS:
            raise UsageError(f"modulus_bits is {self.modulus_bits}, expected 1 to {MOST_BITS}")
        if not 1 <= self.quantization_range < 2**self.modulus_bits:
            raise UsageError(
                f"quantization_range is {self.quantization_range}, expected less than 2^{self.modulus_bits}"
            )
        for name in ("clipping_range", "max_weight"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} is {getattr(self, name)}, expected a number above 0")

    @property
    def bits(self) -> int:
        """Width of the integers."""
        return self.modulus_bits

    @property
    def error(self) -> float:
        """Largest error of one client's weighted number: a step."""
        return 2.0 * self.clipping_range / self.quantization_range

    def decode(self, words: NDArray[np.uint64], clients: int = 1) -> Floats:
        """The mean that the words of one client, or the sum of several, stand for; float64 (..., P).

        Args:
            words: the weight word, then those of the P numbers, (..., 1 + P).
            clients: number of clients whose words were added up.
        """
        shares = words[..., :1].astype(np.float64) / self.quantization_range
        weighted = words[..., 1:].astype(np.float64) * self.error - clients * self.clipping_range
        return np.divide(weighted, shares, out=np.zeros_like(weighted), where=shares > 0)

    def decode_sum(self, total: NDArray[np.uint64], counts: Ints) -> Floats:
        """The sum of counts (n,) times numbers that the sum of n clients' words holds, float64 (P,)."""
        return float(counts.sum()) * self.decode(total, counts.size)

    def error_of_sum(self, total: NDArray[np.uint64], counts: Ints) -> float:
        """How far a number of `decode_sum` usually is from the sum of what clients encoded."""
        share = float(total[0]) / self.quantization_range
        spread = self.error * math.sqrt(counts.size)
        return float(counts.sum()) * spread / share if share else spread

    def decode_messages(self, words: NDArray[np.uint64], counts: Ints) -> Floats:
        """Messages as numbers, float64 (M, P), whose weights travel inside; with masks, noise."""
        del counts
        return self.decode(words)
