"""The claims of a comparison in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from foltr_audit.auditing.verdict import BROKEN, CONTRADICTION, FALSE
from foltr_audit.privacy.observer_views import sees_lists, with_article
from foltr_audit.report.results.compare_rows import ClaimRow
from foltr_audit.report.results.wording import shortened


def describe_claims(claims: Sequence[ClaimRow]) -> str:
    """How many of the checked claims are false or proven, and which."""
    claimed = [row for row in claims if not math.isinf(row.eps_claimed)]
    if not claimed:
        nothing = "No defense claims an epsilon, so there was nothing to refute."
        return nothing if claims else "No claim was checked."
    false = [row for row in claimed if row.verdict in FALSE]
    proven = [row.name for row in claimed if row.verdict == "proven"]
    rest = len(claimed) - len(false) - len(proven)
    return (
        f"Checked claims: {len(claimed)}. False: {_counted(len(false), _worst(false))}. Proven: "
        f"{_counted(len(proven), list(dict.fromkeys(proven)))}."
        + (f" Neither: {rest}; trials that refute nothing are no proof." if rest else "")
    )


def _counted(count: int, names: Sequence[str]) -> str:
    return f"{count} ({shortened(names)})" if count else "none"


def _worst(rows: Sequence[ClaimRow]) -> list[str]:
    """Each defense with a false claim once, with what the server sees where it is worst."""
    found: dict[tuple[str, str], tuple[tuple[bool, bool, float], str]] = {}
    for row in rows:
        severity, shown = _loss(row)
        text = f"{row.name}: {shown}, from {with_article(row.sees)}"
        key = (row.learner, row.name)
        if key not in found or severity > found[key][0]:
            found[key] = severity, text
    return [text for _, text in found.values()]


def _loss(row: ClaimRow) -> tuple[tuple[bool, bool, float], str]:
    """How bad a false claim is, and in words: refuted by trials is worse than by exact loss."""
    exact = row.eps_exact or 0.0
    if row.verdict == "refuted":
        return (True, math.isinf(exact), row.eps_lower or 0.0), f"at least {row.eps_lower:.3g} measured"
    text = "an infinite exact loss" if math.isinf(exact) else f"an exact loss of {exact:.3g}"
    return (False, math.isinf(exact), exact), "does less than it declares" if row.verdict == BROKEN else text


def describe_lost_proofs(claims: Sequence[ClaimRow]) -> str:
    """Which proofs fail where the server sees the shown lists too."""
    without = (row.name for row in claims if not sees_lists(row.view) and row.verdict == "proven")
    lost = {row.name for row in claims if sees_lists(row.view) and math.isinf(row.eps_upper)}
    both = [name for name in dict.fromkeys(without) if name in lost]
    if not both:
        return ""
    return (
        f"Nothing is proven of {shortened(both)} where the server sees the shown lists as well: lists after "
        "the first of a message show the clicks before them, whatever the noise on the message."
    )


def describe_contradictions(claims: Sequence[ClaimRow]) -> str:
    """Which proofs and findings cannot both be right."""
    wrong = list(dict.fromkeys(row.name for row in claims if row.verdict == CONTRADICTION))
    if not wrong:
        return ""
    return f"Proof and trials contradict each other for {shortened(wrong)}: a fault, or rare chance."
