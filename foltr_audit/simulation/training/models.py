"""Rounds in which clients send models: local steps, the chain of defenses, FedAvg, and servers that learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Broadcast, ClickModel, RoundContext, Server, WireMessages
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records.interactions import GlobalModel, Payload
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.settings.defaults import SERVER_CLICKS
from foltr_audit.simulation.client import ClientSimulator, CohortInteractions
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.simulation.malicious_clients import MaliciousClients
from foltr_audit.simulation.rounds import CohortMessages
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training.base import check_finite, to_format
from foltr_audit.utils.arrays import Floats, Ints

_CONVERTED = 4_000_000
"""Numbers of messages that are converted to float64 at once."""


@dataclass(frozen=True)
class AggregatedMessages:
    """What the server made of the messages of a round.

    Attributes:
        value: the aggregate, float64 (P,); NaN without any message.
        weights: weights of the messages in it, float64 (C,), which sum to 1; 0 for messages that were lost.
    """

    value: Floats
    weights: Floats


class ServerAggregator(Protocol):
    def aggregate(self, wired: WireMessages, counts: Ints) -> AggregatedMessages:
        """The aggregate of messages (C, P) of clients with `counts` (C,) interactions each."""


class WeightedMean:
    """FedAvg: the mean of the messages that arrived, weighted by interactions.

    Encoded messages are averaged from their sum.

    Source: McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data",
    algorithm 1.
    """

    def aggregate(self, wired: WireMessages, counts: Ints) -> AggregatedMessages:
        """The weighted mean; without any message it is NaN, and the caller keeps its model."""
        weights = np.where(wired.survivors, counts, 0).astype(np.float64)
        total = weights.sum()
        weights = weights / total if total > 0 else weights
        if not total > 0 or (wired.is_encoded and wired.sum is None):
            mean = np.full(wired.messages.shape[1], np.nan)
        elif wired.sum is not None:
            mean = np.asarray(wired.sum / total)
        else:
            mean = _weighted_sum(wired.messages, weights)
        return AggregatedMessages(mean, weights)


def _weighted_sum(messages: Floats | NDArray[np.float32] | NDArray[np.uint64], weights: Floats) -> Floats:
    """The weighted sum (P,) of messages (C, P), in float64.

    Each parameter is summed on its own, so that only some columns are converted at once.
    """
    from foltr_audit.kernels.messages import weighted_sum

    C, P = messages.shape
    width = P if messages.dtype == np.float64 else max(1, _CONVERTED // max(1, C))
    parts = [
        weighted_sum(messages[:, first : first + width].astype(np.float64, copy=False), weights)
        for first in range(0, P, max(1, width))
    ]
    return np.concatenate([np.zeros(0), *parts])


_PREFIX = "server-queries/"


@dataclass(frozen=True, eq=False)
class ServerLearning:
    """A server that learns as one client would, without defenses, from queries that it has labelled.

    Attributes:
        setup: the experiment; its defenses say how many queries the server owns.
    """

    setup: Setup

    @cached_property
    def queries(self) -> Ints:
        """The queries of the training split that the server owns, rising, int64; drawn once."""
        every = self.setup.collection.train.n_queries
        draws = self.setup.streams.clients(f"{_PREFIX}owned", 0, np.zeros(1, dtype=np.int64)).uniform(every)
        return np.sort(np.argsort(draws[0], kind="stable")[: self.setup.chain.server_queries])

    @cached_property
    def _learner(self) -> ClientSimulator:
        collection = self.setup.collection
        clicks = make(ClickModel, SERVER_CLICKS)
        rules = replace(self.setup.rules(clicks, sampled=True), chain=DefenseChain(()))
        return ClientSimulator(rules, ClientData.alike(collection.train, clicks, collection.largest_label))

    def update(self, context: RoundContext) -> Floats | None:
        """The server's update of the global model in a round, float64 (P,); None without queries."""
        if not self.queries.size:
            return None
        steps = self.setup.clients.interactions
        server = replace(
            self.setup.context(context.round, np.zeros(1, dtype=np.int64), steps, context.parameters),
            prefix=_PREFIX,
        )
        drawn = np.floor(server.streams("queries").uniform(steps) * self.queries.size).astype(np.int64)
        local, _ = self._learner.play(QueryAssignment.alike(self.queries[drawn]), server)
        return np.asarray(local.models[0] - context.parameters)


_WEIGHTED_MEAN = WeightedMean()

SentModels = NDArray[np.float32] | Floats
"""Models or updates (C, P) in the number format of messages."""

BLOCK_NUMBERS = 500_000
"""Parameters of the local models that are in memory at once: 4 MB in each array of them."""


class ModelSenders:
    """Clients that take local steps, defend their model and send it."""

    def __init__(
        self,
        setup: Setup,
        world: ClientData,
        *,
        sampled: bool,
        server: Server | None = None,
        malicious: MaliciousClients | None = None,
    ) -> None:
        """Store who sends the model and who is malicious; kernels are compiled in the first round."""
        self.setup = setup
        self.server = server
        self.malicious = malicious
        self.clients = ClientSimulator(setup.rules(world.click_model, sampled=sampled), world)

    @cached_property
    def _without_contrast(self) -> ClientSimulator:
        """The same clients, to whom all documents are sent with the same features."""
        world = self.clients.world
        flat = replace(world.data, features=np.ones_like(world.data.features))
        return ClientSimulator(self.clients.rules, replace(world, data=flat))

    def send(self, asked: QueryAssignment, context: RoundContext) -> CohortMessages:
        """Local steps, message and wire stage of clients that ask queries (C, B).

        Messages that the wire stage encodes as integers are not rounded to another number format first.

        Raises:
            DataError: a message is not finite in its number format.
            UsageError: the wire stage cannot encode a message.
        """
        chain, trace = self.setup.chain, self.setup.spec.trace
        if self.clients.world.trained:
            context = replace(context, manipulated=True)
        dtype = trace.dtype if chain.encoding is None else "float64"
        broadcast = None if self.server is None else self.server.send(context)
        if broadcast is None:
            sent, updates, interactions = self._in_blocks(asked, context, dtype)
        else:
            context = replace(
                context,
                received=broadcast.received,
                contrast=broadcast.contrast,
                reopened=broadcast.reopened,
            )
            models, updates, interactions = self._answers(broadcast, asked, context)
            sent = self._in_format(models, broadcast.received, dtype, context)
        # The server works with what was really sent, so the number format rounds before anything is summed.
        wired = chain.on_wire(sent, context)
        messages: Payload = wired.messages
        if not wired.is_encoded:
            messages = sent if wired.messages is sent else to_format(wired.messages, dtype, context.round)
        return CohortMessages(
            messages=messages,
            wired=wired,
            updates=updates,
            interactions=interactions,
            broadcast=broadcast,
        )

    def _in_blocks(
        self, asked: QueryAssignment, context: RoundContext, dtype: str
    ) -> tuple[SentModels, Floats, CohortInteractions]:
        """What clients send (C, P) in a number format, their updates (C, P), and the interactions.

        Clients play block after block, so that a large cohort needs its messages once, in their own format,
        and no copy in float64 of all of them. What a client does depends on no other client.
        """
        C, P = context.clients.size, context.parameters.size
        blocks = list(self._blocks(C, P))
        if len(blocks) == 1:  # without copies
            models, steps, done = self._defended(self.clients, asked, context)
            return self._in_format(models, context.parameters, dtype, context), steps, done
        sent, updates = np.empty((C, P), dtype=dtype), np.empty((C, P))
        played = []
        for rows in blocks:
            models, updates[rows], done = self._defended(self.clients, asked.at(rows), context.at(rows))
            sent[rows] = self._in_format(models, context.parameters, dtype, context)
            played.append(done)
        return sent, updates, CohortInteractions.joined(played)

    def _blocks(self, clients: int, parameters: int) -> Iterator[Ints]:
        """The rows of each block of clients; one block of all where malicious clients see each other."""
        together = self.malicious is not None and self.malicious.poisoning.sends_otherwise
        size = max(1, clients if together else BLOCK_NUMBERS // max(1, parameters))
        for first in range(0, max(1, clients), size):
            yield np.arange(first, min(first + size, clients))

    def _in_format(self, models: Floats, starts: Floats, dtype: str, context: RoundContext) -> SentModels:
        """Models (C, P) as messages: what is sent of them, in its number format."""
        if self.setup.spec.trace.message == "update":
            models = models - starts
        return to_format(models, dtype, context.round)

    def _defended(
        self, clients: ClientSimulator, asked: QueryAssignment, context: RoundContext
    ) -> tuple[Floats, Floats, CohortInteractions]:
        """Models (C, P) that clients send, updates (C, P) without a defense, and the interactions."""
        local, interactions = clients.play(asked, context)
        models = self.setup.chain.on_message(local.models, context)
        if self.malicious is not None and self.malicious.poisoning.sends_otherwise:
            models = self.malicious.poisoned(models, local.models, context)
        return models, local.steps, interactions

    def _answers(
        self, broadcast: Broadcast, asked: QueryAssignment, context: RoundContext
    ) -> tuple[Floats, Floats, CohortInteractions]:
        """The same of clients that received different things, each in its row."""
        answers = []
        for one in broadcast.deliveries:
            clients = self.clients if one.contrast else self._without_contrast
            here = replace(context.at(one.rows), parameters=one.parameters)
            models, updates, done = self._defended(clients, asked.at(one.rows), here)
            if one.own:  # the server's own clients only seem to take part
                models = np.tile(one.parameters, (one.rows.size, 1))
            answers.append((models, updates, done))
        order = np.argsort(np.concatenate([one.rows for one in broadcast.deliveries]))
        models, updates = (np.concatenate([answer[i] for answer in answers])[order] for i in (0, 1))
        return models, updates, CohortInteractions.joined([answer[2] for answer in answers], order)


class FedAvgServer:
    """A server that aggregates the models of its cohort."""

    def __init__(
        self, setup: Setup, world: ClientData, aggregator: ServerAggregator = _WEIGHTED_MEAN
    ) -> None:
        self.aggregator = aggregator
        self.setup = setup
        self.own = ServerLearning(setup)
        self.senders = ModelSenders(
            setup, world, sampled=True, server=setup.server, malicious=setup.malicious
        )

    def first(self, parameters: Floats) -> GlobalModel:
        """The first model (P,), without other state."""
        return GlobalModel(parameters)

    def play(
        self, asked: QueryAssignment, context: RoundContext, before: GlobalModel
    ) -> tuple[CohortMessages, GlobalModel]:
        """See `TrainingServer.play`. Without any message or any query the model stays as it is."""
        sent = self.senders.send(asked, context)
        return sent, self.aggregate(sent.wired, context, before)

    def aggregate(self, wired: WireMessages, context: RoundContext, before: GlobalModel) -> GlobalModel:
        """The global model after messages (C, P) of clients with `context.counts` interactions.

        Raises:
            DataError: it is not finite.
        """
        if not context.counts[wired.survivors].any():
            return before
        found = self.aggregator.aggregate(wired, context.counts)
        learnt = self.own.update(context)
        informed = context if learnt is None else replace(context, server_update=learnt)
        mean = self.setup.chain.on_aggregate(found.value, wired, found.weights, informed)
        after = before.parameters + mean if self.setup.spec.trace.message == "update" else mean
        return GlobalModel(check_finite(after, context.round))
