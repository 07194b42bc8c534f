"""Rounds in which clients send models: local steps, the chain of defenses, FedAvg."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.records.interactions import GlobalModel, Payload
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.simulation.client import ClientSimulator
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.simulation.rounds import CohortMessages
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training.base import finite, in_format
from foltr_audit.utils.arrays import Floats


class ModelSenders:
    """Clients that take local steps, defend their model and send it."""

    def __init__(self, setup: Setup, world: ClientData, *, sampled: bool) -> None:
        """Nothing is compiled or played yet."""
        self.setup = setup
        self.clients = ClientSimulator(setup.rules(world.click_model, sampled=sampled), world)

    def send(self, asked: QueryAssignment, context: RoundContext) -> CohortMessages:
        """Local steps, message and wire stage of clients that ask queries (C, B).

        What the wire stage encodes as integers is not rounded to another number format before.

        Raises:
            DataError: a message is not finite in its number format.
            UsageError: a message that the wire stage cannot encode.
        """
        local, interactions = self.clients.play(asked, context)
        chain, trace = self.setup.chain, self.setup.spec.trace
        models = chain.on_message(local.models, context)
        if trace.message == "update":
            models = models - context.parameters
        dtype = trace.dtype if chain.encoding is None else "float64"
        sent = in_format(models, dtype, context.round)
        plain = sent.astype(np.float64)
        wired = chain.on_wire(plain, context)
        messages: Payload = wired.messages
        if not wired.is_encoded:
            messages = sent if wired.messages is plain else in_format(wired.messages, dtype, context.round)
        return CohortMessages(messages=messages, wired=wired, updates=local.steps, interactions=interactions)


class FedAvgServer:
    """A server that averages the models of its cohort."""

    def __init__(self, setup: Setup, world: ClientData) -> None:
        """Nothing is played yet."""
        self.setup = setup
        self.senders = ModelSenders(setup, world, sampled=True)

    def first(self, parameters: Floats) -> GlobalModel:
        """The first model (P,), and nothing beside it."""
        return GlobalModel(parameters)

    def play(
        self, asked: QueryAssignment, context: RoundContext, before: GlobalModel
    ) -> tuple[CohortMessages, GlobalModel]:
        """See `Training.play`. Where nothing arrives, or nobody asked anything, the model stays."""
        sent = self.senders.send(asked, context)
        if not context.counts[sent.wired.survivors].any():
            return sent, before
        mean = self.setup.chain.on_aggregate(sent.wired, context)
        after = before.parameters + mean if self.setup.spec.trace.message == "update" else mean
        return sent, GlobalModel(finite(after, context.round))
