"""The clients of an experiment, as its scenarios describe them: who, asking what, and how honest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from foltr_audit.core.plugins import (
    ClickModel,
    Environment,
    Learner,
    MetricLearner,
    Poisoning,
    Population,
    RoundContext,
    Scenario,
    ScenarioContext,
)
from foltr_audit.core.plugins.answers import array_of, one_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.records import Dataset
from foltr_audit.core.records.dataset import QueryOrigin
from foltr_audit.core.records.population import QueryAssignment, TraitValue
from foltr_audit.core.settings.population import PopulationSpec, parse_scenarios
from foltr_audit.errors import UsageError
from foltr_audit.rng import Streams
from foltr_audit.simulation.client import ClientData
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.formatting import JsonValue

PROMOTED_RANK = "promoted_rank"
"""The metric of a round that says how high the global model ranks the document that clients promote."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MaliciousClients:
    """The malicious clients of an experiment, drawn once.

    Attributes:
        poisoning: what they do.
        clients: number of all clients.
        streams: named random streams.
    """

    poisoning: Poisoning
    clients: int
    streams: Streams

    @cached_property
    def ids(self) -> Ints:
        """Ids of the malicious clients, rising: those with the smallest tickets.

        A client's ticket comes from its own stream, as in `CohortSampler`.
        """
        tickets = self.streams.clients("malicious", 0, np.arange(self.clients)).uniform(1)[:, 0]
        order = np.argsort(tickets, kind="stable")
        return np.sort(order[: self.poisoning.count(self.clients)])

    def promoted_row(self, data: Dataset) -> int | None:
        """The row of the promoted document in the training split; None if there is none.

        Raises:
            UsageError: the part has no such query, or the query no such document.
        """
        if (promoted := self.poisoning.promoted) is None:
            return None
        query, document = promoted
        if query >= data.n_queries:
            raise UsageError(
                f"poisoning {self.poisoning.name}: query={query}; expected less than the {data.n_queries} "
                "queries of the training split"
            )
        if document >= data.lengths[query]:
            raise UsageError(
                f"poisoning {self.poisoning.name}: document={document}; expected less than the "
                f"{data.lengths[query]} documents of the query"
            )
        return int(data.offsets[query]) + document

    def promoted_rank(self, data: Dataset, ranker: Ranker, model: Floats) -> dict[str, float]:
        """The rank from 1 of the promoted document under a model (P,), by its name in reports.

        A document of the same score counts half. Empty if no document is promoted.
        """
        row = self.promoted_row(data)
        if row is None or self.poisoning.promoted is None:
            return {}
        query = np.array([self.poisoning.promoted[0]])
        scores, _ = ranker.scores(model[np.newaxis], data, query)
        own = scores[row - int(data.offsets[query[0]])]
        return {PROMOTED_RANK: float((scores > own).sum() + ((scores == own).sum() + 1) / 2)}

    def among(self, clients: Ints) -> Bools:
        return np.isin(clients, self.ids)

    def poisoned(self, sent: Floats, honest: Floats, context: RoundContext) -> Floats:
        """The models (C, P) that clients send, after malicious clients have changed theirs.

        Args:
            sent: the models after the message stage, (C, P).
            honest: the models before it, (C, P), from which malicious clients make theirs.
            context: the round.

        Raises:
            PluginError: the plug-in gave something else than an array of this shape.
        """
        malicious = self.among(context.clients)
        present = np.flatnonzero(context.counts > 0)  # a client without interactions sends nothing
        here = malicious[present]
        if not here.any():
            return sent
        models = np.where(malicious[:, np.newaxis], honest, sent)
        updates = models[present] - context.parameters
        found = self.poisoning.on_updates(updates, here, context.at(present))
        found = array_of(f"poisoning {self.poisoning.name}: on_updates", found, updates.shape)
        changed = sent.copy()
        changed[present[here]] = context.parameters + found[here]
        return changed


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
        clients: who they are, with B interactions in a round at most.
        poisoned: malicious clients that click by the last click model of the world; None if nobody does.
    """

    world: ClientData
    clients: ClientPopulation
    poisoned: MaliciousClients | None = None

    def ask(self, context: RoundContext) -> QueryAssignment:
        """Queries of the clients of a training round, (C, B), padded with -1.

        Interaction b of the c-th of C clients is played at time `(round B + b) C + c`.
        """
        C, B = context.clients.size, self.clients.interactions
        environment, kinds = self.clients.environment, self._kinds(context, B)
        queries = self._searched(context, kinds, B)
        if self.poisoned is not None and (promoted := self.poisoned.poisoning.promoted) is not None:
            queries = np.where(self.poisoned.among(context.clients)[:, np.newaxis], promoted[0], queries)
        if environment is None:
            time = np.broadcast_to(0, (C, B))  # intents do not depend on it
        else:
            time = (context.round * B + np.arange(B)) * C + np.arange(C)[:, np.newaxis]
        intents = self._intents(context, kinds, time)
        # All B interactions are drawn, and some left out afterwards: those that stay get the same numbers.
        sizes = self._sizes(context.clients)
        if (sizes < B).any():
            queries = np.where(np.arange(B) >= sizes[:, np.newaxis], -1, queries)
        if environment is not None and environment.kept is not None:
            queries = np.where(intents != environment.kept, -1, queries)
        asked = QueryAssignment(queries, intents, self._ways(context, kinds, intents))
        if (queries >= 0).all():
            return asked
        # Clients that send metrics average the first interactions, so these must stand in front; a stable
        # sort keeps their order.
        order = np.argsort(queries < 0, axis=1, kind="stable")
        return QueryAssignment(*(np.take_along_axis(each, order, axis=1) for each in asked))

    def assign(self, queries: Ints, context: RoundContext) -> QueryAssignment:
        """The given queries (C, B) with the intents and click models of clients (C,) after the training.

        Clients have the traits of their group, except for the click model and the number of interactions. A
        client that holds no document of a query ranks all of them.
        """
        C, B = queries.shape
        kinds = self._kinds(context, B)
        places = self.world.places[self._holding(kinds), queries]
        time = np.full((C, B), max(0, self.clients.total - 1))
        intents = self._intents(context, kinds, time)
        return QueryAssignment(
            np.where(places >= 0, places, queries), intents, self._ways(context, kinds, intents)
        )

    def weights(self, time: int) -> Floats:
        """How likely each intent is among all interactions at a time, float64 (I,)."""
        environment = self.clients.environment
        for trait in self.clients.population.traits:
            wanted = [value.intent for value in trait.values if value.intent is not None]
            if wanted:
                return np.asarray(np.bincount(wanted, minlength=self.world.intents) / len(wanted))
        if environment is None:
            return np.ones(1)
        if environment.kept is not None:
            return np.asarray(np.eye(self.world.intents)[environment.kept])
        return np.asarray(environment.probabilities([time])[0])

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
        found, population = [], self.clients.population
        for trait, own in zip(population.traits, population.own(context.clients), strict=True):
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
        for trait, kind in zip(self.clients.population.traits, kinds, strict=True):
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
        environment, learner = self.clients.environment, self.clients.learner
        if environment is None:
            return np.broadcast_to(np.maximum(own, 0), time.shape)
        C, B = time.shape
        draws = context.streams("scenario/intents").uniform(B)
        chances = environment.probabilities(time.reshape(-1)).reshape(C, B, -1)
        mirrored = isinstance(learner, MetricLearner) and learner.antithetic
        if mirrored and environment.kept is not None and B % 2 == 0:
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
        sizes, population = np.full(clients.size, self.clients.learner.interactions), self.clients.population
        for trait, own in zip(population.traits, population.own(clients), strict=True):
            given = np.array([value.interactions or 0 for value in trait.values])[own]
            sizes = np.where(given > 0, given, sizes)
        return sizes

    @cached_property
    def _users(self) -> SearchHistory | None:
        return SearchHistory.of(self.world.data)

    @cached_property
    def _pools(self) -> list[Ints]:
        return [places[places >= 0] for places in self.world.places]


@dataclass(frozen=True, kw_only=True)
class ClientPopulation:
    """The clients that scenarios describe, for some learner and data.

    Attributes:
        spec: scenarios, number of clients and size of a cohort.
        rounds: number of rounds.
        learner: what they learn with; it says how many interactions they have in a round.
        intents_of_data: number of intents in the data.
        largest_label: largest grade in the data.
    """

    spec: PopulationSpec
    rounds: int
    learner: Learner
    intents_of_data: int
    largest_label: int

    @cached_property
    def scenarios(self) -> tuple[Scenario, ...]:
        return parse_scenarios(self.spec.scenario)

    def _context(self, interactions: int) -> ScenarioContext:
        """What scenarios may know, with time as if every client had so many interactions in a round."""
        return ScenarioContext(
            intents=self.intents_of_data,
            largest_label=self.largest_label,
            interactions=self.learner.interactions,
            total=interactions * self.spec.cohort_size * self.rounds,
        )

    @cached_property
    def population(self) -> Population:
        """The clients and their traits.

        Raises:
            UsageError: a scenario that does not fit the data or the learner.
        """
        population, context = Population(), self._context(self.learner.interactions)
        for scenario in self.scenarios:
            found = scenario.population(population, context)
            population = one_of(f"scenario {scenario.name}: population", found, Population)
        return population.clicking(lambda text: make(ClickModel, text).text)

    @property
    def sizes(self) -> list[int]:
        """The numbers of interactions that clients may have in a round, before any is left out."""
        sizes = [value.interactions for value in self.population.values]
        return [size for size in sizes if size is not None] or [self.learner.interactions]

    @property
    def interactions(self) -> int:
        """The most interactions of a client in a round, B."""
        return max(self.sizes)

    @property
    def alike_in_number(self) -> bool:
        """Whether every client has B interactions in a round."""
        several = any(value.interactions for value in self.population.values)
        return not several and (self.environment is None or self.environment.kept is None)

    @property
    def lists_follow_clicks(self) -> bool:
        """Whether a client's lists follow from its clicks on earlier ones of the same message."""
        return self.interactions > 1 and self.learner.ranked_with == "local"

    @property
    def largest_weight(self) -> float:
        """The largest weight of a client in a sum of models over the smallest."""
        fewest = 1 if self.may_send_nothing else min(self.sizes)
        return self.interactions / fewest if self.learner.sends == "models" else 1.0

    @property
    def may_send_nothing(self) -> bool:
        """Whether all interactions of a client may be left out, so that it has no weight in a sum."""
        return self.environment is not None and self.environment.kept is not None

    @property
    def total(self) -> int:
        """Interactions of the whole training, as if every client were the busiest one."""
        return self._context(self.interactions).total

    @cached_property
    def environment(self) -> Environment | None:
        """How likely each intent is over time; None where no scenario defines it.

        Raises:
            UsageError: a scenario that cannot be here, or two that say so.
        """
        said = {
            scenario.name: scenario.environment(self._context(self.interactions))
            for scenario in self.scenarios
        }
        found = {
            name: one_of(f"scenario {name}: environment", environment, Environment)
            for name, environment in said.items()
            if environment is not None
        }
        if len(found) > 1:
            raise UsageError(f"scenario {' and '.join(found)}: both define how intents change; expected one")
        if found and self.population.have_intents:
            raise UsageError(
                f"scenario {next(iter(found))}: clients have intents of their own; expected one or the other"
            )
        return next(iter(found.values()), None)

    @property
    def intents(self) -> int:
        """Number of intents that clients distinguish; 1 where relevance under any of them counts."""
        several = self.environment is not None or self.population.have_intents
        return self.intents_of_data if several else 1

    def twins(self) -> dict[str, PopulationSpec]:
        """What these clients are compared with, by name: the same but for scenarios with such a twin."""
        texts = {scenario.name: scenario.text for scenario in self.scenarios}
        changes: dict[str, dict[str, str]] = {}
        context = self._context(self.interactions)
        for scenario in self.scenarios:
            twins = one_of(f"scenario {scenario.name}: twins", scenario.twins(context), dict)
            for name, text in twins.items():
                changes.setdefault(name, {})[scenario.name] = text
        found = {name: "+".join((texts | change).values()) for name, change in changes.items()}
        return {name: self.spec.model_copy(update={"scenario": text}) for name, text in found.items()}

    def traffic(
        self,
        data: Dataset,
        origin: QueryOrigin,
        click_model: str,
        *,
        own_clicks: bool,
        malicious: MaliciousClients | None = None,
    ) -> QueryTraffic:
        """What the clients search for in some data; with `own_clicks` as the click models of their traits do.

        Malicious clients may have a click model of their own, which comes last.

        Raises:
            UsageError: a scenario that does not fit the data or the learner.
        """
        values = self.population.values
        own = [value.click_model for value in values if value.click_model is not None and own_clicks]
        poison = None if malicious is None else malicious.poisoning.click_model
        texts = [*dict.fromkeys(own or [click_model]), *([] if poison is None else [poison])]
        world = ClientData.of(
            data,
            origin,
            [make(ClickModel, text) for text in texts],
            largest_label=self.largest_label,
            intents=self.intents,
            holdings=list(dict.fromkeys(value.grades for value in values if value.grades is not None)),
        )
        if malicious is not None and poison is not None:
            world = replace(world, promoted=malicious.promoted_row(data))
        return QueryTraffic(world=world, clients=self, poisoned=None if poison is None else malicious)


def population_facts(
    clients: ClientPopulation, data: Dataset, click_model: str
) -> dict[str, JsonValue] | None:
    """Clients on some data in numbers; None if all are alike, or every strength is 0: then groups are names.

    The click model is that of clients who have none of their own. The facts of a group are of its clients or,
    with a strength below 1, of where interactions follow the client's own value. Intents count from 1, and
    relevant documents over all intents unless the clients have one of their own.
    """
    population, count = clients.population, clients.spec.clients
    if population.n_groups == 1 or all(trait.strength == 0 for trait in population.traits):
        return None
    usual = TraitValue(name="", click_model=click_model, interactions=clients.learner.interactions)
    values = list(product(*(trait.values for trait in population.traits)))
    each, more = divmod(count, len(values))
    groups: list[JsonValue] = []
    for number, (name, given) in enumerate(zip(population.groups, values, strict=True)):
        size, own = each + (number < more), usual
        for value in given:  # of those that set a field the last one counts
            own = replace(own, **{field: told for field, told in vars(value).items() if told is not None})
        judged = data.grades if clients.intents > 1 else data.labels[np.newaxis]
        if own.intent is not None:
            judged = data.grades[own.intent : own.intent + 1]
        queries, relevant = _held(data, own.grades, judged)
        groups.append(
            {
                "group": name,
                "clients": size,
                "share": size / count,
                "intent": None if own.intent is None else own.intent + 1,
                "grades": None if own.grades is None else list(own.grades),
                "click_model": own.click_model,
                "interactions": own.interactions,
                "queries": queries,
                "relevant_per_query": relevant,
            }
        )
    return {
        "scenario": clients.spec.scenario,
        "clients": count,
        "strengths": {trait.name: trait.strength for trait in population.traits},
        "groups": groups,
    }


def _held(data: Dataset, grades: Sequence[int] | None, judged: Ints) -> tuple[int, float]:
    """Queries with a document of some grades, and the mean number of relevant ones for one of them."""
    held = np.ones(data.n_documents, dtype=np.bool_) if grades is None else np.isin(data.labels, grades)
    queries = int((np.add.reduceat(held, data.offsets[:-1]) > 0).sum())
    relevant = ((judged > 0) & held).sum(axis=1).mean()
    return queries, float(relevant / queries) if queries else 0.0
