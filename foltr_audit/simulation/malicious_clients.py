"""Which clients are malicious, and what they send."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foltr_audit.core.plugins import Poisoning, RoundContext
from foltr_audit.core.plugins.answers import array_of
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.records import Dataset
from foltr_audit.errors import UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints

PROMOTED_RANK = "promoted_rank"
"""The metric of a round that says how high the global model ranks the document that clients promote."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MaliciousClients:
    """The malicious clients of an experiment, drawn once.

    Attributes:
        poisoning: what they do.
        clients: number of all clients.
        streams: named random streams.
    """

    poisoning: Poisoning
    clients: int
    streams: Streams

    @cached_property
    def ids(self) -> Ints:
        """Ids of the malicious clients, rising: those with the smallest tickets.

        A client's ticket comes from its own stream, as in `CohortSampler`.
        """
        tickets = self.streams.clients("malicious", 0, np.arange(self.clients)).uniform(1)[:, 0]
        order = np.argsort(tickets, kind="stable")
        return np.sort(order[: self.poisoning.count(self.clients)])

    def promoted_row(self, data: Dataset) -> int | None:
        """The row of the promoted document in the training split; None if there is none.

        Raises:
            UsageError: the part has no such query, or the query no such document.
        """
        if (promoted := self.poisoning.promoted) is None:
            return None
        query, document = promoted
        if query >= data.n_queries:
            raise UsageError(
                f"poisoning {self.poisoning.name}: query={query}; expected less than the {data.n_queries} "
                "queries of the training split"
            )
        if document >= data.lengths[query]:
            raise UsageError(
                f"poisoning {self.poisoning.name}: document={document}; expected less than the "
                f"{data.lengths[query]} documents of the query"
            )
        return int(data.offsets[query]) + document

    def promoted_rank(self, data: Dataset, ranker: Ranker, model: Floats) -> dict[str, float]:
        """The rank from 1 of the promoted document under a model (P,), by its name in reports.

        A document of the same score counts half. Empty if no document is promoted.
        """
        row = self.promoted_row(data)
        if row is None or self.poisoning.promoted is None:
            return {}
        query = np.array([self.poisoning.promoted[0]])
        scores, _ = ranker.scores(model[np.newaxis], data, query)
        own = scores[row - int(data.offsets[query[0]])]
        return {PROMOTED_RANK: float((scores > own).sum() + ((scores == own).sum() + 1) / 2)}

    def among(self, clients: Ints) -> Bools:
        return np.isin(clients, self.ids)

    def poisoned(self, sent: Floats, honest: Floats, context: RoundContext) -> Floats:
        """The models (C, P) that clients send, after malicious clients have changed theirs.

        Args:
            sent: the models after the message stage, (C, P).
            honest: the models before it, (C, P), from which malicious clients make theirs.
            context: the round.

        Raises:
            PluginError: the plug-in gave something else than an array of this shape.
        """
        malicious = self.among(context.clients)
        present = np.flatnonzero(context.counts > 0)  # a client without interactions sends nothing
        here = malicious[present]
        if not here.any():
            return sent
        models = np.where(malicious[:, np.newaxis], honest, sent)
        updates = models[present] - context.parameters
        found = self.poisoning.on_updates(updates, here, context.at(present))
        found = array_of(f"poisoning {self.poisoning.name}: on_updates", found, updates.shape)
        changed = sent.copy()
        changed[present[here]] = context.parameters + found[here]
        return changed
