"""The verdict on a claim from its claimed, proven, exact and measured epsilon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from foltr_audit.core.results import Verdict
from foltr_audit.errors import ContradictionError

BROKEN: Verdict = "declared law broken"
"""No proof holds: a link does less than it declares."""

FALSE: tuple[Verdict, ...] = ("false by exact loss", "refuted", BROKEN)
"""Verdicts that a claim does not survive."""

CONTRADICTION: Verdict = "contradiction"
"""Proof and trials, or proof and exact loss, cannot both be right: there is no verdict on the claim."""

STRICT = 1e-6
"""Probability, at most, that trials contradict a correct proof."""

_SLACK = 1e-9  # relative: two ways to compute the same number may differ by rounding
_EXACT_SLACK = 1e-6  # the same of a loss that is added up over many coordinates


def verdict_on(
    *,
    claimed: float,
    proven: float,
    measured: float,
    exact: float | None = None,
    strict: float = 0.0,
    differs: str = "",
    broken: str = "",
    worst_case: bool = True,
    believed: Sequence[str] = (),
) -> tuple[Verdict, str]:
    """The verdict on a claim, and why, in words.

    By chance, trials of a proven claim sometimes show more than is proven: that refutes nothing. If they do
    so at a much stricter level, or if the exact loss of a pair is above the proof, then accounting, audit or
    a declaration is wrong, and there is no verdict on the claim.

    Args:
        claimed: the claimed epsilon; infinite if there is no claim.
        proven: upper bound; infinite where nothing is proven.
        measured: lower bound of the trials at the protocol's confidence.
        exact: the loss of the pair that was played, where it is known.
        strict: the bound of the trials at a confidence of 1 - `STRICT`.
        differs: how rounds of training differ from the game that was played; empty where they do not.
        broken: why a link does not do what it declares; empty where none is known not to.
        worst_case: the pair was searched for, so that a game that refutes nothing is evidence for the claim.
        believed: the links of others than foltr-audit, whose declarations a proof rests on.

    >>> verdict_on(claimed=1.2, proven=8.1, exact=2.0, measured=1.1, strict=0.6)[0]
    'false by exact loss'
    """
    if differs:
        return CONTRADICTION, differs
    if exact is not None and exact > proven * (1 + _EXACT_SLACK) + _SLACK:
        why = f"this pair has a loss of {exact:.3g}, and {proven:.3g} is proven for every pair"
        return CONTRADICTION, why
    if strict > proven * (1 + _SLACK):
        return CONTRADICTION, (
            f"these trials show {strict:.3g} at least, but for one run in a million, and {proven:.3g} is "
            "proven; run again with another --seed"
        )
    edge = claimed * (1 + _SLACK)
    if is_proven(claimed, proven):
        do, they = ("do", "they declare") if len(believed) > 1 else ("does", "it declares")
        condition = f" if {' and '.join(believed)} {do} in all rounds what {they}" if believed else ""
        chance = (
            f"; these trials show {measured:.3g} at least, by chance or by a fault: run again with another "
        )
        return "proven", f"proven up to {proven:.3g}{condition}" + (
            f"{chance}--seed" if measured > edge else ""
        )
    if measured > edge:
        return "refuted", f"these trials show {measured:.3g} at least"
    if exact is not None and exact > edge:
        loss = "no finite loss" if math.isinf(exact) else f"a loss of {exact:.3g}"
        return "false by exact loss", f"not refuted by these trials, but this very pair has {loss}"
    if broken:
        return BROKEN, f"no proof holds, since a link does less than it declares ({broken})"
    if math.isinf(claimed):
        return "not refuted", "nothing is claimed"
    if not worst_case:
        return "not refuted", "a typical pair is no evidence for a claim, which is about the worst one"
    known = "" if exact is None else f"; this pair's exact loss is {exact:.3g}"
    return "not refuted", f"not refuted by these trials{known}; another pair may be worse"


def refuse_contradiction(claims: Iterable[Mapping[str, Any]]) -> None:
    """Raise a `ContradictionError` for the first row of a claim whose proof and findings contradict."""
    for claim in claims:
        if claim["verdict"] == CONTRADICTION:
            where = f"{claim['defense']}, {claim['sees']}, one {claim['unit']}"
            raise ContradictionError(f"audit: {where}: contradiction: {claim['why']}")


def is_proven(claimed: float, proven: float) -> bool:
    """Whether a proven bound is at or below a claim; an infinite epsilon is no claim."""
    return not math.isinf(claimed) and proven <= claimed * (1 + _SLACK)
