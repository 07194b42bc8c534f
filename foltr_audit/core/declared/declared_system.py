"""A system as it is declared: what happens to a message, what was assumed, and what is claimed.

The steps and claims of a chain come from what its defenses declare; `trace/declared_header.py` reads those of
the header of a trace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, RoundContext
from foltr_audit.core.plugins.answers import claims_of, events_of, law_of
from foltr_audit.privacy.events import GridRounding, NoiseAddition, PrivacyEvent
from foltr_audit.privacy.noise import AdditiveNoise

Relation = Literal["replace-one", "add-remove"]
NumberFormat = Literal["float32", "float64"]

_RELATIONS: dict[str, Relation] = {"replace-one": "replace-one", "add-remove": "add-remove"}
_ROUNDING = 1e-9  # relative tolerance of comparisons of variances


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
class DeclaredClaim:
    """An epsilon that is claimed for one round. None: not declared.

    Attributes:
        unit: what two neighbouring inputs differ in, of `privacy.events.UNITS`.
        relation: `replace-one` or `add-remove`.
        view: whose observations it is about, of `privacy.observer_views.VIEWS`.
    """

    name: str
    epsilon: float
    delta: float = 0.0
    unit: str | None = None
    relation: Relation | None = None
    view: str | None = None


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
        claims: what is claimed.
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
        largest_weight: largest weight of a client in a sum over the smallest.
        restated: what is declared twice, and differently.
    """

    steps: tuple[DeclaredStep, ...] = ()
    claims: tuple[DeclaredClaim, ...] = ()
    basis: AccountingBasis = field(default_factory=AccountingBasis)
    complete: bool = True
    parameters: int
    clients: int | None = None
    cohort: int | None = None
    interactions: int | None = None
    separation: int = 1
    number_format: NumberFormat = "float32"
    lists_follow_clicks: bool | None = None
    alike_in_number: bool = True
    largest_weight: float = 1.0
    restated: tuple[Restatement, ...] = ()

    @cached_property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What happens to a message, for accounting."""
        return tuple(step.event for step in self.steps)

    def halves(self, relation: Relation | None, unit: str | None) -> bool:
        """Whether neighbours are half as far apart as two messages: a client is added or removed.

        A removed client sends zeros, and its noise. A client of which an interaction is removed still sends a
        message, unless that was its only one; interactions that are not declared count as one.
        """
        alone = unit != "click" and self.interactions in (None, 1)
        return relation == "add-remove" and (unit in (None, "client") or alone)

    @property
    def halved(self) -> bool:
        """As `halves`, for the relation and unit that all claims state."""
        relations = {claim.relation for claim in self.claims}
        units = {claim.unit for claim in self.claims}
        relation = relations.pop() if len(relations) == 1 else None
        return self.halves(relation, units.pop() if len(units) == 1 else None)

    @property
    def noises(self) -> tuple[DeclaredStep, ...]:
        return tuple(step for step in self.steps if isinstance(step.event, NoiseAddition))


def chain_steps(
    chain: DefenseChain, context: RoundContext, *, acts_without_pairs: bool = True
) -> tuple[DeclaredStep, ...]:
    """What the defenses of a chain do, with what they declare about it; also of plug-ins of others.

    `context`: a round; its `shares` say how many clients send. `acts_without_pairs`: whether step defenses
    also act after an interaction without pairs.
    """
    acts = chain.acts(context, acts_without_pairs=acts_without_pairs)
    return tuple(_step(defense, event, context) for defense, event in acts)


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
    parted = share is not None and whole is not None and share.variance < whole.variance * (1.0 - _ROUNDING)
    return context.shares if parted else 1


def chain_claims(chain: DefenseChain, context: RoundContext) -> tuple[DeclaredClaim, ...]:
    """What the defenses of a chain claim for one round."""
    return tuple(
        DeclaredClaim(
            name=defense.name,
            epsilon=claim.epsilon,
            delta=claim.delta,
            unit=claim.unit,
            relation=_RELATIONS.get(claim.relation),
            view=claim.view,
        )
        for defense in chain.defenses
        for claim in claims_of(defense, context)
    )
