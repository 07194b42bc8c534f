"""Federated rounds: a cohort learns locally, defends, sends; the server averages and evaluates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from foltr_audit.core.query_origin import QueryOrigin
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.simulation.evaluation import OfflineMetrics, OnlineMetrics
from foltr_audit.simulation.intent_metrics import PLAYED
from foltr_audit.simulation.rounds import RoundResult
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training import make_server
from foltr_audit.utils.arrays import Floats, Ints

TRAIN = 0
"""Index of the training part among the parts of a collection."""


class Federation:
    """The rounds of one experiment.

    Example:
        `for played in Federation(setup).rounds(start): print(played.metrics["offline_ndcg@10"])`
    """

    def __init__(self, setup: Setup) -> None:
        """Prepare the clients and the server; rounds run as `rounds` is iterated."""
        self.setup = setup
        train = setup.collection.train
        self.clientele = setup.clients.traffic(
            train, QueryOrigin.of_part(TRAIN, train), setup.spec.train.click_model, own_clicks=True
        )
        self.training = make_server(setup, self.clientele.world)
        self.online = OnlineMetrics(
            world=self.clientele.world,
            population=setup.clients.population,
            no_relevant=setup.spec.train.no_relevant,
        )
        self.evaluation = OfflineMetrics(setup.collection, setup.ranker, setup.clients, setup.spec.train)

    def cohort(self, round_: int) -> Ints:
        """Ids of the clients that play a round, rising.

        A uniform sample without replacement: of all clients, or with a `separation` of b rounds of the b-th
        part of them whose turn it is. The clients with the smallest tickets play. A client's ticket comes
        from its own stream, so that more clients do not change the tickets of the others.
        """
        population = self.setup.spec.population
        able = self._turns[round_ % len(self._turns)]
        if population.cohort_size == able.size:
            return able
        tickets = self.setup.streams.clients("cohort", round_, able).uniform(1)[:, 0]
        # The largest ticket that plays, found without sorting all. Of equal tickets the lower ids play, so
        # that the cohort has its size.
        last = np.partition(tickets, population.cohort_size - 1)[population.cohort_size - 1]
        chosen, tied = np.flatnonzero(tickets < last), np.flatnonzero(tickets == last)
        return np.asarray(
            able[np.sort(np.concatenate([chosen, tied[: population.cohort_size - chosen.size]]))]
        )

    @cached_property
    def _turns(self) -> list[Ints]:
        """The clients that may play in rounds t, t + b, t + 2 b, ... for each t below b, by rising ids.

        Their order is drawn once, and every b-th client of it belongs to one t. So a round follows from its
        number alone, and no record of earlier cohorts is needed.

        Source: Choquette-Choo et al. 2023, "(Amplified) banded matrix factorization: a unified approach to
        private training", algorithm 2.
        """
        population = self.setup.spec.population
        everybody, apart = np.arange(population.clients), population.rounds_apart
        if apart == 1:
            return [everybody]
        tickets = self.setup.streams.clients("separation", 0, everybody).uniform(1)[:, 0]
        order = np.argsort(tickets, kind="stable")
        return [np.sort(order[turn::apart]) for turn in range(apart)]

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
        setup, cohort, most = self.setup, self.cohort(round_), self.clientele.most
        context = setup.context(round_, cohort, most, before.parameters)
        asked = self.clientele.ask(context)
        context = replace(context, counts=asked.counts)  # known only once the clients have asked
        sent, after = self.training.play(asked, context, before)
        metrics = self.online.compute(sent.interactions, asked, cohort)
        metrics |= self._offline(round_, after.parameters)
        metrics |= sent.wired.costs
        if not setup.clients.alike_in_number:
            metrics[PLAYED] = float(asked.counts.sum())
        return RoundResult(
            context=context,
            sent=sent,
            after=after,
            metrics=metrics,
            asked=asked,
            world=self.clientele.world,
            embeds=setup.spec.trace.embed_features,
        )

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
