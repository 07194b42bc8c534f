"""Randomised response over the v values of an online metric: its law, its epsilon, and its text.

A value is one of v. With probability p its true one is reported, else one of the other v - 1, all alike.

Source: Warner 1965, "Randomized response: a survey technique for eliminating evasive answer bias";
Kharitonov 2019, "Federated online learning to rank with evolution strategies", section 4.3.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError

_TEXT = r"metric-rr:p=([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"


@dataclass(frozen=True)
class RandomizedResponse:
    """What is reported of one of v values.

    Attributes:
        p: probability of the true value, 0 to 1.
        values: number of values v, 2 or more.

    Raises:
        UsageError: a value out of range.
    """

    p: float
    values: int

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise UsageError(f"metric-rr: p={self.p}; expected a probability from 0 to 1")
        _expect_values(self.values)

    @classmethod
    def with_epsilon(cls, epsilon: float, values: int) -> RandomizedResponse:
        """The one that has some epsilon and tells the truth most often.

        Raises:
            UsageError: a value out of range.
        """
        return cls(p_of(epsilon, values), values)

    @classmethod
    def parse(cls, text: str, values: int) -> RandomizedResponse | None:
        """The law that a text names, `none` for the truth, or None where it names no law of this kind.

        >>> RandomizedResponse.parse("metric-rr:p=0.25", 11)
        RandomizedResponse(p=0.25, values=11)
        """
        match = re.fullmatch(_TEXT, text)
        if match is None:
            return cls(1.0, values) if text == "none" else None
        p = float(match.group(1))
        return cls(p, values) if p <= 1 else None

    @property
    def text(self) -> str:
        """What reads back as the same law, e.g. `metric-rr:p=0.25`."""
        return f"metric-rr:p={self.p:.17g}" if float(f"{self.p:g}") != self.p else f"metric-rr:p={self.p:g}"

    @property
    def matrix(self) -> NDArray[np.float64]:
        """P(reported | true), float64 (v, v) with a row per true value."""
        matrix = np.full((self.values, self.values), (1.0 - self.p) / (self.values - 1))
        np.fill_diagonal(matrix, self.p)
        return matrix

    @property
    def epsilon(self) -> float:
        """`|ln(p (v - 1) / (1 - p))|`: the largest log ratio of a report under two true values.

        Infinite for p = 1, which rules out all other values, and for p = 0, which rules out the reported one
        (of two values that tells the other).

        >>> [round(RandomizedResponse(p, 11).epsilon, 3) for p in (0.25, 0.5, 0.9)]
        [1.204, 2.303, 4.5]
        """
        if self.p in (0.0, 1.0):
            return math.inf
        return abs(math.log(self.p) + math.log(self.values - 1) - math.log1p(-self.p))


def p_of(epsilon: float, values: int) -> float:
    """The probability of the truth, 1/v or more, that has some epsilon; 1 for an infinite one.

    >>> round(p_of(4.5, 11), 2), p_of(float("inf"), 11)
    (0.9, 1.0)

    Raises:
        UsageError: a negative epsilon, or fewer than two values.
    """
    from foltr_audit.kernels.elementary import exp

    if not epsilon >= 0:
        raise UsageError(f"metric-rr: eps={epsilon}; expected a number from 0")
    return 1.0 / (1.0 + (_expect_values(values) - 1) * exp(-epsilon))


def composed(epsilon: float, interactions: int) -> float:
    """The epsilon of a message of so many interactions that each have one: their sum.

    Source: Dwork & Roth 2014, "The algorithmic foundations of differential privacy", theorem 3.16.

    >>> composed(1.5, 4), composed(float("inf"), 0)
    (6.0, 0.0)

    Raises:
        UsageError: a negative number.
    """
    if not epsilon >= 0 or not interactions >= 0:
        raise UsageError(f"metric-rr: eps={epsilon} for {interactions} interactions; expected numbers from 0")
    return interactions * epsilon if interactions else 0.0


def _expect_values(values: int) -> int:
    if not values >= 2:
        raise UsageError(f"metric-rr: {values} values; expected 2 or more")
    return values
