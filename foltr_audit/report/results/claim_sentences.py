"""The claims of a comparison in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from foltr_audit.auditing.verdict import BROKEN, CONTRADICTION, FALSE
from foltr_audit.privacy.observer_views import sees_lists, with_article
from foltr_audit.report.results.compare_rows import ClaimRow
from foltr_audit.report.results.wording import counted, is_or_are, shortened


def describe_claims(claims: Sequence[ClaimRow]) -> str:
    """How many of the checked claims are false or proven, and which."""
    claimed = [row for row in claims if not math.isinf(row.eps_claimed)]
    if not claims:
        return "No claim was checked."
    if not claimed:
        return "No defense claims an epsilon, so there was nothing to refute."
    false = [row for row in claimed if row.verdict in FALSE]
    proven = [row for row in claimed if row.verdict == "proven"]
    rest = len(claimed) - len(false) - len(proven)
    which = f" ({shortened(_false(false))})" if false else ""
    names = f" ({shortened(list(dict.fromkeys(row.name for row in proven)))})" if proven else ""
    neither = (
        f", and {rest} {is_or_are(rest)} neither: trials that refute nothing are no proof" if rest else ""
    )
    return (
        f"Of {counted(len(claimed), 'checked claim')}, {len(false) or 'none'} {is_or_are(len(false))} false"
        f"{which}, {'' if rest else 'and '}{len(proven) or 'none'} {is_or_are(len(proven))} proven{names}"
        f"{neither}."
    )


def _false(rows: Sequence[ClaimRow]) -> list[str]:
    """Each defense with a false claim once, with what the server sees where it is worst."""
    found: dict[tuple[str, str], ClaimRow] = {}
    for row in rows:
        key = (row.learner, row.name)
        if key not in found or _severity(row) > _severity(found[key]):
            found[key] = row
    return [f"{row.name}: {_shown(row)}, from {with_article(row.sees)}" for row in found.values()]


def _severity(row: ClaimRow) -> tuple[bool, bool, float]:
    """Refuted is worse than false by exact loss, then an infinite loss than a finite, then more than less."""
    infinite = row.eps_exact is not None and math.isinf(row.eps_exact)
    shown = row.eps_lower if row.verdict == "refuted" else row.eps_exact
    return row.verdict == "refuted", infinite, shown or 0.0


def _shown(row: ClaimRow) -> str:
    if row.verdict == BROKEN:
        return "does less than it declares"
    if row.verdict == "refuted":
        return f"at least {row.eps_lower:.3g} measured"
    exact = row.eps_exact or 0.0
    return "an infinite exact loss" if math.isinf(exact) else f"an exact loss of {exact:.3g}"


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
