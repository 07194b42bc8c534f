"""From a Spec and its data to the objects of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import (
    ClickModel,
    Environment,
    Learner,
    MetricLearner,
    ModelLearner,
    Population,
    RoundContext,
    Scenario,
    ScenarioContext,
)
from foltr_audit.core.plugins.answers import one_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.query_origin import QueryOrigin
from foltr_audit.core.rankers import Ranker, make_ranker
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.spec.experiment import Spec
from foltr_audit.core.spec.population import parse_scenarios
from foltr_audit.data.intents import balance_collection
from foltr_audit.errors import UsageError
from foltr_audit.rng import Streams
from foltr_audit.simulation.client import ClientRules
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.simulation.privacy_description import PrivacyDescription
from foltr_audit.simulation.traffic import QueryTraffic
from foltr_audit.utils.arrays import Floats, Ints

L = TypeVar("L", bound=Learner)


def number_intents(spec: Spec, collection: Collection) -> Collection:
    """The data with each query's intents numbered again by seed and repetition, if the Spec says so."""
    if spec.data.balance is False:
        return collection
    return balance_collection(collection, Streams(spec.seed, spec.repetition))


@dataclass(frozen=True)
class Setup:
    """A Spec with its data: the one place where names become objects.

    Attributes:
        spec: the experiment.
        collection: the data, normalised and with intents numbered as the Spec says.
    """

    spec: Spec
    collection: Collection

    @cached_property
    def streams(self) -> Streams:
        """All random streams of this experiment."""
        return Streams(self.spec.seed, self.spec.repetition)

    @cached_property
    def ranker(self) -> Ranker:
        """The ranker."""
        return make_ranker(self.spec.train.ranker, self.collection.n_features)

    @cached_property
    def chain(self) -> DefenseChain:
        """The defenses."""
        return DefenseChain(parse_chain(self.spec.defense))

    @cached_property
    def privacy(self) -> PrivacyDescription:
        """What the defenses do to messages, claim and fail to hold."""
        return PrivacyDescription(self)

    @cached_property
    def scenarios(self) -> tuple[Scenario, ...]:
        """The scenarios that describe the clients."""
        return parse_scenarios(self.spec.population.scenario)

    @property
    def scenario_context(self) -> ScenarioContext:
        """What scenarios may know."""
        spec, interactions = self.spec, self.learner.interactions
        return ScenarioContext(
            intents=self.collection.n_intents,
            largest_label=self.collection.largest_label,
            interactions=interactions,
            total=interactions * spec.population.cohort_size * spec.train.rounds,
        )

    @cached_property
    def population(self) -> Population:
        """The clients and their traits.

        Raises:
            UsageError: a scenario that does not fit the data or the learner.
        """
        population = Population()
        for scenario in self.scenarios:
            found = scenario.population(population, self.scenario_context)
            population = one_of(f"scenario {scenario.name}: population", found, Population)
        return population.clicking(lambda text: self.click_model(text).text)

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
        kept = self.environment is not None and self.environment.kept is not None
        fewest = 1 if kept else min(self.sizes)  # a client without interactions sends nothing
        return self.interactions / fewest if self.learner.sends == "models" else 1.0

    @property
    def _time(self) -> ScenarioContext:
        """What scenarios may know, with time as if every client were the busiest one."""
        rounds, cohort = self.spec.train.rounds, self.spec.population.cohort_size
        return self.scenario_context._replace(total=self.interactions * cohort * rounds)

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
        return self.collection.n_intents if several else 1

    def twins(self) -> dict[str, Spec]:
        """The Specs that this one is compared with, by name: the same but for scenarios with such a twin."""
        texts = {scenario.name: scenario.text for scenario in self.scenarios}
        changes: dict[str, dict[str, str]] = {}
        for scenario in self.scenarios:
            twins = one_of(f"scenario {scenario.name}: twins", scenario.twins(self._time), dict)
            for name, text in twins.items():
                changes.setdefault(name, {})[scenario.name] = text
        found = {}
        for name, change in changes.items():
            population = self.spec.population.model_copy(
                update={"scenario": "+".join((texts | change).values())}
            )
            found[name] = self.spec.model_copy(update={"population": population})
        return {name: spec for name, spec in found.items() if spec != self.spec}

    def clientele(
        self, data: Dataset, origin: QueryOrigin, click_model: str, *, own_clicks: bool
    ) -> QueryTraffic:
        """The clients on some data; with `own_clicks` they use the click models of their traits.

        Raises:
            UsageError: a scenario that does not fit the data or the learner.
        """
        values = self.population.values
        own = [value.click_model for value in values if value.click_model is not None and own_clicks]
        world = ClientData.of(
            data,
            origin,
            [self.click_model(text) for text in dict.fromkeys(own or [click_model])],
            largest_label=self.collection.largest_label,
            intents=self.intents,
            holdings=list(dict.fromkeys(value.grades for value in values if value.grades is not None)),
        )
        return QueryTraffic(
            world=world,
            population=self.population,
            environment=self.environment,
            interactions=self.learner.interactions,
            most=self.interactions,
            total=self._time.total,
            paired=isinstance(self.learner, MetricLearner) and self.learner.antithetic,
        )

    @cached_property
    def learner(self) -> Learner:
        """The learner."""
        return make(Learner, self.spec.train.learner)

    def learner_as(self, kind: type[L]) -> L:
        """The learner, checked to be of a kind.

        Raises:
            UsageError: they send something else.
        """
        if not isinstance(self.learner, kind):
            sends, name = self.learner.sends, self.learner.name
            raise UsageError(f"learner {name}: it sends {sends}; expected one that sends {kind.sends}")
        return self.learner

    @property
    def message_kind(self) -> str:
        """What a message is before it is encoded: `model`, `update`, `es` or `clicks`."""
        return self.spec.message_kind

    def click_model(self, text: str) -> ClickModel:
        """A click model by its text."""
        return make(ClickModel, text)

    def rules(self, click_model: ClickModel, *, sampled: bool) -> ClientRules:
        """The rules of clients that learn, with a click model and sampled or deterministic lists."""
        learner = self.learner_as(ModelLearner)
        return ClientRules(
            ranker=self.ranker,
            learner=learner,
            chain=self.chain,
            click_model=click_model,
            largest_label=self.collection.largest_label,
            sampled=sampled,
            acts_without_pairs=learner.clip_without_pairs,
        )

    def context(
        self, round_: int, clients: Ints, interactions: int | Ints, parameters: Floats, prefix: str = ""
    ) -> RoundContext:
        """The context of one round for these clients; shares are always those of a whole cohort."""
        return RoundContext(
            round=round_,
            shares=self.spec.population.cohort_size,
            clients=clients,
            counts=np.broadcast_to(np.int64(interactions), clients.shape),
            parameters=parameters,
            source=self.streams,
            prefix=prefix,
        )
