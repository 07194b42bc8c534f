"""The verdict on a claim from its claimed, proven, exact and measured epsilon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class ClaimEvidence:
    """What is known of one claim.

    Attributes:
        claimed: the claimed epsilon; infinite if there is no claim.
        proven: upper bound; infinite where nothing is proven.
        exact: the loss of the pair that was played, where it is known.
        measured: lower bound of the trials at the protocol's confidence.
        strict: the same at a confidence of 1 - `STRICT`.
        differs: how rounds of training differ from the game that was played; empty where they do not.
        broken: why a link does not do what it declares; empty where none is known not to.
        worst_case: the pair was searched for, so that a game that refutes nothing is evidence for the claim.
        believed: the links of others than foltr-audit, whose declarations a proof rests on.
    """

    claimed: float
    proven: float
    exact: float | None
    measured: float
    strict: float
    differs: str = ""
    broken: str = ""
    worst_case: bool = True
    believed: Sequence[str] = ()


def verdict_on(found: ClaimEvidence) -> tuple[Verdict, str]:
    """The verdict on a claim, and why, in words.

    By chance, trials of a proven claim sometimes show more than is proven: that refutes nothing. If they do
    so at a much stricter level, or if the exact loss of a pair is above the proof, then accounting, audit or
    a declaration is wrong, and there is no verdict on the claim.

    >>> verdict_on(ClaimEvidence(claimed=1.2, proven=8.1, exact=2.0, measured=1.1, strict=0.6))[0]
    'false by exact loss'
    """
    contradiction = _contradiction(found)
    if contradiction:
        return CONTRADICTION, contradiction
    edge = found.claimed * (1 + _SLACK)
    if is_proven(found.claimed, found.proven):
        chance = ""
        if found.measured > edge:
            chance = (
                f"; these trials show {found.measured:.3g} at least, by chance or by a fault: run again with "
                "another --seed"
            )
        do = "do" if len(found.believed) > 1 else "does"
        names = " and ".join(found.believed)
        condition = f" if {names} {do} in all rounds what {'they declare' if do == 'do' else 'it declares'}"
        return "proven", f"proven up to {found.proven:.3g}{condition if names else ''}{chance}"
    if found.measured > edge:
        return "refuted", f"these trials show {found.measured:.3g} at least"
    if found.exact is not None and found.exact > edge:
        loss = "no finite loss" if math.isinf(found.exact) else f"a loss of {found.exact:.3g}"
        return "false by exact loss", f"not refuted by these trials, but this very pair has {loss}"
    if found.broken:
        return (BROKEN, f"no proof holds, since a link does less than it declares ({found.broken})")
    if math.isinf(found.claimed):
        return "not refuted", "nothing is claimed"
    if not found.worst_case:
        return "not refuted", "a typical pair is no evidence for a claim, which is about the worst one"
    known = "" if found.exact is None else f"; this pair's exact loss is {found.exact:.3g}"
    return "not refuted", f"not refuted by these trials{known}; another pair may be worse"


def _contradiction(found: ClaimEvidence) -> str:
    """Why what is proven or played cannot be right, or empty."""
    if found.differs:
        return found.differs
    if found.exact is not None and found.exact > found.proven * (1 + _EXACT_SLACK) + _SLACK:
        return f"this pair has a loss of {found.exact:.3g}, and {found.proven:.3g} is proven for every pair"
    if found.strict > found.proven * (1 + _SLACK):
        return (
            f"these trials show {found.strict:.3g} at least, but for one run in a million, and "
            f"{found.proven:.3g} is proven; run again with another --seed"
        )
    return ""


def refuse_contradiction(claims: Iterable[Mapping[str, Any]]) -> None:
    """Raise a `ContradictionError` for the first row of a claim whose proof and findings contradict."""
    for claim in claims:
        if claim["verdict"] == CONTRADICTION:
            where = f"{claim['defense']}, {claim['sees']}, one {claim['unit']}"
            raise ContradictionError(f"audit: {where}: contradiction: {claim['why']}")


def is_proven(claimed: float, proven: float) -> bool:
    """Whether a proven bound is at or below a claim; an infinite epsilon is no claim."""
    return not math.isinf(claimed) and proven <= claimed * (1 + _SLACK)
