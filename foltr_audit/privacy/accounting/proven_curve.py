"""The trade-off curve that is proven for a chain of defenses: its bounds at all deltas together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from foltr_audit.privacy.accounting.bound import upper_bound
from foltr_audit.privacy.accounting.situation import AccountingContext
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
