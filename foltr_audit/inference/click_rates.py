"""How often documents are clicked under a belief, before any message."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.records.click_belief import ClickBelief
from foltr_audit.utils.arrays import Floats

# Chances are products in several orders, which differ in their last digits. Those that agree in twelve
# digits are merged: otherwise their number would multiply with every position.
_DIGITS = 12


def cascade_rates(click: Floats, stop: Floats) -> Floats:
    """Expected clicks per client on each document, (..., k), for probabilities as in `ClickBelief`."""
    read_on = np.cumprod(1.0 - click * stop, axis=-1)
    examined = np.concatenate([np.ones_like(click[..., :1]), read_on[..., :-1]], axis=-1)
    return np.asarray(examined * click)


def median_rates(belief: ClickBelief, k: int) -> Floats:
    """The median of each position's click rate, (k,), over the unknown grades of a list.

    The median has the least mean absolute error. The chance that a position is examined is a product over
    the grades above it, in any order, so it has few different values.
    """
    grades = belief.grades[np.minimum(np.arange(k), len(belief.grades) - 1)]
    examined, chances = np.ones(1), np.ones(1)
    medians = np.empty(k)
    for j in range(k):
        weights = chances[:, np.newaxis] * grades[j]
        rates = (examined[:, np.newaxis] * belief.click).reshape(-1)
        medians[j] = weighted_median(rates, weights.reshape(-1))
        below = np.round(examined[:, np.newaxis] * (1.0 - belief.click * belief.stop), _DIGITS)
        examined, place = np.unique(below.reshape(-1), return_inverse=True)
        chances = np.zeros(examined.size)
        np.add.at(chances, place.reshape(-1), weights.reshape(-1))
    return medians


def weighted_median(values: Floats, weights: Floats) -> float:
    """The smallest value such that it and all smaller values have at least half of the weight."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, 0.5 * total[-1])])
