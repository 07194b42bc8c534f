"""The trade-off curve that is proven for a chain of defenses: its bounds at all deltas together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from foltr_audit.privacy.accounting.bound import upper_bound
from foltr_audit.privacy.accounting.situation import AccountingContext
from foltr_audit.privacy.bounds import UpperBound
from foltr_audit.privacy.events import PrivacyEvent
from foltr_audit.privacy.tradeoff import TradeOff

_SMALLEST, _LARGEST = 1e-12, 0.999  # deltas
_HALVINGS = 24  # of the logarithm of delta
_GEOMETRIC, _LINEAR = 25, 50  # deltas in equal ratios, and in equal steps


def trade_off(events: Sequence[PrivacyEvent], situation: AccountingContext) -> TradeOff:
    """The largest power of any test, from the best proof at each of some 80 deltas.

    A chain is (epsilon, delta)-DP for all of them at once, so the curve is the smallest of their bounds. The
    delta of the situation plays no part.

    Args:
        events: what the chain does to a message.
        situation: what the curve is for; neighbours replace one of its units.
    """
    return _curve(tuple(events), replace(situation, delta=0.0))


@lru_cache(maxsize=256)  # candidates of one chain, repetitions and attacked users ask again
def _curve(events: tuple[PrivacyEvent, ...], situation: AccountingContext) -> TradeOff:
    def epsilon(delta: float) -> float:
        return upper_bound(events, replace(situation, delta=delta)).epsilon

    pure = epsilon(0.0)
    bounds = [] if math.isinf(pure) else [(pure, 0.0)]
    whole = _whole_delta(epsilon)
    if whole is not None:
        geometric = np.geomspace(_SMALLEST, whole, _GEOMETRIC)
        linear = np.linspace(0.0, whole, _LINEAR + 1)[1:]
        deltas = np.unique(np.concatenate([geometric, linear]))
        bounds += [(epsilon(delta), delta) for delta in deltas.tolist()]
    return TradeOff.of_bounds(bounds)


def _whole_delta(epsilon: Callable[[float], float]) -> float | None:
    """About the smallest delta at which epsilon is 0, or the largest delta; None where none is proven."""
    if math.isinf(epsilon(_LARGEST)):
        return None
    low, high = math.log(_SMALLEST), math.log(_LARGEST)
    if epsilon(_SMALLEST) == 0:
        return _SMALLEST
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if epsilon(math.exp(middle)) == 0 else (middle, high)
    return math.exp(high)


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
        return math.isfinite(self.upper.epsilon)


@lru_cache(maxsize=256)  # the same for all repetitions of a chain, and for all users that are attacked
def _promised(events: tuple[PrivacyEvent, ...], situation: AccountingContext) -> ProvenPromise:
    upper, pure = upper_bound(events, situation), upper_bound(events, replace(situation, delta=0.0))
    if pure.epsilon <= upper.epsilon * _NEARLY:
        upper = pure  # easier to read, and as small
    curve = trade_off(events, situation) if math.isfinite(upper.epsilon) else TradeOff.of_bounds([])
    return ProvenPromise(situation=situation, upper=upper, curve=curve)
