"""The clients of an experiment, as its scenarios describe them: who they are, and what they want when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TypeVar

import numpy as np

from foltr_audit.core.plugins import (
    ClickModel,
    Environment,
    Learner,
    MetricLearner,
    Population,
    Scenario,
    ScenarioContext,
)
from foltr_audit.core.plugins.answers import one_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Dataset
from foltr_audit.core.records.dataset import QueryOrigin
from foltr_audit.core.records.population import TraitValue
from foltr_audit.core.settings.population import PopulationSpec, parse_scenarios
from foltr_audit.errors import UsageError
from foltr_audit.simulation.client import ClientData
from foltr_audit.simulation.malicious_clients import MaliciousClients
from foltr_audit.simulation.traffic import QueryTraffic
from foltr_audit.utils.arrays import Ints
from foltr_audit.utils.rows import ResultRow


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
    def per_round(self) -> int:
        """Interactions of a round if every client has B."""
        return self.interactions * self.spec.cohort_size

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
        kept = self.environment is not None and self.environment.kept is not None
        fewest = 1 if kept else min(self.sizes)  # a client without interactions sends nothing
        return self.interactions / fewest if self.learner.sends == "models" else 1.0

    @property
    def _time(self) -> ScenarioContext:
        """What scenarios may know, with time as if every client were the busiest one."""
        return self._context(self.interactions)

    @cached_property
    def environment(self) -> Environment | None:
        """How likely each intent is over time; None where no scenario defines it.

        Raises:
            UsageError: a scenario that cannot be here, or two that say so.
        """
        said = {scenario.name: scenario.environment(self._time) for scenario in self.scenarios}
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
        for scenario in self.scenarios:
            twins = one_of(f"scenario {scenario.name}: twins", scenario.twins(self._time), dict)
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
        return QueryTraffic(
            world=world,
            population=self.population,
            environment=self.environment,
            interactions=self.learner.interactions,
            most=self.interactions,
            total=self._time.total,
            paired=isinstance(self.learner, MetricLearner) and self.learner.antithetic,
            poisoned=None if poison is None else malicious,
        )


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class GroupFacts(ResultRow):
    """The clients of one group; with a strength below 1, where interactions follow the client's own value.

    Attributes:
        group: its name.
        clients: number of its clients.
        share: its share of the clients.
        intent: intent of its clients, from 1; None if they have none of their own.
        grades: labels of the documents that they hold; None for all.
        click_model: how they click.
        interactions: interactions of a client in a round.
        queries: training queries that they have documents for.
        relevant_per_query: mean number of relevant documents for one of these, over all intents unless they
            have one of their own.
    """

    group: str
    clients: int
    share: float
    intent: int | None
    grades: tuple[int, ...] | None
    click_model: str
    interactions: int
    queries: int
    relevant_per_query: float

    @classmethod
    def of(cls, own: TraitValue, clients: int, share: float, data: Dataset, intents: int) -> GroupFacts:
        """The facts of clients with some values, who distinguish so many intents of the data."""
        queries, relevant = _held(data, own.grades, _judged(data, own.intent, intents))
        return cls(
            group=own.name,
            clients=clients,
            share=share,
            intent=None if own.intent is None else own.intent + 1,
            grades=own.grades,
            click_model=own.click_model or "",
            interactions=own.interactions or 0,
            queries=queries,
            relevant_per_query=relevant,
        )


@dataclass(frozen=True, kw_only=True)
class PopulationFacts(ResultRow):
    """The clients of an experiment in numbers.

    Attributes:
        scenario: text of the scenarios.
        clients: number of clients.
        strengths: strength of each trait, by its name.
        groups: the groups, each with its own values.
    """

    scenario: str
    clients: int
    strengths: Mapping[str, float]
    groups: tuple[GroupFacts, ...]

    @classmethod
    def of(cls, clients: ClientPopulation, data: Dataset, click_model: str) -> PopulationFacts | None:
        """The clients on some data; None if all are alike, or every strength is 0: groups are names then.

        The click model is that of clients who have none of their own.
        """
        population, count = clients.population, clients.spec.clients
        if population.n_groups == 1 or all(trait.strength == 0 for trait in population.traits):
            return None
        usual = TraitValue(name="", click_model=click_model, interactions=clients.learner.interactions)
        values = list(product(*(trait.values for trait in population.traits)))
        each, more = divmod(count, len(values))
        groups = []
        for number, (name, own) in enumerate(zip(population.groups, values, strict=True)):
            size, joined = each + (number < more), _joined(name, (usual, *own))
            groups.append(GroupFacts.of(joined, size, size / count, data, clients.intents))
        return cls(
            scenario=clients.spec.scenario,
            clients=count,
            strengths={trait.name: trait.strength for trait in population.traits},
            groups=tuple(groups),
        )


def _joined(name: str, values: Sequence[TraitValue]) -> TraitValue:
    """All values as one; of those that set a field the last one counts."""
    found = TraitValue(name=name)
    for value in values:
        found = TraitValue(
            name=name,
            intent=_last_set(found.intent, value.intent),
            grades=_last_set(found.grades, value.grades),
            click_model=_last_set(found.click_model, value.click_model),
            interactions=_last_set(found.interactions, value.interactions),
        )
    return found


def _last_set(before: T | None, now: T | None) -> T | None:
    return before if now is None else now


def _judged(data: Dataset, intent: int | None, intents: int) -> Ints:
    """Grades under the intents that a client may have, int64 (intents, documents)."""
    if intent is not None:
        return data.grades[intent : intent + 1]
    return data.grades if intents > 1 else data.labels[np.newaxis]


def _held(data: Dataset, grades: Sequence[int] | None, judged: Ints) -> tuple[int, float]:
    """Queries with a document of some grades, and the mean number of relevant ones for one of them."""
    held = np.ones(data.n_documents, dtype=np.bool_) if grades is None else np.isin(data.labels, grades)
    queries = int((np.add.reduceat(held, data.offsets[:-1]) > 0).sum())
    relevant = ((judged > 0) & held).sum(axis=1).mean()
    return queries, float(relevant / queries) if queries else 0.0
