"""A system as it is declared: what happens to a message, what was assumed, and what is claimed.

The steps and claims of a chain come from what its defenses declare; `trace/declared_header.py` reads those of
the header of a trace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, RoundContext
from foltr_audit.core.plugins.answers import claims_of, events_of, law_of
from foltr_audit.privacy.accounting import AccountingContext, UpperBound, upper_bound
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.privacy.accounting.walk import ChainSummary
from foltr_audit.privacy.events import (
    UNITS,
    GridRounding,
    NoiseAddition,
    NormBound,
    PrivacyClaim,
    PrivacyEvent,
    RevealedDraws,
    in_format,
)
from foltr_audit.privacy.loss.losses import Norms, SensitivityBound
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.privacy.observer_views import VIEWS


@dataclass(frozen=True, kw_only=True)
class DeclaredStep:
    """One thing that happens to a message, with what is declared about it.

    Attributes:
        name: who does it: a defense, or a fact of a header.
        event: what it does.
        sensitivity: of noise, the distance that it was computed for; None where that is not declared.
        shares: of noise, the number n of clients whose parts are the whole noise; 1 if each adds all of it.
        epsilon, delta: of noise, what it is claimed to give in one round; None where that is not declared.
        allowed_for: of rounding, whether the noise of the same defense allows for it.
        leaves_out: whether it leaves coordinates out, which later noise would fill.
    """

    name: str
    event: PrivacyEvent
    sensitivity: float | None = None
    shares: int = 1
    epsilon: float | None = None
    delta: float | None = None
    allowed_for: bool = False
    leaves_out: bool = False

    @property
    def whole(self) -> AdditiveNoise | None:
        """Of noise, the law of all shares together."""
        if not isinstance(self.event, NoiseAddition):
            return None
        return self.event.law if self.shares == 1 else self.event.law.summed(self.shares)


@dataclass(frozen=True, kw_only=True)
class AccountingBasis:
    """What normal noise was computed from, by the classical formula. None: not declared.

    Attributes:
        sensitivity: the distance of two neighbouring messages.
        epsilon, delta: what one round was computed to give.
    """

    sensitivity: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    @property
    def sigma(self) -> float | None:
        """Deviation of the noise that the formula computes from these; None without them.

        Source: Dwork & Roth 2014, "The algorithmic foundations of differential privacy", theorem A.1.
        """
        if not self.epsilon or not self.delta or not self.sensitivity:
            return None
        return self.sensitivity * math.sqrt(2.0 * math.log(1.25 / self.delta)) / self.epsilon


@dataclass(frozen=True, kw_only=True)
class Restatement:
    """One thing that is declared twice, and differently."""

    field: str
    said: str
    elsewhere: str


@dataclass(frozen=True, kw_only=True)
class DeclaredSystem:
    """A system as it is declared. None: not declared.

    Attributes:
        steps: what happens to a message, in order.
        claims: what is claimed for one round; unit, relation or view are empty where they are not declared.
        basis: what normal noise was computed from, where a header says so.
        complete: whether everything that happens to a message is in `steps`.
        parameters: coordinates P of a message.
        clients: clients of the system.
        cohort: clients n that take part in a round.
        interactions: interactions B of a client in a message.
        separation: rounds from one in which a client takes part to its next one, at least.
        number_format: type of the numbers in a message.
        lists_follow_clicks: whether a client's lists follow from its clicks on earlier ones of a message.
        alike_in_number: whether all clients weigh the same in a sum.
        members: who is in a sum; None where that is not declared.
        restated: what is declared twice, and differently.
    """

    steps: tuple[DeclaredStep, ...] = ()
    claims: tuple[PrivacyClaim, ...] = ()
    basis: AccountingBasis = field(default_factory=AccountingBasis)
    complete: bool = True
    parameters: int
    clients: int | None = None
    cohort: int | None = None
    interactions: int | None = None
    separation: int = 1
    number_format: str | None = None
    lists_follow_clicks: bool | None = None
    alike_in_number: bool = True
    members: SumMembers | None = None
    restated: tuple[Restatement, ...] = ()

    @classmethod
    def of_chain(
        cls,
        chain: DefenseChain,
        context: RoundContext,
        *,
        acts_without_pairs: bool = True,
        **declared: Any,
    ) -> Self:
        """The system of a chain, also of plug-ins of others, by what its defenses declare.

        Args:
            chain: the defenses.
            context: a round; its `shares` say how many clients send.
            acts_without_pairs: whether step defenses also act after an interaction without pairs.
            declared: other fields of the system.
        """
        acts = chain.acts(context, acts_without_pairs=acts_without_pairs)
        return cls(
            steps=tuple(_step(defense, event, context) for defense, event in acts),
            claims=chain.claims(context),
            parameters=context.parameters.size,
            separation=context.separation,
            **declared,
        )

    def revealing(self, draws: RevealedDraws | None) -> Self:
        """The same system, in which this reveals the draws of clients; itself where nothing new does."""
        if draws is None or draws in [step.event for step in self.steps]:
            return self
        return replace(self, steps=(*self.steps, DeclaredStep(name=draws.by, event=draws)))

    @cached_property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What happens to a message, for accounting."""
        events = tuple(step.event for step in self.steps)
        return events if self.number_format is None else in_format(events, self.number_format)

    def halves(self, relation: str, unit: str) -> bool:
        """Whether neighbours are half as far apart as two messages: a client is added or removed.

        A removed client sends zeros, and its noise. A client of which an interaction is removed still sends a
        message, unless that was its only one; interactions that are not declared count as one.
        """
        alone = unit != "click" and self.interactions in (None, 1)
        return relation == "add-remove" and (unit in ("", "client") or alone)

    @property
    def halved(self) -> bool:
        """As `halves`, for the relation and unit that all claims state."""
        relations, units = {claim.relation for claim in self.claims}, {claim.unit for claim in self.claims}
        relation = relations.pop() if len(relations) == 1 else ""
        return self.halves(relation, units.pop() if len(units) == 1 else "")

    @property
    def noises(self) -> tuple[DeclaredStep, ...]:
        return tuple(step for step in self.steps if isinstance(step.event, NoiseAddition))


def _step(defense: Defense, event: PrivacyEvent, context: RoundContext) -> DeclaredStep:
    plain = DeclaredStep(name=defense.name, event=event, leaves_out=defense.leaves_out)
    if isinstance(event, GridRounding):
        noisy = any(isinstance(other, NoiseAddition) for other in events_of(defense, context))
        return replace(plain, allowed_for=noisy)
    if not isinstance(event, NoiseAddition):
        return plain
    sensitivity = getattr(defense, "sensitivity", None)
    claim = next(iter(claims_of(defense, context)), None)
    return replace(
        plain,
        sensitivity=sensitivity if isinstance(sensitivity, float | int) else None,
        shares=_shares(defense, context),
        epsilon=None if claim is None else claim.epsilon,
        delta=None if claim is None else claim.delta,
    )


def _shares(defense: Defense, context: RoundContext) -> int:
    """How many parts the whole noise of a defense has; 1 if each client adds all of it."""
    share, whole = law_of(defense, context), law_of(defense, replace(context, shares=1))
    parted = share is not None and whole is not None and share.variance < whole.variance * (1.0 - ROUNDING)
    return context.shares if parted else 1


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
    distances = ChainSummary(events, system.parameters).noises[0].apart
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


def is_proven(system: DeclaredSystem, claim: PrivacyClaim) -> bool:
    """Whether accounting proves a claim from what is declared, so that it holds whatever else was assumed."""
    bound = proven(system, claim)
    return bound is not None and bound.epsilon <= claim.epsilon * (1.0 + TOLERANCE)


def proven(system: DeclaredSystem, claim: PrivacyClaim) -> UpperBound | None:
    """What accounting proves of what is claimed for a round; None where too little is declared.

    A client that is removed sends zeros, so that a bound R moves a sum by R instead of by 2 R, see
    `DeclaredSystem.halves`.
    """
    view = "aggregate" if claim.view not in VIEWS else claim.view
    known = system.complete and system.steps and system.cohort
    if not known or claim.unit not in UNITS or not claim.view:
        return None
    situation = AccountingContext(
        view=view,
        unit=claim.unit,
        parameters=system.parameters,
        members=system.members,
        interactions=system.interactions or 1,
        ranked_with="local" if system.lists_follow_clicks else "global",
        separation=system.separation,
        delta=claim.delta,
    )
    halved = system.halves(claim.relation, claim.unit)
    return upper_bound([_halved(event) if halved else event for event in system.events], situation)


def _halved(event: PrivacyEvent) -> PrivacyEvent:
    return replace(event, norm=0.5 * event.norm) if isinstance(event, NormBound) else event
