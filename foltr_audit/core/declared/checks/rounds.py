"""Rounds and samples of clients: an epsilon of a few rounds sold as that of a run, and amplification."""

from __future__ import annotations

import math
from collections.abc import Iterator

from foltr_audit.core.declared.declared_system import DeclaredClaim, DeclaredSystem
from foltr_audit.core.declared.figures import ROUNDING, TOLERANCE, is_proven, over_distance, proven
from foltr_audit.core.declared.findings import DeclarationFinding, digits

_ONE_ROUND = ("click", "interaction")
"""Units that are part of one round only."""


def rounds(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """A claim about a run whose rounds were not all counted."""
    for claim in system.claims:
        counted, every = _counted(system, claim), system.turns
        if claim.covers != "run" or claim.unit in _ONE_ROUND or every is None or counted is None:
            continue
        if counted < every and not is_proven(system, claim):
            yield _too_few(system, claim, counted, every)


def _counted(system: DeclaredSystem, claim: DeclaredClaim) -> int | None:
    """How many rounds a claim accounts for; 1 if one round costs as much; None if it is not declared."""
    if system.basis.rounds is not None:
        return system.basis.rounds
    one = system.basis.epsilon
    if one is None:
        laws = [(step.whole, step.sensitivity) for step in system.noises]
        found = [
            over_distance(law, distance, claim.delta)
            for law, distance in laws
            if law is not None and distance is not None and law.grid == 0
        ]
        one = min(found, default=None)
    return 1 if one is not None and claim.epsilon <= one * (1.0 + TOLERANCE) else None


def _too_few(system: DeclaredSystem, claim: DeclaredClaim, counted: int, every: int) -> DeclarationFinding:
    plain = claim.epsilon * every / counted
    bound = proven(system, claim)
    all_rounds = f"{every} rounds" + (" in which a client may take part" if system.separation > 1 else "")
    if bound is not None and bound.epsilon <= plain:
        follows = f"{all_rounds} compose to {digits(bound.epsilon)}"
        right = bound.epsilon
    else:
        delta = min(1.0, claim.delta * every / counted)
        follows = f"{all_rounds} compose to {digits(plain)}"
        follows += (
            f" and delta {delta:.2g}, if each has that epsilon" if delta else ", if each has that epsilon"
        )
        right = plain
    return DeclarationFinding(
        check="rounds",
        severity="error",
        field="claim.covers",
        declared=f"epsilon {digits(claim.epsilon)} for the run",
        follows=f"{digits(claim.epsilon)} is the epsilon of {_of_rounds(counted)}: {follows}",
        right=right,
        mend=f"claim it for {_of_rounds(counted)}, or claim {digits(right)} for the run",
    )


def _of_rounds(count: int) -> str:
    return "one round" if count == 1 else f"{count} rounds"


def sampling(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """An amplification by sampling for clients who are known to take part, or take part more often."""
    assumed = system.basis.sampled
    if assumed is None or assumed >= 1:
        return
    for claim in system.claims:
        hidden = system.hides_sample(claim)
        share = system.sampled_in_turn if hidden else 1.0
        unknown = hidden and system.sampled is None
        if unknown or share <= assumed * (1.0 + ROUNDING) or is_proven(system, claim):
            continue
        epsilon = _with_share(claim.epsilon, assumed, share)
        why = (
            "the server knows who took part, and a sample amplifies only while it is secret"
            if not hidden
            else f"{share:.3g} of the clients{' that may' * (system.separation > 1)} take part in a round"
        )
        yield DeclarationFinding(
            check="sampling",
            severity="error",
            field="accounting.sampled",
            declared=f"a sample of {assumed:.3g} of the clients",
            follows=f"{why}: epsilon {digits(epsilon)}, not {digits(claim.epsilon)}",
            right=epsilon,
            mend="compute epsilon for the share that takes part, or for all clients if the server knows who",
        )


def _with_share(epsilon: float, assumed: float, share: float) -> float:
    """The epsilon of a sample of another share: `ln(1 + q (e^eps - 1))` is that of a share q.

    Source: Balle, Barthe & Gaboardi 2018, "Privacy amplification by subsampling: tight analyses via
    couplings and divergences", theorem 9.
    """
    if epsilon > 50.0:  # e^epsilon dwarfs the 1, and may overflow
        return epsilon + math.log(share / assumed)
    return math.log1p(share / assumed * math.expm1(epsilon))
