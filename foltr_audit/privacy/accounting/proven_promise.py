"""What is proven for one situation, as a bound and as the most that any attack can reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

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
    def of(cls, events: Sequence[PrivacyEvent], situation: AccountingContext, delta: float) -> ProvenPromise:
        """What the events of a chain promise; `delta` is that of the epsilon, the curve has all deltas."""
        return _promised(tuple(events), replace(situation, delta=delta))

    @property
    def known(self) -> bool:
        """Whether anything is proven."""
        return math.isfinite(self.upper.epsilon)


@lru_cache(maxsize=256)  # the same for all repetitions of a chain, and for all users that are attacked
def _promised(events: tuple[PrivacyEvent, ...], situation: AccountingContext) -> ProvenPromise:
    upper, pure = upper_bound(events, situation), upper_bound(events, replace(situation, delta=0.0))
    if pure.epsilon <= upper.epsilon * _NEARLY:
        upper = pure  # easier to read, and as small
    curve = trade_off(events, situation) if math.isfinite(upper.epsilon) else TradeOff.of_bounds([])
    return ProvenPromise(situation=situation, upper=upper, curve=curve)
