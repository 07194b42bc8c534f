"""Group privacy: what a claim for one unit says about several of them, and how many a larger unit holds."""

from __future__ import annotations

import math

from foltr_audit.core.ranking_metrics import LIST_LENGTH

_LARGEST = 700.0  # e^epsilon is still a float64


def of_group(epsilon: float, delta: float, size: float) -> tuple[float, float]:
    """Epsilon and delta for `size` units together, from those for one; infinite for infinitely many.

    Source: Vadhan 2017, "The complexity of differential privacy", lemma 2.2.
    """
    if math.isinf(size):
        return math.inf, delta
    if size == 1 or delta == 0:
        return epsilon * size, delta
    # `expm1` keeps the digits of a small epsilon; that of a large one overflows, and delta is then 1.
    large = size * epsilon > _LARGEST
    grown = math.inf if large else math.expm1(size * epsilon) / math.expm1(epsilon)
    return epsilon * size, min(1.0, grown * delta)


def group_size(claimed: str, audited: str, interactions: int) -> float:
    """How many units of the claimed kind change if one audited unit does; infinite if none cover it.

    A claim for clicks or for one query does not cover a whole client, whose queries differ too. A published
    claim for an interaction, though, is one for a whole data instance: a client learns from B of them.

    >>> group_size("click", "interaction", 4), group_size("client", "click", 4)
    (10.0, 1.0)
    """
    sizes: dict[str, dict[str, float]] = {
        "click": {"interaction": LIST_LENGTH, "query": LIST_LENGTH * interactions, "client": math.inf},
        "interaction": {"query": interactions, "client": interactions},
        "query": {"client": math.inf},
    }
    return float(sizes.get(claimed, {}).get(audited, 1))
