"""What is proven for one situation, as a bound and as the most that any attack can reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from foltr_audit.privacy.accounting.bound import upper_bound
from foltr_audit.privacy.accounting.proven_curve import trade_off
from foltr_audit.privacy.accounting.situation import AccountingContext, UpperBound
from foltr_audit.privacy.events import PrivacyEvent
from foltr_audit.privacy.tradeoff import TradeOff

_NEARLY = 1.01  # a pure epsilon that is larger by no more than this is preferred


@dataclass(frozen=True, kw_only=True, eq=False)
class ProvenPromise:
    """A proof for one observer and one unit.

    Attributes:
        situation: what it is for.
        upper: the proven epsilon, pure or at the delta of the situation.
        curve: the largest power of any test.
    """

    situation: AccountingContext
    upper: UpperBound
    curve: TradeOff

    @classmethod
    def of(cls, events: Sequence[PrivacyEvent], situation: AccountingContext, delta: float) -> Self:
        """What the events of a chain promise; `delta` is that of the epsilon, the curve has all deltas."""
        there = replace(situation, delta=delta)
        upper, pure = upper_bound(events, there), upper_bound(events, replace(situation, delta=0.0))
        if pure.epsilon <= upper.epsilon * _NEARLY:
            upper = pure  # easier to read, and as small
        curve = trade_off(events, there) if math.isfinite(upper.epsilon) else TradeOff.of_bounds([])
        return cls(situation=there, upper=upper, curve=curve)

    @property
    def known(self) -> bool:
        """Whether anything is proven."""
        return math.isfinite(self.upper.epsilon)
