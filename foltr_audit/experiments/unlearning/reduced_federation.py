"""Plays a Spec without some of its clients, from any model and with any random numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from foltr_audit.core.plugins import RoundContext, WireMessages
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.errors import UsageError
from foltr_audit.experiments.membership.shadow_training import QUERY_PURPOSES
from foltr_audit.experiments.stages import first_model
from foltr_audit.experiments.unlearning.update_history import StoredRound, UpdateHistory
from foltr_audit.rng import BranchStreams, Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training.models import FedAvgServer
from foltr_audit.utils.arrays import Floats, Ints

NOBODY = np.empty(0, dtype=np.int64)
"""No client."""


class ReducedFederation:
    """The rounds of a Spec without some of its clients.

    A cohort is drawn from all clients, and those that left are taken out of it. So with the same random
    numbers the others take part in the same rounds whoever left.
    """

    def __init__(self, setup: Setup) -> None:
        """Prepare the clients and the server.

        Raises:
            UsageError: clients do not send models.
        """
        self.setup = setup
        self.federation = Federation(setup)
        self.start = first_model(setup)
        if not isinstance(self.federation.training, FedAvgServer):
            raise UsageError(f"learner {setup.learner.name}: unlearning needs messages that are models")
        self.server = self.federation.training
        self.most = self.federation.clientele.most
        self._everybody = np.arange(setup.spec.population.clients)

    def streams(self, branch: str) -> Streams:
        """Random numbers of their own; what clients search for is the same in all branches."""
        spec = self.setup.spec
        return BranchStreams(spec.seed, spec.repetition, branch=f"unlearning/{branch}", shared=QUERY_PURPOSES)

    def context(self, round_: int, clients: Ints, parameters: Floats, streams: Streams) -> RoundContext:
        """The context of clients in a round that starts from a model (P,)."""
        return replace(self.setup.context(round_, clients, self.most, parameters), source=streams)

    def asked(self, context: RoundContext, first: int | None = None) -> tuple[RoundContext, QueryAssignment]:
        """What clients ask, at most their `first` interactions, and the context with the number of these."""
        asked = self.federation.clientele.ask(context)
        if first is not None:
            queries = np.where(np.arange(asked.queries.shape[1]) < first, asked.queries, -1)
            asked = QueryAssignment(queries, asked.intents, asked.ways)
        return replace(context, counts=asked.counts), asked

    def train(self, streams: Streams, without: Ints = NOBODY) -> UpdateHistory:
        """Train the model of the Spec from the first one."""
        rounds, trained = self.play(streams, without, self.start, range(self.setup.spec.train.rounds))
        return UpdateHistory(
            start=self.start, rounds=rounds, trained=trained, dtype=self.setup.spec.trace.dtype
        )

    def play(
        self, streams: Streams, without: Ints, model: Floats, numbers: Iterable[int]
    ) -> tuple[tuple[StoredRound, ...], Floats]:
        """Rounds with these numbers from a model (P,), and the model after them.

        Raises:
            DataError: a global model is no longer finite.
        """
        cohorts = self.federation.cohorts(self._everybody, streams)
        state, played = self.server.first(model), []
        for number in numbers:
            cohort = cohorts.cohort(number)
            here = self.context(number, cohort[~np.isin(cohort, without)], state.parameters, streams)
            here, asked = self.asked(here)
            wired = WireMessages(messages=np.empty((0, model.size)), survivors=np.empty(0, dtype=np.bool_))
            if here.clients.size:  # else everybody who would have played has left
                sent, state = self.server.play(asked, here, state)
                wired = sent.wired
            played.append(StoredRound(context=here, wired=wired))
        return tuple(played), state.parameters

    def aggregated(self, stored: StoredRound) -> Floats:
        """The change of the global model (P,) that the server makes of a round's messages."""
        before = GlobalModel(stored.context.parameters)
        after = self.server.aggregate(stored.wired, stored.context, before)
        return after.parameters - before.parameters

    def reversed_steps(self, round_: int, clients: Ints, model: Floats, streams: Streams) -> Floats:
        """The local steps of clients in a round from a model (P,), without any defense, reversed: (C, P)."""
        context, asked = self.asked(self.context(round_, clients, model, streams))
        local, _ = self.server.senders.clients.play(asked, context)
        return -local.steps
