"""From a Spec and its data to the objects of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import ClickModel, Learner, ModelLearner, Poisoning, RoundContext, Server
from foltr_audit.core.plugins.answers import all_of, array_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import Ranker, make_ranker
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.defaults import SERVER
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.intents import balance_collection
from foltr_audit.errors import UsageError
from foltr_audit.rng import Streams
from foltr_audit.simulation.client import ClientRules
from foltr_audit.simulation.client_population import (
    ClientPopulation,
    MaliciousClients,
    QueryTraffic,
    refuse_missing_users,
)
from foltr_audit.simulation.cohorts import CohortSampler, chosen_cohort
from foltr_audit.simulation.privacy_description import PrivacyDescription
from foltr_audit.utils.arrays import Floats, Ints

L = TypeVar("L", bound=Learner)


def number_intents(spec: Spec, collection: Collection) -> Collection:
    """The data with each query's intents numbered again by seed and repetition, if the Spec says so."""
    if spec.data.balance is False:
        return collection
    return balance_collection(collection, Streams(spec.seed, spec.repetition))


def twin_specs(spec: Spec, clients: ClientPopulation) -> dict[str, Spec]:
    """The Specs that one is compared with, by name: the same but for the scenarios of its clients."""
    found = {name: spec.model_copy(update={"population": one}) for name, one in clients.twins().items()}
    return {name: twin for name, twin in found.items() if twin != spec}


def learner_as(learner: Learner, kind: type[L]) -> L:
    """The learner, checked to be of a kind.

    Raises:
        UsageError: its clients send something else.
    """
    if not isinstance(learner, kind):
        raise UsageError(
            f"learner {learner.name}: it sends {learner.sends}; expected one that sends {kind.sends}"
        )
    return learner


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
        return Streams(self.spec.seed, self.spec.repetition)

    @cached_property
    def ranker(self) -> Ranker:
        return make_ranker(self.spec.train.ranker, self.collection.n_features)

    @cached_property
    def learner(self) -> Learner:
        return make(Learner, self.spec.train.learner)

    @cached_property
    def server(self) -> Server:
        return make(Server, self.spec.train.server or SERVER)

    @property
    def embeds_features(self) -> bool:
        """Whether records hold the features on which clients train."""
        return self.spec.trace.embed_features or self.server.manipulates

    def served(self, traffic: QueryTraffic) -> QueryTraffic:
        """The same traffic, in which clients train on the features that the server sends.

        Raises:
            PluginError: features of another shape.
        """
        data = traffic.world.data
        draws = self.streams.clients("server/features", 0, np.arange(data.n_documents))
        given = self.server.training_features(data, draws)
        who = f"server {self.server.name}: training_features"
        changed = all_of(who, given, (np.ndarray,), "arrays")
        checked = [array_of(who, one, data.features.shape) for one in changed]
        single = data.features.dtype == np.float32
        trained = tuple(
            data.with_features(one.astype(np.float32) if single else one.astype(np.float64))
            for one in checked
        )
        return replace(traffic, world=replace(traffic.world, trained=trained)) if trained else traffic

    @cached_property
    def chain(self) -> DefenseChain:
        return DefenseChain(parse_chain(self.spec.defense))

    @cached_property
    def clients(self) -> ClientPopulation:
        """Who the clients are.

        Raises:
            UsageError: more clients than the data have users.
        """
        number = self.spec.population.clients
        refuse_missing_users(self.collection.train, number, f"{number} clients")
        return ClientPopulation(
            spec=self.spec.population,
            rounds=self.spec.train.rounds,
            learner=self.learner,
            intents_of_data=self.collection.n_intents,
            largest_label=self.collection.largest_label,
        )

    @cached_property
    def malicious(self) -> MaliciousClients | None:
        """The malicious clients; None if everybody is honest."""
        population = self.spec.population
        if population.poisoning is None:
            return None
        return MaliciousClients(
            poisoning=make(Poisoning, population.poisoning), clients=population.clients, streams=self.streams
        )

    def cohort(self, round_: int) -> Ints:
        """Ids of the clients that play a training round, rising."""
        return chosen_cohort(self.server, self._sampler, round_)

    @cached_property
    def _sampler(self) -> CohortSampler:
        return self.cohorts(np.arange(self.spec.population.clients), self.streams)

    def cohorts(self, clients: Ints, streams: Streams) -> CohortSampler:
        """The cohorts of the Spec, drawn from these clients (n,) with these streams."""
        population = self.spec.population
        return CohortSampler(
            clients=clients,
            size=population.cohort_size,
            separation=population.rounds_apart,
            streams=streams,
            fixed=population.cohorts == "fixed",
        )

    @cached_property
    def privacy(self) -> PrivacyDescription:
        """What the defenses do to messages, claim and fail to hold."""
        nobody, model = np.empty(0, dtype=np.int64), np.zeros(self.ranker.n_parameters)
        return PrivacyDescription(
            chain=self.chain,
            clients=self.clients,
            context=self.context(0, nobody, 0, model),
            server=self.server,
            poisoning=None if self.malicious is None else self.malicious.poisoning,
            searches=self._fewest_searches,
        )

    @property
    def _fewest_searches(self) -> int | None:
        """The fewest searches of a client in a search log; None where queries are drawn."""
        users, clients = self.collection.train.users, self.spec.population.clients
        return None if users is None else int(np.bincount(users)[:clients].min())

    def rules(self, click_model: ClickModel, *, sampled: bool) -> ClientRules:
        """The rules of clients that learn, with a click model and sampled or deterministic lists."""
        learner = learner_as(self.learner, ModelLearner)
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
        self, round_: int, clients: Ints, interactions: int | Ints, parameters: Floats, under: str = ""
    ) -> RoundContext:
        """The context of one round for these clients; shares are always those of a whole cohort.

        Outside of the training rounds `under` names the random streams apart, see `Streams.under`.
        """
        return RoundContext(
            round=round_,
            shares=self.spec.population.cohort_size,
            clients=clients,
            counts=np.broadcast_to(np.int64(interactions), clients.shape),
            parameters=parameters,
            source=self.streams.under(under),
            separation=self.spec.population.rounds_apart,
            message=self.spec.trace.message,
            number_format=self.spec.trace.dtype,
        )
