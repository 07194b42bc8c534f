"""What the defenses of an experiment claim, what they do to messages, and where a claim does not hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from foltr_audit.core.declared.checks import warnings
from foltr_audit.core.declared.declared_system import DeclaredSystem, chain_claims, chain_steps
from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, MetricLearner, ModelLearner, PrivacyEvent, RoundContext
from foltr_audit.core.results import ProofRecord
from foltr_audit.core.settings.defaults import CLIENT, DELTA, UNIT
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.privacy.accounting.bound import run_bound, upper_bound
from foltr_audit.privacy.accounting.situation import AccountingContext
from foltr_audit.simulation.client_population import ClientPopulation


@dataclass(frozen=True, kw_only=True)
class PrivacyDescription:
    """What a chain of defenses does for some clients. All of it follows from a Spec: no round is played.

    Attributes:
        chain: the defenses.
        clients: the clients, with their learner.
        context: a round without clients: what a chain declares depends on neither clients nor models.
        dtype: number format of a message.
        chosen: whether the server chooses who takes part in a round, as often as it likes.
    """

    chain: DefenseChain
    clients: ClientPopulation
    context: RoundContext
    dtype: str
    chosen: bool = False

    def claim(self) -> float:
        """The epsilon that the chain claims for one round; infinite without a claim."""
        return self.chain.eps_claimed(self.context)

    def acts(self) -> tuple[tuple[Defense, PrivacyEvent], ...]:
        """What the chain does to a message, with the defense that does it, for accounting."""
        return self.chain.acts(self.context, acts_without_pairs=self._acts_without_pairs)

    def events(self) -> tuple[PrivacyEvent, ...]:
        """What the chain does to a message, for accounting."""
        return tuple(event for _, event in self.acts())

    def situation(
        self, view: str, unit: str, *, interactions: int | None = None, rounds: int = 1, delta: float = 0.0
    ) -> AccountingContext:
        """What a bound on a message of these clients is for, or one on all messages of several rounds.

        Args:
            view: whose observations, of `observer_views.VIEWS`.
            unit: what two neighbouring inputs differ in, of `privacy.events.UNITS`.
            interactions: interactions behind a message, if not those of the learner.
            rounds: rounds that are observed.
            delta: delta of the bound.
        """
        return AccountingContext(
            view=view,
            unit=unit,
            parameters=self.context.parameters.size,
            shares=self.context.shares,
            interactions=self.clients.interactions if interactions is None else interactions,
            ranked_with=self.clients.learner.ranked_with,
            number_format="float64" if self.dtype == "float64" else "float32",
            largest_weight=self.clients.largest_weight,
            rounds=rounds,
            delta=delta,
        )

    def in_all_rounds(self, situation: AccountingContext) -> AccountingContext:
        """The same unit, for all rounds of the run; a client takes part in as many of them as it may."""
        return replace(situation, rounds=self.clients.rounds, separation=self.clients.spec.rounds_apart)

    def lifetime(self, situation: AccountingContext) -> AccountingContext:
        """The same observer, for all rounds of the run; it knows who takes part in each.

        A click and an interaction are part of one round, so the bound is for their client.
        A run has a delta: at delta 0 nothing but the sum over all rounds would be proven.
        """
        population = self.clients.spec
        return replace(
            self.in_all_rounds(situation),
            unit=CLIENT,
            interactions=self.clients.interactions,
            sampled=1.0
            if self.chosen
            else population.cohort_size / (population.clients // population.rounds_apart),
            cohorts="known",
            delta=situation.delta or DELTA,
        )

    def proven(self, view: str) -> ProofRecord:
        """What is proven in a view for one interaction in a round, and for one client over the run.

        Of a round it is pure where a pure bound exists.
        """
        events, there = self.events(), self.situation(view, UNIT)
        once = upper_bound(events, there)
        if math.isinf(once.epsilon):
            once = upper_bound(events, replace(there, delta=DELTA))
        return ProofRecord(
            of="round",
            view=view,
            unit=UNIT,
            interactions=there.interactions,
            rounds=1,
            upper=once,
            whole_run=run_bound(events, self.lifetime(there)),
        )

    def noise(self) -> str | None:
        """The noise law of one message, as text."""
        learner = self.clients.learner
        values = learner.values.size if isinstance(learner, MetricLearner) else 0
        return self.chain.noise(self.context, values)

    def declared(self) -> DeclaredSystem:
        """The system that these clients and defenses are, with what it declares about its privacy."""
        clients = self.clients
        return DeclaredSystem(
            steps=chain_steps(self.chain, self.context, acts_without_pairs=self._acts_without_pairs),
            claims=chain_claims(self.chain, self.context),
            parameters=self.context.parameters.size,
            clients=clients.spec.clients,
            cohort=self.context.shares,
            interactions=clients.interactions,
            number_format="float64" if self.dtype == "float64" else "float32",
            lists_follow_clicks=clients.lists_follow_clicks,
            alike_in_number=clients.alike_in_number or clients.learner.sends != "models",
            largest_weight=clients.largest_weight,
            separation=clients.spec.rounds_apart,
        )

    def warnings(self) -> tuple[CodedWarning, ...]:
        """Sentences about incompatible defenses, and about claims that do not hold for a whole message."""
        return warnings(self.declared())

    @property
    def _acts_without_pairs(self) -> bool:
        learner = self.clients.learner
        return not isinstance(learner, ModelLearner) or learner.clip_without_pairs
