"""Rounds in which clients send models: local steps, the chain of defenses, FedAvg."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.records.interactions import GlobalModel, Payload
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.simulation.client import ClientSimulator
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.simulation.malicious_clients import MaliciousClients
from foltr_audit.simulation.rounds import CohortMessages
from foltr_audit.simulation.server_aggregator import ServerAggregator, WeightedMean
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training.base import check_finite, to_format
from foltr_audit.utils.arrays import Floats

_WEIGHTED_MEAN = WeightedMean()


class ModelSenders:
    """Clients that take local steps, defend their model and send it."""

    def __init__(
        self, setup: Setup, world: ClientData, *, sampled: bool, malicious: MaliciousClients | None = None
    ) -> None:
        """Store the setup and who is malicious; kernels are compiled in the first round."""
        self.setup = setup
        self.malicious = malicious
        self.clients = ClientSimulator(setup.rules(world.click_model, sampled=sampled), world)

    def send(self, asked: QueryAssignment, context: RoundContext) -> CohortMessages:
        """Local steps, message and wire stage of clients that ask queries (C, B).

        Messages that the wire stage encodes as integers are not rounded to another number format first.

        Raises:
            DataError: a message is not finite in its number format.
            UsageError: the wire stage cannot encode a message.
        """
        local, interactions = self.clients.play(asked, context)
        chain, trace = self.setup.chain, self.setup.spec.trace
        models = chain.on_message(local.models, context)
        if self.malicious is not None and self.malicious.poisoning.sends_otherwise:
            models = self.malicious.poisoned(models, local.models, context)
        if trace.message == "update":
            models = models - context.parameters
        dtype = trace.dtype if chain.encoding is None else "float64"
        sent = to_format(models, dtype, context.round)
        # The server works with what was really sent, so the number format rounds before anything is summed.
        plain = sent.astype(np.float64)
        wired = chain.on_wire(plain, context)
        messages: Payload = wired.messages
        if not wired.is_encoded:
            messages = sent if wired.messages is plain else to_format(wired.messages, dtype, context.round)
        return CohortMessages(messages=messages, wired=wired, updates=local.steps, interactions=interactions)


class FedAvgServer:
    """A server that aggregates the models of its cohort."""

    def __init__(
        self, setup: Setup, world: ClientData, aggregator: ServerAggregator = _WEIGHTED_MEAN
    ) -> None:
        """Store the setup and the rule of the server."""
        self.aggregator = aggregator
        self.setup = setup
        self.senders = ModelSenders(setup, world, sampled=True, malicious=setup.malicious)

    def first(self, parameters: Floats) -> GlobalModel:
        """The first model (P,), without other state."""
        return GlobalModel(parameters)

    def play(
        self, asked: QueryAssignment, context: RoundContext, before: GlobalModel
    ) -> tuple[CohortMessages, GlobalModel]:
        """See `TrainingServer.play`. Without any message or any query the model stays as it is."""
        sent = self.senders.send(asked, context)
        if not context.counts[sent.wired.survivors].any():
            return sent, before
        found = self.aggregator.aggregate(sent.wired, context.counts)
        mean = self.setup.chain.on_aggregate(found.value, sent.wired, found.weights, context)
        after = before.parameters + mean if self.setup.spec.trace.message == "update" else mean
        return sent, GlobalModel(check_finite(after, context.round))
