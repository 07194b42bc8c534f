"""What a claimed, a proven, an exact and a measured epsilon say together."""

from __future__ import annotations

import math
from typing import Literal

Verdict = Literal["proven", "not refuted", "false by exact loss", "refuted"]

FALSE: tuple[Verdict, ...] = ("false by exact loss", "refuted")
"""Verdicts that a claim does not survive."""

_SLACK = 1e-9  # relative: what two ways to compute the same number may differ by


def verdict_on(
    claimed: float, proven: float, exact: float | None, measured: float, *, evidence: bool
) -> tuple[Verdict, str]:
    """The verdict on a claim, and why, in words.

    Args:
        claimed: the epsilon that is claimed; infinite for nothing.
        proven: upper bound; infinite where nothing is proven.
        exact: the loss of the pair that was played, where it is known.
        measured: lower bound of the trials.
        evidence: whether a game that refutes nothing says something for the claim.

    >>> verdict_on(1.2, 8.1, 2.0, 1.1, evidence=True)[0]
    'false by exact loss'
    """
    edge = claimed * (1 + _SLACK)
    if math.isinf(claimed):
        return "not refuted", "nothing is claimed"
    if measured > edge:
        return "refuted", f"these trials show {measured:.3g} at least"
    if exact is not None and exact > edge:
        loss = "no finite loss" if math.isinf(exact) else f"a loss of {exact:.3g}"
        return "false by exact loss", f"not refuted by these trials, but this very pair has {loss}"
    if is_proven(claimed, proven):
        return "proven", f"proven up to {proven:.3g}"
    if not evidence:
        return "not refuted", "a typical pair is no evidence for a claim, which is about the worst one"
    known = "" if exact is None else f"; this pair's exact loss is {exact:.3g}"
    return "not refuted", f"not refuted by these trials{known}; another pair may be worse"


def is_proven(claimed: float, proven: float) -> bool:
    """Whether a proven bound is at or below a claim; a claim of infinity claims nothing."""
    return not math.isinf(claimed) and proven <= claimed * (1 + _SLACK)
