"""Claims compared with the bound that accounting proves, where everything that it needs is declared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from foltr_audit.core.declared.declared_system import DeclaredClaim, DeclaredSystem
from foltr_audit.core.declared.figures import is_proven, proven, weights_known
from foltr_audit.core.declared.findings import DeclarationFinding, digits
from foltr_audit.privacy.accounting import UpperBound


class _Statement(NamedTuple):
    """What several claims have in common that differ in their view only."""

    name: str
    epsilon: float
    delta: float
    unit: str | None
    covers: str | None


def proof(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Each claim that is not proven, with all views in which it is not."""
    found: dict[_Statement, dict[str, UpperBound]] = {}
    for claim in system.claims:
        bound = proven(system, claim)
        if bound is not None and not is_proven(system, claim):
            key = _Statement(claim.name, claim.epsilon, claim.delta, claim.unit, claim.covers)
            found.setdefault(key, {})[claim.view or ""] = bound
    for statement, bounds in found.items():
        yield _of_statement(statement, bounds)


def _of_statement(claim: _Statement, bounds: dict[str, UpperBound]) -> DeclarationFinding:
    views: dict[str, list[str]] = {}
    for view, bound in bounds.items():
        finite = math.isfinite(bound.epsilon)
        what = f"epsilon {digits(bound.epsilon)} is proven" if finite else f"nothing is proven ({bound.how})"
        views.setdefault(what, []).append(view)
    parts = [f"in view {' and '.join(names)} {what}" for what, names in views.items()]
    worst = max(bound.epsilon for bound in bounds.values())
    at = f" at delta {claim.delta:g}" if claim.delta > 0 else ""
    of = f"epsilon {digits(claim.epsilon)}{at} for one {claim.unit}"
    return DeclarationFinding(
        check="proof",
        severity="error",
        field=claim.name,
        declared=of,
        follows=f"{of} does not follow: {'; '.join(parts)}",
        right=worst if math.isfinite(worst) else None,
        mend="claim what is proven, or let calibrate compute the noise that proves the claim",
    )


def why_not(system: DeclaredSystem, claim: DeclaredClaim) -> str | None:
    """What would have to be declared as well before a claim can be compared with a proof; None if nothing."""
    needed = {
        "everything that happens to a message": system.complete,
        "message.parameters": system.parameters,
        "clients.per_round": system.cohort,
        "claim.unit": claim.unit,
        "claim.view": claim.view,
        "how far the weights of clients differ": weights_known(system, claim.view or ""),
        "run.rounds": claim.covers != "run" or system.rounds,
    }
    missing = [name for name, value in needed.items() if not value]
    return ", ".join(missing) or None
