"""How secure aggregation turns numbers into integers modulo 2^b: ours, and that of SecAgg+ in Flower."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats, Ints, Weights

FEWEST_BITS, MOST_BITS = 16, 64
"""Widths b that an encoding may have: its integers travel as uint64."""

_WHO = "secure-aggregation"


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """Multiples of 2^-fraction, as signed integers modulo 2^bits.

    A client with weight w sends the integer nearest to `w x 2^fraction` (ties to even). The error of w x is
    at most 2^-(fraction + 1), in addition to the rounding of w x in float64 (none for w = 1). Multiples of
    2^-fraction are exact while w x 2^fraction is below 2^53. Overflow raises an error.

    Attributes:
        bits: width b of the integers, 16 to 64.
        range: largest |x| of a coordinate before it is weighted, above 0.
        fraction: binary digits behind the point, 0 to 62.
    """

    bits: int
    range: float
    fraction: int

    def __post_init__(self) -> None:
        if not FEWEST_BITS <= self.bits <= MOST_BITS:
            raise UsageError(f"{_WHO}: bits {self.bits}; expected {FEWEST_BITS} to {MOST_BITS}")
        if not 0 < self.range < math.inf:
            raise UsageError(f"{_WHO}: range {self.range}; expected a positive number")
        if not 0 <= self.fraction < MOST_BITS - 1:
            raise UsageError(f"{_WHO}: fraction {self.fraction}; expected 0 to {MOST_BITS - 2} bits")

    @property
    def error(self) -> float:
        """Largest error of one client's weighted value, 2^-(fraction + 1)."""
        return math.ldexp(1.0, -self.fraction - 1)

    def bits_needed(self, weights: ArrayLike) -> int:
        """The width that holds the sum of these clients' weighted values, whatever the values are.

        Args:
            weights: integers >= 0, shape (C,).
        """
        values, counts = np.unique(weights, return_counts=True)
        largest = np.rint(np.ldexp(values.astype(np.float64) * self.range, self.fraction))
        if not np.all(np.isfinite(largest)):
            raise UsageError(f"{_WHO}: range {self.range:g} with weight {values.max()} is beyond float64")
        total = sum(int(one) * int(count) for one, count in zip(largest, counts, strict=True))
        return total.bit_length() + 1

    def check_sum(self, weights: ArrayLike) -> None:
        """Refuse a cohort whose sum could exceed the modulus, by its weights (C,)."""
        needed = self.bits_needed(weights)
        if needed <= self.bits:
            return
        remedy = f"expected bits={needed}"
        if needed > MOST_BITS:
            remedy = f"{needed} are needed, at most {MOST_BITS} are possible: lower the range or the fraction"
        raise UsageError(
            f"{_WHO}: bits {self.bits} do not hold a sum of {np.size(weights)} clients (weights up to "
            f"{np.max(weights)}) within +-{self.range:g} with {self.fraction} fraction bits; {remedy}"
        )

    def encode(
        self, values: ArrayLike, weights: Weights, clients: Ints | None = None, *, summed: bool = True
    ) -> NDArray[np.uint64]:
        """Weighted values as integers modulo 2^bits, uint64 (C, P).

        Args:
            values: float32 or float64, shape (C, P).
            weights: integers >= 0, shape (C,).
            clients: ids that an error names, shape (C,); row numbers without it.
            summed: whether their sum must fit, not only each of them.

        Raises:
            UsageError: a value outside the range (such as NaN and infinity), or a sum that may overflow.
        """
        given = np.asarray(values, dtype=np.float64)
        inside = np.abs(given) <= self.range
        if not inside.all():
            row, coordinate = np.argwhere(~inside)[0]
            raise UsageError(
                f"{_WHO}: client {row if clients is None else clients[row]}, coordinate {coordinate}: "
                f"{given[row, coordinate]:g}; expected a value within +-{self.range:g}: raise the range, "
                "or clip"
            )
        self.check_sum(weights if summed else [weights.max(initial=0)])
        whole = np.rint(np.ldexp(given * weights[:, np.newaxis].astype(np.float64), self.fraction))
        return self.reduced(whole.astype(np.int64).view(np.uint64))

    def reduced(self, integers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return np.asarray(integers & np.uint64((1 << self.bits) - 1))

    def signed(self, integers: NDArray[np.uint64]) -> Ints:
        """Integers modulo 2^bits as their representatives nearest to 0, int64."""
        unused = MOST_BITS - self.bits
        return np.asarray((integers << np.uint64(unused)).view(np.int64) >> np.int64(unused))

    def decode(self, integers: NDArray[np.uint64]) -> Floats:
        """The values that integers modulo 2^bits stand for, float64: exact below 2^53, else the nearest."""
        return np.asarray(np.ldexp(self.signed(integers).astype(np.float64), -self.fraction))

    def decode_sum(self, total: NDArray[np.uint64], counts: Weights) -> Floats:
        """The sum of counts (n,) times numbers that the sum of n clients' words holds, float64 (P,)."""
        del counts  # they are in the words
        return self.decode(total)

    def error_of_sum(self, total: NDArray[np.uint64], counts: Weights) -> float:
        """How far a number of `decode_sum` usually is from the sum of what clients encoded."""
        del total
        return self.error * math.sqrt(counts.size)

    def decode_messages(self, words: NDArray[np.uint64], counts: Weights) -> Floats:
        """Messages as numbers, float64 (M, P), divided by their counts (M,); with masks, noise."""
        return self.decode(words) / np.where(counts > 0, counts, 1)[:, np.newaxis]


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

    def decode_sum(self, total: NDArray[np.uint64], counts: Weights) -> Floats:
        """The sum of counts (n,) times numbers that the sum of n clients' words holds, float64 (P,)."""
        return float(counts.sum()) * self.decode(total, counts.size)

    def error_of_sum(self, total: NDArray[np.uint64], counts: Weights) -> float:
        """How far a number of `decode_sum` usually is from the sum of what clients encoded."""
        share = float(total[0]) / self.quantization_range
        spread = self.error * math.sqrt(counts.size)
        return float(counts.sum()) * spread / share if share else spread

    def decode_messages(self, words: NDArray[np.uint64], counts: Weights) -> Floats:
        """Messages as numbers, float64 (M, P), whose weights travel inside; with masks, noise."""
        del counts
        return self.decode(words)
