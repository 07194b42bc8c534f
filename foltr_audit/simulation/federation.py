"""Federated rounds: a cohort learns locally, defends, sends; the server averages and evaluates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.plugins.answers import array_of
from foltr_audit.core.query_origin import QueryOrigin
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.errors import PluginError
from foltr_audit.rng import Streams
from foltr_audit.simulation.cohort_sampler import CohortSampler
from foltr_audit.simulation.evaluation import OfflineMetrics, OnlineMetrics
from foltr_audit.simulation.intent_metrics import PLAYED
from foltr_audit.simulation.rounds import CohortMessages, RoundResult
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training import make_server
from foltr_audit.utils.arrays import Floats, Ints

TRAIN = 0
"""Index of the training split among the parts of a collection."""


class Federation:
    """The rounds of one experiment.

    Example:
        `for played in Federation(setup).rounds(start): print(played.metrics["offline_ndcg@10"])`
    """

    def __init__(self, setup: Setup, *, sums_only: bool = False) -> None:
        """Prepare the clients and the server; rounds run as `rounds` is iterated.

        With `sums_only` messages that the wire stage encodes are not kept: nobody looks at them.
        """
        self.setup = setup
        self.sums_only = sums_only
        train = setup.collection.train
        self.clientele = setup.served(
            setup.clients.traffic(
                train,
                QueryOrigin.of_part(TRAIN, train),
                setup.spec.train.click_model,
                own_clicks=True,
                malicious=setup.malicious,
            )
        )
        self.training = make_server(setup, self.clientele.world)
        self.online = OnlineMetrics(
            world=self.clientele.world,
            population=setup.clients.population,
            no_relevant=setup.spec.train.no_relevant,
        )
        self.evaluation = OfflineMetrics(setup.collection, setup.ranker, setup.clients, setup.spec.train)

    def cohort(self, round_: int) -> Ints:
        """Ids of the clients that play a round, rising; see `CohortSampler` and `Server.cohort`."""
        server, drawn = self.setup.server, self._cohorts.cohort(round_)
        if not server.chooses:
            return drawn
        who, chosen = f"server {server.name}: cohort", server.cohort(round_, self._cohorts.cohort)
        checked = array_of(who, chosen, (np.size(chosen),), "whole numbers").astype(np.int64)
        if (
            not checked.size
            or not np.isin(checked, self._cohorts.clients).all()
            or (np.diff(checked) <= 0).any()
        ):
            raise PluginError(
                f"{who} gave {checked[:5].tolist()}; expected rising ids of clients, at least one"
            )
        return checked

    @cached_property
    def _cohorts(self) -> CohortSampler:
        return self.cohorts(np.arange(self.setup.spec.population.clients), self.setup.streams)

    def cohorts(self, clients: Ints, streams: Streams) -> CohortSampler:
        """The cohorts of the Spec, drawn from these clients (n,) with these streams."""
        population = self.setup.spec.population
        return CohortSampler(
            clients=clients,
            size=population.cohort_size,
            separation=population.rounds_apart,
            streams=streams,
            fixed=population.cohorts == "fixed",
        )

    def rounds(self, start: Floats | GlobalModel, first: int = 0) -> Iterator[RoundResult]:
        """Play rounds first .. T-1 from a first model (P,), or from the server's state."""
        for round_ in range(first, self.setup.spec.train.rounds):
            played = self.play(start, round_)
            yield played
            start = played.after

    def play(self, start: Floats | GlobalModel, round_: int) -> RoundResult:
        """Play one round from a first model (P,), or from the server's state.

        Raises:
            DataError: the model is no longer finite.
        """
        before = start if isinstance(start, GlobalModel) else self.training.first(start)
        setup, cohort = self.setup, self.cohort(round_)
        context = setup.context(round_, cohort, self.clientele.most, before.parameters)
        if self.sums_only:
            context = replace(context, sums_only=True)
        context, asked, sent, after = self.exchange(context, before)
        metrics = self.online.compute(sent.interactions, asked, cohort)
        metrics |= self._offline(round_, after.parameters)
        metrics |= sent.wired.costs
        if setup.malicious is not None:
            metrics |= setup.malicious.promoted_rank(setup.collection.train, setup.ranker, after.parameters)
        if not setup.clients.alike_in_number:
            metrics[PLAYED] = float(asked.counts.sum())
        return RoundResult(
            context=context,
            sent=sent,
            after=after,
            metrics=metrics,
            asked=asked,
            world=self.clientele.world,
            embeds=setup.embeds_features,
        )

    def exchange(
        self, context: RoundContext, before: GlobalModel
    ) -> tuple[RoundContext, QueryAssignment, CohortMessages, GlobalModel]:
        """Let the clients of a context ask, learn and send; nothing is evaluated.

        Returns the context with the number of interactions of each client, their queries, what they sent, and
        the server's state after it.

        Raises:
            DataError: the model is no longer finite.
        """
        asked = self.clientele.ask(context)
        context = replace(context, counts=asked.counts)  # known only once the clients have asked
        sent, after = self.training.play(asked, context, before)
        return context, asked, sent, after

    def _offline(self, round_: int, parameters: Floats) -> dict[str, float]:
        """Offline metrics of the model (P,) after a round, under the intents of its last interaction."""
        if not self._evaluates(round_):
            return self.evaluation.missing()
        return self.evaluation.metrics(parameters, self.weights_after(round_))

    def weights_after(self, round_: int) -> Floats:
        """How likely each intent (I,) is at the last interaction of a round."""
        played = (round_ + 1) * self.clientele.most * self.setup.spec.population.cohort_size
        return self.clientele.weights(played - 1)

    def _evaluates(self, round_: int) -> bool:
        train = self.setup.spec.train
        return (round_ + 1) % train.evaluate_every == 0 or round_ + 1 == train.rounds
