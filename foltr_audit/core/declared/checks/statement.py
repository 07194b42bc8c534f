"""What a claim says: whether it can be understood, whether its delta means something, and said only once."""

from __future__ import annotations

from collections.abc import Iterator

from foltr_audit.core.declared.declared_system import DeclaredSystem
from foltr_audit.core.declared.findings import DeclarationFinding, digits

_PARTS = {
    "unit": "what neighbouring inputs differ in",
    "relation": "whether a unit is replaced, or added or removed",
    "view": "who looks",
    "covers": "one round or the run",
}
"""What every claim has to say besides its numbers."""


def statement(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Claims that leave out what their epsilon is about."""
    for claim in system.claims:
        missing = [name for name in _PARTS if getattr(claim, name) is None]
        if missing:
            yield DeclarationFinding(
                check="statement",
                severity="warning",
                field="claim",
                declared=f"epsilon {digits(claim.epsilon)}",
                follows=f"the claim does not say {', '.join(f'{name} ({_PARTS[name]})' for name in missing)}",
                right=None,
                mend="an epsilon means something only together with these",
            )


def delta(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """A delta so large that publishing everything of one client, drawn at random, would satisfy it."""
    n = system.clients or system.cohort
    for claimed in dict.fromkeys(claim.delta for claim in system.claims):
        if n is not None and claimed >= 1.0 / n:
            yield DeclarationFinding(
                check="delta",
                severity="warning",
                field="claim.delta",
                declared=f"delta {claimed:g}",
                follows=f"delta {claimed:g} is not below 1/n = {1.0 / n:.3g} of {n} clients: a system that "
                "publishes all data of one client, drawn at random, satisfies it",
                right=1.0 / n,
                mend=f"take a delta far below {1.0 / n:.3g}",
            )


def restated(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """What is declared twice, and differently."""
    for one in system.restated:
        yield DeclarationFinding(
            check="restated",
            severity="error",
            field=one.field,
            declared=one.said,
            follows=f"{one.field} says {one.said}, but {one.elsewhere}",
            right=None,
            mend="declare what the clients run",
        )
