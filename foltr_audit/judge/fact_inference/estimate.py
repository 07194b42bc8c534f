"""What the messages of a trace say about one fact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from foltr_audit.privacy.noise import parse_law
from foltr_audit.trace import Fact

Surety = Literal["certain", "likely", "cannot tell"]


@dataclass(frozen=True)
class FactEstimate:
    """An estimate of one fact.

    Attributes:
        fact: its name; one that no header holds, such as `sign`, is only for the reader.
        sure: `certain` where another value could not have made these messages, but for rounding or a chance
            of less than one in a million; `likely`; or `cannot tell`, without an estimate.
        source: what was looked at, and the error of the estimate, in words.
        value: the estimate; None where nothing can be told.
        within: relative error of the number, or of the scale of the law, that it may well have.
    """

    fact: str
    sure: Surety
    source: str
    value: Fact | None = None
    within: float = 0.01

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return self.value is not None

    def agrees(self, declared: object) -> bool | None:
        """Whether a declared value is that of the estimate; None if one of them is not known."""
        if declared is None or self.value is None:
            return None
        if isinstance(declared, int | float) and isinstance(self.value, int | float):
            return math.isclose(declared, self.value, rel_tol=self.within)
        laws = [parse_law(text) if isinstance(text, str) else None for text in (declared, self.value)]
        if laws[0] is not None and laws[1] is not None:
            ratio = math.sqrt(laws[0].variance / laws[1].variance)
            return type(laws[0]) is type(laws[1]) and abs(math.log(ratio)) <= math.log1p(self.within)
        return declared == self.value


def cannot_tell(fact: str, why: str) -> FactEstimate:
    """Nothing can be told of a fact."""
    return FactEstimate(fact, "cannot tell", why)
