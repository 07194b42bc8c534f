"""Fixed-point numbers: the integers modulo 2^b that secure aggregation adds up."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats, Ints

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

    Raises:
        UsageError: bits, range or fraction out of range.
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

        Raises:
            UsageError: a weight that is negative or no integer.
        """
        values, counts = np.unique(_weights(weights), return_counts=True)
        largest = np.rint(np.ldexp(values.astype(np.float64) * self.range, self.fraction))
        if not np.all(np.isfinite(largest)):
            raise UsageError(f"{_WHO}: range {self.range:g} with weight {values.max()} is beyond float64")
        total = sum(int(one) * int(count) for one, count in zip(largest, counts, strict=True))
        return total.bit_length() + 1

    def check_sum(self, weights: ArrayLike) -> None:
        """Refuse a cohort whose sum could exceed the modulus.

        Args:
            weights: integers >= 0, shape (C,).

        Raises:
            UsageError: more bits are needed; the message gives the number.
        """
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
        self,
        values: ArrayLike,
        weights: ArrayLike,
        clients: Ints | None = None,
        *,
        summed: bool = True,
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
        factors = _weights(weights)
        if given.ndim != 2 or factors.shape != given.shape[:1]:
            raise UsageError(
                f"{_WHO}: values of shape {given.shape} with weights of shape {factors.shape}; "
                "expected (C, P) and (C,)"
            )
        self._check_range(given, np.arange(given.shape[0]) if clients is None else clients)
        self.check_sum(factors if summed else np.asarray(factors.max(initial=0))[np.newaxis])
        whole = np.rint(np.ldexp(given * factors[:, np.newaxis].astype(np.float64), self.fraction))
        return self.reduced(whole.astype(np.int64).view(np.uint64))

    def _check_range(self, values: Floats, clients: Ints) -> None:
        inside = np.abs(values) <= self.range
        if inside.all():
            return
        row, coordinate = np.argwhere(~inside)[0]
        raise UsageError(
            f"{_WHO}: client {clients[row]}, coordinate {coordinate}: {values[row, coordinate]:g}; "
            f"expected a value within +-{self.range:g}: raise the range, or clip"
        )

    def reduced(self, integers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Integers modulo 2^bits."""
        return np.asarray(integers & np.uint64((1 << self.bits) - 1))

    def signed(self, integers: NDArray[np.uint64]) -> Ints:
        """Integers modulo 2^bits as their representatives nearest to 0, int64."""
        unused = MOST_BITS - self.bits
        return np.asarray((integers << np.uint64(unused)).view(np.int64) >> np.int64(unused))

    def decode(self, integers: NDArray[np.uint64]) -> Floats:
        """The values that integers modulo 2^bits stand for, float64: exact below 2^53, else the nearest."""
        return np.asarray(np.ldexp(self.signed(integers).astype(np.float64), -self.fraction))

    def decode_sum(self, total: NDArray[np.uint64], counts: Ints) -> Floats:
        """The sum of counts (n,) times numbers that the sum of n clients' words holds, float64 (P,)."""
        del counts  # they are in the words
        return self.decode(total)

    def error_of_sum(self, total: NDArray[np.uint64], counts: Ints) -> float:
        """How far a number of `decode_sum` usually is from the sum of what clients encoded."""
        del total
        return self.error * math.sqrt(counts.size)

    def decode_messages(self, words: NDArray[np.uint64], counts: Ints) -> Floats:
        """Messages as numbers, float64 (M, P), divided by their counts (M,); with masks, noise."""
        return self.decode(words) / np.maximum(counts, 1)[:, np.newaxis]


def _weights(weights: ArrayLike) -> NDArray[np.integer]:
    given = np.asarray(weights)
    if given.dtype.kind not in "iu" or (given.size and given.min() < 0):
        raise UsageError(f"{_WHO}: weights of type {given.dtype}; expected integers, 0 or more")
    return given
