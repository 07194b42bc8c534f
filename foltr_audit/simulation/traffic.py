"""Which queries the clients of a round ask, with which intent and click model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foltr_audit.core.plugins import Environment, Population, RoundContext, Trait
from foltr_audit.core.records import Dataset
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.errors import UsageError
from foltr_audit.simulation.client import ClientData
from foltr_audit.simulation.malicious_clients import MaliciousClients
from foltr_audit.utils.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class SearchHistory:
    """The queries of each user of a data set; client c is user c.

    Attributes:
        order: the queries of user 0 in order of time, then those of user 1, ..., int64 (queries,).
        offsets: int64 (users + 1,); user u has those from offsets[u] to offsets[u+1] - 1.
    """

    order: Ints
    offsets: Ints

    @classmethod
    def of(cls, data: Dataset) -> SearchHistory | None:
        """Those of a data set; None where queries are nobody's."""
        if data.users is None:
            return None
        counts = np.bincount(data.users)
        return cls(np.argsort(data.users, kind="stable"), np.concatenate([[0], np.cumsum(counts)]))

    def asked(self, clients: Ints, first: Ints, count: int) -> Ints:
        """Queries number first .. first + count - 1 of each client, (C,) to (C, count).

        After its last query a client starts again with the first. Every client must have one.
        """
        own = self.offsets[clients + 1] - self.offsets[clients]
        number = first[:, np.newaxis] + np.arange(count)
        return np.asarray(self.order[self.offsets[clients][:, np.newaxis] + number % own[:, np.newaxis]])


def refuse_missing_users(data: Dataset, clients: int, who: str) -> None:
    """Refuse more clients than data of users have users.

    Raises:
        UsageError: there are fewer users; `who` names the clients in the message.
    """
    if data.users is not None and clients > data.n_users:
        raise UsageError(
            f"clients: {who}, but the training split has {data.n_users} users; "
            f"expected at most {data.n_users}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryTraffic:
    """The queries, intents and click models of an experiment's clients.

    Attributes:
        world: what they search.
        population: their traits.
        environment: how likely each intent is over time; None where no scenario defines that.
        interactions: interactions of a client in a round unless its traits set them.
        most: the most interactions of a client in a round, B.
        total: interactions of the whole training.
        paired: the second half of a client's interactions uses the mirrored models of the first half.
        poisoned: malicious clients that click by the last click model of the world; None if nobody does.
    """

    world: ClientData
    population: Population
    environment: Environment | None
    interactions: int
    most: int
    total: int
    paired: bool = False
    poisoned: MaliciousClients | None = None

    def ask(self, context: RoundContext) -> QueryAssignment:
        """Queries of the clients of a training round, (C, B), padded with -1.

        Interaction b of the c-th of C clients is played at time `(round B + b) C + c`.
        """
        C, B = context.clients.size, self.most
        kinds = self._kinds(context, B)
        queries = self._searched(context, kinds, B)
        if self.poisoned is not None and (promoted := self.poisoned.poisoning.promoted) is not None:
            queries = np.where(self.poisoned.among(context.clients)[:, np.newaxis], promoted[0], queries)
        if self.environment is None:
            time = np.broadcast_to(0, (C, B))  # intents do not depend on it
        else:
            time = (context.round * B + np.arange(B)) * C + np.arange(C)[:, np.newaxis]
        intents = self._intents(context, kinds, time)
        # All B interactions are drawn, and some left out afterwards: those that stay get the same numbers.
        sizes = self._sizes(context.clients)
        if (sizes < B).any():
            queries = np.where(np.arange(B) >= sizes[:, np.newaxis], -1, queries)
        if self.environment is not None and self.environment.kept is not None:
            queries = np.where(intents != self.environment.kept, -1, queries)
        return _move_to_front(QueryAssignment(queries, intents, self._ways(context, kinds, intents)))

    def assign(self, queries: Ints, context: RoundContext) -> QueryAssignment:
        """The given queries (C, B) with the intents and click models of clients (C,) after the training.

        Clients have the traits of their group, except for the click model and the number of interactions. A
        client that holds no document of a query ranks all of them.
        """
        C, B = queries.shape
        kinds = self._kinds(context, B)
        places = self.world.places[self._holding(kinds), queries]
        time = np.full((C, B), max(0, self.total - 1))
        intents = self._intents(context, kinds, time)
        return QueryAssignment(
            np.where(places >= 0, places, queries), intents, self._ways(context, kinds, intents)
        )

    def weights(self, time: int) -> Floats:
        """How likely each intent is among all interactions at a time, float64 (I,)."""
        for trait in self.population.traits:
            wanted = [value.intent for value in trait.values if value.intent is not None]
            if wanted:
                return np.asarray(np.bincount(wanted, minlength=self.world.intents) / len(wanted))
        if self.environment is None:
            return np.ones(1)
        if self.environment.kept is not None:
            return np.asarray(np.eye(self.world.intents)[self.environment.kept])
        return np.asarray(self.environment.probabilities([time])[0])

    def _searched(self, context: RoundContext, kinds: list[Ints], B: int) -> Ints:
        """The query of each interaction, int64 (C, B): drawn, or the next ones of users.

        Round t is always the t-th batch of a user's queries, whether or not the user took part in rounds
        before: users search all the time, and the server asks some of them to send.
        """
        if self._users is not None:
            clients = context.clients
            return self._users.asked(clients, context.round * self._sizes(clients), B)
        return self._queries(self._holding(kinds), context.streams("queries").uniform(B))

    def _queries(self, holding: Ints, draws: Floats) -> Ints:
        """Uniformly drawn queries that have documents of each interaction's holding, int64 (C, B)."""
        if len(self._pools) == 1:
            return np.floor(draws * self._pools[0].size).astype(np.int64)
        queries = np.empty(draws.shape, dtype=np.int64)
        for number, pool in enumerate(self._pools):
            here = np.broadcast_to(holding, draws.shape) == number
            queries[here] = pool[np.floor(draws[here] * pool.size).astype(np.int64)]
        return queries

    def _kinds(self, context: RoundContext, B: int) -> list[Ints]:
        """For each trait, the number of the value that each interaction has, int64 (C, B)."""
        found = []
        for trait, own in zip(self.population.traits, self.population.own(context.clients), strict=True):
            kinds = np.repeat(own[:, np.newaxis], B, axis=1)
            if trait.strength < 1:
                draws = context.streams(f"scenario/trait/{trait.name}").uniform(2 * B)
                any_kind = np.floor(draws[:, B:] * len(trait.values)).astype(np.int64)
                kinds = np.where(draws[:, :B] < trait.strength, kinds, any_kind)
            found.append(kinds)
        return found

    def _of(self, kinds: list[Ints], field: str, numbers: dict[object, int]) -> Ints:
        """The number of each interaction's value of a field, set by the last trait that has one; else -1."""
        found = np.full(kinds[0].shape if kinds else (1, 1), -1)
        for trait, kind in zip(self.population.traits, kinds, strict=True):
            said = np.array([numbers.get(getattr(value, field), -1) for value in trait.values])[kind]
            found = np.where(said >= 0, said, found)
        return found

    def _holding(self, kinds: list[Ints]) -> Ints:
        numbers: dict[object, int] = {
            grades: number for number, grades in enumerate(self.world.holdings) if grades is not None
        }
        return np.maximum(self._of(kinds, "grades", numbers), 0)

    def _intents(self, context: RoundContext, kinds: list[Ints], time: Ints) -> Ints:
        """The intent of each interaction (C, B); where others are left out, pairs share one.

        A mirrored interaction is compared with its partner: without it the estimate would be biased.
        """
        own = self._of(kinds, "intent", {intent: intent for intent in range(self.world.intents)})
        if self.environment is None:
            return np.broadcast_to(np.maximum(own, 0), time.shape)
        C, B = time.shape
        draws = context.streams("scenario/intents").uniform(B)
        chances = self.environment.probabilities(time.reshape(-1)).reshape(C, B, -1)
        if self.paired and self.environment.kept is not None and B % 2 == 0:
            draws[:, B // 2 :], chances[:, B // 2 :] = draws[:, : B // 2], chances[:, : B // 2]
        passed = draws[..., np.newaxis] >= np.cumsum(chances, axis=2)[..., :-1]
        return np.where(own >= 0, own, passed.sum(axis=2))

    def _ways(self, context: RoundContext, kinds: list[Ints], intents: Ints) -> Ints:
        model = np.zeros((1, 1), dtype=np.int64)
        if len(self.world.models) > 1:
            numbers: dict[object, int] = {each.text: m for m, each in enumerate(self.world.models)}
            model = np.maximum(self._of(kinds, "click_model", numbers), 0)
        if self.poisoned is not None:
            malicious = self.poisoned.among(context.clients)[:, np.newaxis]
            model = np.where(malicious, len(self.world.models) - 1, model)
        return np.asarray(model * self.world.intents + intents)

    def _sizes(self, clients: Ints) -> Ints:
        """Interactions of each client in a round, int64 (C,)."""
        sizes = np.full(clients.size, self.interactions)
        for trait, own in zip(self.population.traits, self.population.own(clients), strict=True):
            sizes = np.where(_interactions_of(trait)[own] > 0, _interactions_of(trait)[own], sizes)
        return sizes

    @cached_property
    def _users(self) -> SearchHistory | None:
        return SearchHistory.of(self.world.data)

    @cached_property
    def _pools(self) -> list[Ints]:
        return [places[places >= 0] for places in self.world.places]


def _interactions_of(trait: Trait) -> Ints:
    return np.array([value.interactions or 0 for value in trait.values])


def _move_to_front(asked: QueryAssignment) -> QueryAssignment:
    """The same interactions, with those left out moved to the end."""
    if (asked.queries >= 0).all():
        return asked
    # Clients that send metrics average the first interactions, so these must stand in front; a stable sort
    # keeps their order.
    order = np.argsort(asked.queries < 0, axis=1, kind="stable")
    return QueryAssignment(*(np.take_along_axis(each, order, axis=1) for each in asked))
