"""What users were shown in a round: online metrics, of everybody and of each group of clients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import Population
from foltr_audit.core.ranking_metrics import max_rr, mean_over, ndcg
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.simulation.client import CohortInteractions
from foltr_audit.simulation.client_data import ClientData

ONLINE_NDCG = "online_ndcg@10"


@dataclass(frozen=True, kw_only=True, eq=False)
class OnlineMetrics:
    """Online metrics of rounds in one world.

    Attributes:
        world: what was searched.
        population: whose groups are told apart.
        no_relevant: how a query without relevant documents counts, `zero` or `skip`.
    """

    world: ClientData
    population: Population
    no_relevant: str

    def of(
        self, done: CohortInteractions, asked: QueryAssignment, clients: NDArray[np.int64]
    ) -> dict[str, float]:
        """Mean nDCG@10 and MaxRR of the interactions (C, B) of clients (C,), and the share of clipped steps.

        Where there are several groups also the nDCG of each, as `online_ndcg@10/GROUP`. NaN of nothing.
        """
        there = done.queries >= 0
        values, relevant = self._ndcg(done.queries[there], done.shown[there], asked.intents[there])
        found = {
            ONLINE_NDCG: mean_over(values, relevant, self.no_relevant),
            "maxrr": _mean(max_rr(done.clicks[there])),
            "clipped": _mean(done.clipped[there]),
        }
        if self.population.n_groups > 1:
            groups = np.repeat(self.population.group_of(clients), there.sum(axis=1))
            for number, name in enumerate(self.population.groups):
                mine = groups == number
                found[f"{ONLINE_NDCG}/{name}"] = mean_over(values[mine], relevant[mine], self.no_relevant)
        return found

    def _ndcg(
        self, queries: NDArray[np.int64], shown: NDArray[np.int64], intents: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """NDCG of lists (I, k) under their intents, and whether there is anything relevant, both (I,)."""
        if len(self.world.ideals) == 1:
            (ideal,) = self.world.ideals
            return ndcg(self.world.data, queries, shown, ideal), ideal[queries] > 0
        values, relevant = np.zeros(queries.size), np.zeros(queries.size, dtype=np.bool_)
        for intent, ideal in enumerate(self.world.ideals):
            mine = np.flatnonzero(intents == intent)
            asked = queries[mine]
            values[mine] = ndcg(self.world.judged(intent), asked, shown[mine], ideal)
            relevant[mine] = ideal[asked] > 0
        return values, relevant


def _mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    return float(values.mean()) if values.size else float("nan")
