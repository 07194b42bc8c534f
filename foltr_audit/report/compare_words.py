"""What every form of a comparison says of its values: sentences that terminal and page share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from foltr_audit.report.base import Row

FRONT = (
    "no other row is as good in both and better in one, by the values alone, whatever their intervals; an "
    "AUC below .5 counts as .5, and values that are equal in three digits are equal"
)
"""What the front is."""

CHOSEN = "chosen on the lists that it is shown on, so a little high"
"""What the values of the best attack are."""

FIXED = "over queries, with the trained models held fixed (repetitions are averaged first)"
"""What the intervals and p-values of offline nDCG@10 are over."""


def verdict_text(row: Row) -> str:
    """The verdict on a claim; `no claim` where nothing is claimed, since that is no merit.

    >>> verdict_text({"eps_claimed": math.inf, "verdict": "not refuted"})
    'no claim'
    """
    return "no claim" if math.isinf(row["eps_claimed"]) else str(row["verdict"])


def measured(confidence: float) -> str:
    """What a measured epsilon is.

    Args:
        confidence: of each, e.g. .95.
    """
    return f"each at {100 * confidence:g} % confidence, not corrected for several claims"


def evaluated_part(rows: Sequence[Row]) -> str:
    """Which queries the offline nDCG@10 of some results is of."""
    return " or ".join(dict.fromkeys(str(row["evaluated_on"]) for row in rows))


def claimed_delta(row: Row) -> str:
    """`delta 1e-05`, the largest of the views that were audited; empty where it is 0, or not audited.

    >>> claimed_delta({"delta": 1e-5}), claimed_delta({"delta_individual": 0.0})
    ('delta 1e-05', '')
    """
    delta = max((value for name, value in row.items() if name.split("_")[0] == "delta"), default=0.0)
    return f"delta {delta:g}" if delta else ""
