"""The numbers that follow from what a system declares: distances, and the epsilon of noise over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from foltr_audit.core.declared.declared_system import DeclaredClaim, DeclaredStep, DeclaredSystem
from foltr_audit.privacy.accounting import AccountingContext, UpperBound, upper_bound
from foltr_audit.privacy.accounting.walk import walk
from foltr_audit.privacy.events import (
    UNITS,
    GridRounding,
    NoiseAddition,
    NormBound,
    PrivacyEvent,
)
from foltr_audit.privacy.loss.losses import Norms, SensitivityBound
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.privacy.observer_views import VIEWS

ROUNDING = 1e-9
"""Relative tolerance of comparisons of declared numbers with those that follow."""

TOLERANCE = 1e-6
"""Declared numbers are rounded: an epsilon may be this much larger, relatively, than the one declared."""


def before(system: DeclaredSystem, noise: DeclaredStep) -> tuple[DeclaredStep, ...]:
    """What happens before some noise, without other noise: each noise is checked as if it were the only one.

    Rounding that the noise of its own defense allows for is left out too.
    """
    index = next(index for index, step in enumerate(system.steps) if step is noise)
    return tuple(
        step
        for step in system.steps[:index]
        if not isinstance(step.event, NoiseAddition)
        and not (isinstance(step.event, GridRounding) and step.allowed_for)
    )


def apart(system: DeclaredSystem, earlier: Sequence[DeclaredStep], noise: PrivacyEvent) -> Norms:
    """How far apart two neighbouring messages may be when noise is added after some steps.

    Neighbours are those of the claims, see `DeclaredSystem.halved`.
    """
    events = [*(step.event for step in earlier), noise]
    distances = walk(events, system.parameters).noises[0].apart
    return distances.times(0.5) if system.halved else distances


def of_order(norms: Norms, law: AdditiveNoise) -> float:
    """The distance that noise of a law has to hide: in L1 if it gives a pure epsilon, else in L2."""
    return norms.l1 if law.order == 1 else norms.l2


def epsilon_over(law: AdditiveNoise, distances: Norms, parameters: int, delta: float) -> float:
    """The epsilon that noise of a law proves over a distance, at a delta; infinite where it proves none."""
    hidden = SensitivityBound(apart=distances, parameters=parameters, grid=law.grid, where="")
    epsilons = [
        proof.loss.epsilon(1, at, 1.0)
        for proof in law.proofs(hidden)
        if proof.loss is not None
        for at in dict.fromkeys((0.0, delta))
    ]
    return min(epsilons, default=math.inf)


def over_distance(law: AdditiveNoise, distance: float, delta: float) -> float:
    """The epsilon that noise proves in one coordinate over a distance."""
    return epsilon_over(law, Norms(distance, distance, distance), 1, delta)


def is_proven(system: DeclaredSystem, claim: DeclaredClaim) -> bool:
    """Whether accounting proves a claim from what is declared, so that it holds whatever else was assumed."""
    bound = proven(system, claim)
    return bound is not None and bound.epsilon <= claim.epsilon * (1.0 + TOLERANCE)


def proven(system: DeclaredSystem, claim: DeclaredClaim) -> UpperBound | None:
    """What accounting proves of what is claimed for a round; None where too little is declared.

    A client that is removed sends zeros, so that a bound R moves a sum by R instead of by 2 R, see
    `DeclaredSystem.halves`.
    """
    view = "aggregate" if claim.view not in VIEWS else claim.view
    known = system.complete and system.steps and system.cohort
    if not known or claim.unit not in UNITS or claim.view is None:
        return None
    situation = AccountingContext(
        view=view,
        unit=claim.unit,
        parameters=system.parameters,
        shares=system.cohort or 1,
        interactions=system.interactions or 1,
        ranked_with="local" if system.lists_follow_clicks else "global",
        number_format=system.number_format,
        largest_weight=system.largest_weight,
        separation=system.separation,
        delta=claim.delta,
    )
    halved = system.halves(claim.relation, claim.unit)
    return upper_bound([_halved(event) if halved else event for event in system.events], situation)


def _halved(event: PrivacyEvent) -> PrivacyEvent:
    return replace(event, norm=0.5 * event.norm) if isinstance(event, NormBound) else event
