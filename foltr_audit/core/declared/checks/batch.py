"""Interactions behind a message, units of a claim, and neighbours: what the accounting assumed of each."""

from __future__ import annotations

import math
from collections.abc import Iterator

from foltr_audit.core.declared.declared_system import DeclaredClaim, DeclaredSystem
from foltr_audit.core.declared.figures import is_proven
from foltr_audit.core.declared.findings import DeclarationFinding, digits
from foltr_audit.core.group_privacy import group_size, of_group
from foltr_audit.privacy.events import UNITS, MetricRandomization
from foltr_audit.privacy.randomized_response import compose_epsilon

_LARGE_UNITS = ("query", "client")
"""Units that may be behind all interactions of a message."""


def units(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """A claim for a larger unit than the noise was computed for."""
    of = system.basis.unit
    for claim in system.claims:
        if of in UNITS and claim.unit in UNITS and of != claim.unit and not is_proven(system, claim):
            yield from _larger_unit(system, claim, of, claim.unit)


def _larger_unit(
    system: DeclaredSystem, claim: DeclaredClaim, of: str, unit: str
) -> Iterator[DeclarationFinding]:
    size = group_size(of, unit, system.interactions or 1)
    if size == 1:
        return
    epsilon, delta = of_group(claim.epsilon, claim.delta, size)
    if math.isinf(size):
        follows = f"a claim for one {of} says nothing about a {unit}, whose queries differ too"
    else:
        more = f" and delta {delta:.2g}" if claim.delta > 0 else ""
        follows = (
            f"one {unit} changes up to {size:g} {of}s, so epsilon {digits(claim.epsilon)} for one {of} is "
            f"{digits(epsilon)}{more} for a {unit}"
        )
    yield DeclarationFinding(
        check="unit",
        severity="error",
        field="claim.unit",
        declared=f"epsilon {digits(claim.epsilon)} for one {unit}",
        follows=follows,
        right=epsilon if math.isfinite(epsilon) else None,
        mend=f"claim it for one {of}, or compute the noise for a {unit}",
    )


def batch(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Another number of interactions behind a message than the accounting assumed."""
    yield from _composed(system)
    assumed, behind, of = system.basis.interactions, system.interactions, system.basis.unit
    if assumed is None or behind is None or assumed == behind:
        return
    for claim in system.claims:
        unit = claim.unit or of
        if unit is None or (of is not None and of != unit) or is_proven(system, claim):
            continue
        large = unit in _LARGE_UNITS
        if (behind > assumed) != large:
            continue
        times = behind / assumed if large else assumed / behind
        why = (
            f"a {unit} is behind {behind} interactions of a message"
            if large
            else f"one of {behind} interactions weighs 1/{behind} in their mean, not 1/{assumed}"
        )
        yield DeclarationFinding(
            check="batch",
            severity="error",
            field="accounting.interactions",
            declared=f"{assumed} interactions in a message",
            follows=f"{why}: epsilon {digits(claim.epsilon * times)}, not {digits(claim.epsilon)}",
            right=claim.epsilon * times,
            mend=f"compute the noise for {behind} interactions in a message",
        )


def _composed(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """What the randomised metrics of one message compose to."""
    behind = system.interactions or 1
    noisy = dict.fromkeys(step.name for step in system.steps if isinstance(step.event, MetricRandomization))
    for claim in system.claims if behind > 1 else ():
        if claim.name in noisy:
            whole = compose_epsilon(claim.epsilon, behind)
            yield DeclarationFinding(
                check="batch",
                severity="warning",
                field=claim.name,
                declared=f"epsilon {digits(claim.epsilon)} for one {claim.unit}",
                follows=f"epsilon {claim.epsilon:.4g} is of one {claim.unit}; "
                f"a message of {behind} composes {whole:.4g}",
                right=whole,
                mend=f"claim {digits(whole)} for a message",
            )


def relation(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Noise that was computed for adding or removing a unit, and is claimed for replacing one."""
    if system.basis.relation != "add-remove":
        return
    for claim in system.claims:
        if claim.relation == "replace-one" and not is_proven(system, claim):
            epsilon, delta = of_group(claim.epsilon, claim.delta, 2)
            more = f" and delta {delta:.2g}" if claim.delta > 0 else ""
            yield DeclarationFinding(
                check="relation",
                severity="error",
                field="claim.relation",
                declared=f"epsilon {digits(claim.epsilon)} for a replaced unit",
                follows="to replace a unit is to remove one and to add another: noise computed for one of "
                f"them gives {digits(epsilon)}{more}, not {digits(claim.epsilon)}",
                right=epsilon,
                mend="claim it for add-remove, or compute the noise from twice the sensitivity",
            )
