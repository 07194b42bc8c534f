"""What the defenses of an experiment claim, what they do to messages, and where a claim does not hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from foltr_audit.core.declared.checks import warnings
from foltr_audit.core.declared.declared_system import DeclaredSystem
from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import (
    Defense,
    MetricLearner,
    ModelLearner,
    Poisoning,
    PrivacyEvent,
    RoundContext,
    Server,
)
from foltr_audit.core.results import ProofRecord
from foltr_audit.core.settings.defaults import CLIENT, DELTA, UNIT
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.privacy.accounting.bound import run_bound, upper_bound
from foltr_audit.privacy.accounting.situation import AccountingContext
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.privacy.events import RevealedDraws
from foltr_audit.simulation.client_population import ClientPopulation


@dataclass(frozen=True, kw_only=True)
class PrivacyDescription:
    """What a chain of defenses does for some clients. All of it follows from a Spec: no round is played.

    Attributes:
        chain: the defenses.
        clients: the clients, with their learner.
        context: a round without clients: what a chain declares depends on neither clients nor models.
        server: what the server does.
        poisoning: what malicious clients do; None if everybody is honest.
        searches: the fewest searches of a client in a search log; None where queries are drawn.
    """

    chain: DefenseChain
    clients: ClientPopulation
    context: RoundContext
    server: Server
    poisoning: Poisoning | None
    searches: int | None

    def claim(self) -> float:
        """The epsilon that the chain claims for one round; infinite without a claim."""
        return self.chain.eps_claimed(self.context)

    def acts(self) -> tuple[tuple[Defense, PrivacyEvent], ...]:
        """What the chain does to a message, with the defense that does it, for accounting."""
        return self.chain.acts(self.context, acts_without_pairs=self._acts_without_pairs)

    def events(self, acts: Sequence[tuple[Defense, PrivacyEvent]] | None = None) -> tuple[PrivacyEvent, ...]:
        """What happens to a message, for accounting; `acts` as for `DefenseChain.events`."""
        events = self.chain.events(self.context, acts_without_pairs=self._acts_without_pairs, acts=acts)
        return events if self._revealed is None else (*events, self._revealed)

    def members(self, colluders: int | None = None, drop_out: float = 0.0) -> SumMembers:
        """Who is in any sum of messages that an observer may see, at worst.

        - Malicious clients that send other updates add no noise; any cohort may hold all of them. What they
          make of the messages of others may take the noise of these out of the sum.
        - The server takes out what it knows or has opened twice (`Server.subtracts`).
        - Wire defenses lose messages (`Defense.arriving`): clients drop out, or refuse what a server sent.
        - A server that chooses who takes part may ask as few clients as it likes.
        - A client whose interactions may all be left out has no weight in the sum, and so no noise.

        Args:
            colluders: for the view `colluding`, clients that tell the server their messages; None for all.
            drop_out: share of the clients that drop out, besides those of the chain.
        """
        server, clients = self.server, self.context.shares
        alike = not (server.isolates or server.manipulates)
        subtracted = server.subtracts(clients, reopens=self.chain.reopens)
        silent, whose = self._silent(clients)
        arriving = self.chain.arriving(max(1, round(clients * (1 - drop_out))), clients, alike=alike)
        if self.clients.may_send_nothing or server.chooses:
            arriving = 1  # a message of weight 0 arrives, too
        why = {
            f"server {server.name} may ask as few clients as it likes": server.chooses,
            f"{arriving} of {clients} messages arrive at least": arriving < clients and not server.chooses,
            f"server {server.name} takes out {subtracted}": subtracted > 0,
            whose: silent > 0,
        }
        return SumMembers(
            cohort=clients,
            fewest=arriving,
            silent=silent,
            subtracted=subtracted,
            colluders=colluders,
            largest_weight=self.clients.largest_weight,
            follows=alike and not server.chooses and not subtracted,
            why=tuple(reason for reason, holds in why.items() if holds),
        )

    def situation(
        self,
        view: str,
        unit: str,
        *,
        interactions: int | None = None,
        rounds: int | None = 1,
        delta: float = 0.0,
        members: SumMembers | None = None,
    ) -> AccountingContext:
        """What a bound on a message of these clients is for, or one on all messages of several rounds.

        Args:
            view: whose observations, of `observer_views.VIEWS`.
            unit: what two neighbouring inputs differ in, of `privacy.events.UNITS`.
            interactions: interactions behind a message, if not those of the learner.
            rounds: rounds that are observed; None for all of the run, in as many of which a client takes part
                as it may.
            delta: delta of the bound.
            members: who is in a sum, if not those of `members()`.
        """
        per_message = self.clients.interactions if interactions is None else interactions
        observed = self.clients.rounds if rounds is None else rounds
        return AccountingContext(
            view=view,
            unit=unit,
            parameters=self.context.parameters.size,
            members=members or self.members(),
            interactions=per_message,
            ranked_with=self.clients.learner.ranked_with,
            rounds=observed,
            separation=self.context.separation if rounds is None else 1,
            uses=self._times_learnt(observed * per_message),
            repeats=self._times_learnt(per_message),
            delta=delta,
        )

    def lifetime(self, situation: AccountingContext) -> AccountingContext:
        """The same observer, for all rounds of the run; it knows who takes part in each.

        A click and an interaction are part of one round, so the bound is for their client.
        A run has a delta: at delta 0 nothing but the sum over all rounds would be proven.
        """
        population = self.clients.spec
        return replace(
            situation,
            unit=CLIENT,
            rounds=self.clients.rounds,
            separation=population.rounds_apart,
            uses=self._times_learnt(self.clients.rounds * situation.interactions),
            interactions=self.clients.interactions,
            sampled=1.0
            if self.server.chooses
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
        clients, learner = self.clients, self.clients.learner
        return DeclaredSystem.of_chain(
            self.chain,
            self.context,
            acts_without_pairs=self._acts_without_pairs,
            clients=clients.spec.clients,
            cohort=self.context.shares,
            interactions=clients.interactions,
            number_format=self.context.number_format,
            lists_follow_clicks=clients.lists_follow_clicks,
            alike_in_number=clients.alike_in_number or learner.sends != "models",
            members=self.members(),
        ).revealing(self._revealed)

    def warnings(self) -> tuple[CodedWarning, ...]:
        """Sentences about incompatible defenses, and about claims that do not hold for a whole message."""
        return warnings(self.declared())

    @property
    def _revealed(self) -> RevealedDraws | None:
        """What reveals the draws of clients."""
        learner = self.clients.learner
        return RevealedDraws(by=learner.label) if learner.reveals_draws else None

    def _times_learnt(self, interactions: int) -> int:
        """How often so many interactions of a client may repeat one search of its log; 1 without a log."""
        return 1 if self.searches is None else -(-interactions // self.searches)

    def _silent(self, cohort: int) -> tuple[int, str]:
        """The most messages of a cohort whose noise does not count, and why."""
        poisoning = self.poisoning
        if poisoning is None or not poisoning.sends_otherwise:
            return 0, ""
        if poisoning.knows_others:
            return cohort - 1, f"malicious clients ({poisoning.name}) know the messages of others"
        silent = min(poisoning.count(self.clients.spec.clients), cohort - 1)
        return silent, f"{silent} may be of malicious clients, without noise"

    @property
    def _acts_without_pairs(self) -> bool:
        learner = self.clients.learner
        return not isinstance(learner, ModelLearner) or learner.clip_without_pairs
