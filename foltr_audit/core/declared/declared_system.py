"""A system as it is declared: what happens to a message, what was assumed, and what is claimed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from foltr_audit.privacy.events import NoiseAddition, PrivacyEvent
from foltr_audit.privacy.noise import AdditiveNoise

Relation = Literal["replace-one", "add-remove"]
Covers = Literal["round", "run"]
NumberFormat = Literal["float32", "float64"]

PUBLISHED = "published"
"""The view of whoever sees the global model only."""


@dataclass(frozen=True, kw_only=True)
class DeclaredStep:
    """One thing that happens to a message, with what is declared about it.

    Attributes:
        name: who does it: a defense, or a table of a description.
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
    """An epsilon that is claimed. None: not declared.

    Attributes:
        name: who claims it.
        epsilon, delta: the numbers.
        unit: what two neighbouring inputs differ in, of `privacy.events.UNITS`.
        relation: `replace-one` or `add-remove`.
        view: whose observations it is about, of `privacy.observer_views.VIEWS`, or `published`.
        covers: one `round`, or the whole `run`.
    """

    name: str
    epsilon: float
    delta: float = 0.0
    unit: str | None = None
    relation: Relation | None = None
    view: str | None = None
    covers: Covers | None = None


@dataclass(frozen=True, kw_only=True)
class AccountingBasis:
    """What the numbers of a claim were computed for. None: not declared.

    Attributes:
        sensitivity: the distance of two neighbouring messages.
        epsilon, delta: what one round was computed to give.
        clients: clients n whose noise is added up.
        interactions: interactions of a client in a message.
        rounds: rounds that were composed.
        sampled: share of the clients that take part in a round.
        relation, unit: what neighbouring inputs were.
        formula: how the deviation of normal noise was computed.
    """

    sensitivity: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    clients: int | None = None
    interactions: int | None = None
    rounds: int | None = None
    sampled: float | None = None
    relation: Relation | None = None
    unit: str | None = None
    formula: Literal["analytic", "classical"] | None = None

    @property
    def classical_sigma(self) -> float | None:
        """Deviation of the normal noise that the classical formula computes from these; None without them.

        Source: Dwork & Roth 2014, "The algorithmic foundations of differential privacy", theorem A.1.
        """
        if not self.epsilon or not self.delta or not self.sensitivity:
            return None
        return self.sensitivity * math.sqrt(2.0 * math.log(1.25 / self.delta)) / self.epsilon


@dataclass(frozen=True, kw_only=True)
class Restatement:
    """One thing that is declared twice, and differently.

    Attributes:
        field: the place of one declaration.
        said: what it says.
        elsewhere: what the other one says, with its place.
    """

    field: str
    said: str
    elsewhere: str


@dataclass(frozen=True, kw_only=True)
class DeclaredSystem:
    """A system as it is declared. None: not declared.

    Attributes:
        steps: what happens to a message, in order.
        claims: what is claimed.
        basis: what the numbers of the claims were computed for.
        complete: whether everything that happens to a message is in `steps`.
        described: whether somebody describes it in a file: a claim for sums then also says that the server
            sees sums.
        parameters: coordinates P of a message.
        clients: clients of the system.
        cohort: clients n that take part in a round.
        interactions: interactions B of a client in a message.
        rounds: rounds T of the run.
        separation: rounds from one in which a client takes part to its next one, at least.
        sampled: share of the clients that take part in a round.
        secret_sample: whether nobody knows who took part.
        number_format: type of the numbers in a message.
        lists_shown: whether the server sees the shown lists.
        lists_follow_clicks: whether a client's lists follow from its clicks on earlier ones of a message.
        alike_in_number: whether all clients weigh the same in a sum.
        largest_weight: largest weight of a client in a sum over the smallest.
        server_noise: whether noise is added by the server, to the sum.
        restated: what is declared twice, and differently.
    """

    steps: tuple[DeclaredStep, ...] = ()
    claims: tuple[DeclaredClaim, ...] = ()
    basis: AccountingBasis = field(default_factory=AccountingBasis)
    complete: bool = True
    described: bool = False
    parameters: int | None = None
    clients: int | None = None
    cohort: int | None = None
    interactions: int | None = None
    rounds: int | None = None
    separation: int = 1
    sampled: float | None = None
    secret_sample: bool = False
    number_format: NumberFormat | None = None
    lists_shown: bool | None = None
    lists_follow_clicks: bool | None = None
    alike_in_number: bool = True
    largest_weight: float = 1.0
    server_noise: bool = False
    restated: tuple[Restatement, ...] = ()

    @cached_property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What happens to a message, for accounting."""
        return tuple(step.event for step in self.steps)

    @property
    def turns(self) -> int | None:
        """Rounds of the run in which one client may take part."""
        return None if self.rounds is None else -(-self.rounds // self.separation)

    @property
    def sampled_in_turn(self) -> float:
        """Share of the clients that may take part in a round and do; 1 where it is not declared.

        With a separation of b rounds only one part in b of the clients may.
        """
        if self.sampled is None:
            return 1.0
        share = self.sampled * self.separation
        if self.clients is not None and self.cohort is not None:
            share = max(share, self.cohort / max(1, self.clients // self.separation))
        return min(1.0, share)

    def hides_sample(self, claim: DeclaredClaim) -> bool:
        """Whether those whom a claim is about do not know who took part.

        Global models do not say, so an accounting that counts on a sample has one from who sees nothing else.
        """
        return self.secret_sample or (claim.view == PUBLISHED and self.basis.sampled is not None)

    def halves(self, relation: Relation | None, unit: str | None) -> bool:
        """Whether neighbours are half as far apart as two messages: a client is added or removed.

        A removed client sends zeros, and its noise. A client of which an interaction is removed still sends a
        message, unless that was its only one; interactions that are not declared count as one.
        """
        alone = unit != "click" and self.interactions in (None, 1)
        return relation == "add-remove" and (unit in (None, "client") or alone)

    @property
    def halved(self) -> bool:
        """As `halves`, for the relation and unit that the accounting assumed, or else the claims state."""
        relations = {claim.relation for claim in self.claims}
        units = {claim.unit for claim in self.claims}
        relation = self.basis.relation or (relations.pop() if len(relations) == 1 else None)
        return self.halves(relation, self.basis.unit or (units.pop() if len(units) == 1 else None))

    @property
    def noises(self) -> tuple[DeclaredStep, ...]:
        """The steps that add noise."""
        return tuple(step for step in self.steps if isinstance(step.event, NoiseAddition))
