"""What a server learns in a round from labelled queries of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import ClickModel, RoundContext
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.settings.defaults import SERVER_CLICKS
from foltr_audit.simulation.client import ClientSimulator
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats, Ints

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
