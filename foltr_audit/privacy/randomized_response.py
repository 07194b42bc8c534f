"""Randomised response over the v values of an online metric: its law, its epsilon, and its text.

With probability p the true value is reported, else one of the other v - 1, each with the same probability.

Source: Warner 1965, "Randomized response: a survey technique for eliminating evasive answer bias";
Kharitonov 2019, "Federated online learning to rank with evolution strategies", section 4.3.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats

_TEXT = r"metric-rr:p=([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"


@dataclass(frozen=True)
class RandomizedResponse:
    """Randomised response over v values.

    Attributes:
        p: probability of the true value, 0 to 1.
        values: number of values v, 2 or more.
    """

    p: float
    values: int

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise UsageError(f"metric-rr: p={self.p}; expected a probability from 0 to 1")
        _check_values(self.values)

    @classmethod
    def with_epsilon(cls, epsilon: float, values: int) -> RandomizedResponse:
        """The law of a given epsilon that reports the truth most often: p is 1/v or more.

        >>> round(RandomizedResponse.with_epsilon(4.5, 11).p, 2)
        0.9

        Raises:
            UsageError: a negative epsilon, or fewer than two values.
        """
        from foltr_audit.kernels.elementary import exp

        if not epsilon >= 0:
            raise UsageError(f"metric-rr: eps={epsilon}; expected a number from 0")
        _check_values(values)
        # Our own `exp` has the same bits with every C library. Reports are drawn by comparing with p, so a
        # last digit of it could change a run.
        return cls(1.0 / (1.0 + (values - 1) * exp(-epsilon)), values)

    @classmethod
    def parse(cls, text: str, values: int) -> RandomizedResponse | None:
        """The law that a text names (`none`: always the truth), or None where it names no law of this kind.

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
        """The law as text, which `parse` reads back, e.g. `metric-rr:p=0.25`."""
        # Seventeen digits give back the same float64. Fewer are used where they do so too.
        return f"metric-rr:p={self.p:.17g}" if float(f"{self.p:g}") != self.p else f"metric-rr:p={self.p:g}"

    @property
    def matrix(self) -> Floats:
        """P(reported | true), float64 (v, v) with a row per true value."""
        matrix = np.full((self.values, self.values), (1.0 - self.p) / (self.values - 1))
        np.fill_diagonal(matrix, self.p)
        return matrix

    @property
    def epsilon(self) -> float:
        """`|ln(p (v - 1) / (1 - p))|`: the largest log ratio of a report under two true values.

        Infinite for p = 1, where a report rules out all other values, and for p = 0, where it rules out the
        reported one (of two values that reveals the other).

        >>> [round(RandomizedResponse(p, 11).epsilon, 3) for p in (0.25, 0.5, 0.9)]
        [1.204, 2.303, 4.5]
        """
        if self.p in (0.0, 1.0):
            return math.inf
        return abs(math.log(self.p) + math.log(self.values - 1) - math.log1p(-self.p))


def compose_epsilon(epsilon: float, interactions: int) -> float:
    """The epsilon of a message of several interactions of the same epsilon: their sum.

    Source: Dwork & Roth 2014, "The algorithmic foundations of differential privacy", theorem 3.16.

    >>> compose_epsilon(1.5, 4), compose_epsilon(float("inf"), 0)
    (6.0, 0.0)

    Raises:
        UsageError: a negative number.
    """
    if not epsilon >= 0 or not interactions >= 0:
        raise UsageError(f"metric-rr: eps={epsilon} for {interactions} interactions; expected numbers from 0")
    # An infinite epsilon times 0 interactions would be NaN.
    return interactions * epsilon if interactions else 0.0


def _check_values(values: int) -> None:
    if not values >= 2:
        raise UsageError(f"metric-rr: {values} values; expected 2 or more")
