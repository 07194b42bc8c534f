"""Utility: offline metrics of a global model, and online metrics of the lists that users were shown.

Offline metrics are of the test split, ranked by score; of documents with equal scores all orders count alike.
Where users have several intents they are of the training split, since the intents of different queries have
nothing in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import declared_tables
from foltr_audit.core.plugins import ClickModel, Population
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.ranking_metrics import (
    OFFLINE,
    OFFLINE_NDCG,
    ONLINE_NDCG,
    OfflineValues,
    click_values,
    dcg,
    ideal_dcg,
    mean_over,
    ndcg,
    offline_values,
    pham_ndcg,
    relevant_documents,
)
from foltr_audit.core.records import Collection
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.settings.train import TrainSpec
from foltr_audit.simulation.client import ClientData, CohortInteractions
from foltr_audit.simulation.client_population import ClientPopulation
from foltr_audit.simulation.intent_metrics import of_intent
from foltr_audit.utils.arrays import Bools, Floats, Ints

T = TypeVar("T", bound=np.generic)


class OfflineMetrics:
    """Offline metrics of a global model.

    Example:
        `Federation(setup).evaluation.metrics(parameters)["offline_map@10"]`
    """

    def __init__(
        self,
        collection: Collection,
        ranker: Ranker,
        clients: ClientPopulation,
        train: TrainSpec,
        part: str = "test",
    ) -> None:
        """Compute the ideal lists of the evaluated part; with several intents always the training split."""
        intents = clients.intents
        self.collection, self.ranker, self.clients, self.train = collection, ranker, clients, train
        self.part = part if intents == 1 else "train"
        self.data = collection.part(self.part)
        every = [self.data] if intents == 1 else [self.data.under(i) for i in range(intents)]
        self._judged = [(data, ideal_dcg(data), relevant_documents(data)) for data in every]

    def _evaluated(
        self, parameters: Floats, click: Floats | None = None
    ) -> list[tuple[Bools, OfflineValues]]:
        """Under each intent, which queries have relevant documents, and the values of all."""
        scores = self.ranker.scores(parameters[np.newaxis], self.data, np.arange(self.data.n_queries))[0]
        by_position = self.data.file_documents is None
        return [
            (data.has_relevant, offline_values(data, scores, ideal, relevant, click, by_position=by_position))
            for data, ideal, relevant in self._judged
        ]

    def ndcg(self, parameters: Floats, weights: Floats | None = None) -> float:
        """Mean nDCG@10 of a model (P,) over the queries, and over the intents by their weights (I,)."""
        found = [self._mean(values.ndcg, there) for there, values in self._evaluated(parameters)]
        return self._over_intents(found, weights)

    def by_query(self, parameters: Floats, weights: Floats | None = None) -> Floats:
        """The nDCG@10 of a model (P,) on each query, over intents as `ndcg`; NaN where it does not count."""
        other = np.nan if self.train.no_relevant == "skip" else 0.0
        found = [np.where(there, values.ndcg, other) for there, values in self._evaluated(parameters)]
        if len(found) == 1:
            return found[0]
        shares = np.full(len(found), 1.0 / len(found)) if weights is None else weights
        # An impossible intent may have no query that counts: 0 times its NaN would be NaN.
        there = shares > 0
        return np.asarray((shares[there, np.newaxis] * np.stack(found)[there]).sum(axis=0))

    def metrics(self, parameters: Floats, weights: Floats | None = None) -> dict[str, float]:
        """Means over the queries of a model (P,), by the names of `core.ranking_metrics.OFFLINE`.

        The MaxRR is the expected one under the click model that the Spec trains with, over all queries, since
        users may click where nothing is relevant; NaN if that is no cascade model or clients have others.
        With several intents all are means over them by their weights (I,), equal if not given, and the
        nDCG under each is added, as `offline_ndcg@10/intent 1` and so on.
        """
        each = [
            {
                OFFLINE_NDCG: self._mean(values.ndcg, there),
                "offline_mrr@10": self._mean(values.reciprocal_rank, there),
                "offline_map@10": self._mean(values.average_precision, there),
                "offline_dcg@10": self._mean(values.dcg, there),
                "offline_maxrr@10": float(values.max_rr.mean()),
            }
            for there, values in self._evaluated(parameters, self._click)
        ]
        found = {name: self._over_intents([one[name] for one in each], weights) for name in OFFLINE}
        return found | dict(zip(self._by_intent, (one[OFFLINE_NDCG] for one in each), strict=False))

    def missing(self) -> dict[str, float]:
        """The metrics of a round that is not evaluated: NaN under every name."""
        return dict.fromkeys((*OFFLINE, *self._by_intent), float("nan"))

    @property
    def ceiling(self) -> float:
        """The mean nDCG@10 of a ranker that is perfect under every intent."""
        if self.train.no_relevant == "skip":
            return 1.0
        return self._over_intents([float((ideal > 0).mean()) for _, ideal, _ in self._judged], None)

    @property
    def _by_intent(self) -> list[str]:
        """Names of the nDCG under each of several intents."""
        return [of_intent(intent) for intent in range(len(self._judged))] if len(self._judged) > 1 else []

    def _mean(self, values: Floats, there: Bools) -> float:
        return mean_over(values, there, self.train.no_relevant)

    def _over_intents(self, values: list[float], weights: Floats | None) -> float:
        if len(values) == 1:
            return values[0]
        shares = np.full(len(values), 1.0 / len(values)) if weights is None else weights
        there = shares > 0
        # Correctly rounded, so that the order of intents changes no bit.
        return math.fsum((np.array(values)[there] * shares[there]).tolist())

    @cached_property
    def _click(self) -> Floats | None:
        """P(click | grade) of the click model that the Spec trains with; None where that is no cascade."""
        if any(value.click_model is not None for value in self.clients.population.values):
            return None
        model = make(ClickModel, self.train.click_model)
        tables = declared_tables(model, self.collection.largest_label)
        return None if tables is None else tables[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class OnlineMetrics:
    """Online metrics of rounds in one world.

    Attributes:
        world: the data that clients search.
        population: the clients, whose groups are evaluated apart.
        no_relevant: how a query without relevant documents counts, `zero` or `skip`.
    """

    world: ClientData
    population: Population
    no_relevant: str

    def compute(self, done: CohortInteractions, asked: QueryAssignment, clients: Ints) -> dict[str, float]:
        """Means over the interactions (C, B) of clients (C,), by the names of `core.ranking_metrics.ONLINE`.

        Also the share of `clipped` steps, and with several groups the nDCG of each, as
        `online_ndcg@10/GROUP`. NaN without interactions.
        """
        there = done.queries >= 0
        queries, shown = in_a_row(done.queries, there), in_a_row(done.shown, there)
        gained, ideal = self._dcg(queries, shown, in_a_row(asked.intents, there))
        values, relevant = ndcg(gained, ideal), ideal > 0
        clicked = click_values(shown, in_a_row(done.clicks, there))
        discounted, of_pairs = pham_ndcg(values, clicked.paired, there)

        def mean(of_lists: Floats) -> float:
            return mean_over(of_lists, relevant, self.no_relevant)

        found = {
            ONLINE_NDCG: mean(values),
            "online_ndcg@10_discounted": mean(discounted),
            "online_ndcg@10_paired": of_pairs,
            "online_dcg@10": mean(gained),
            "maxrr": _mean(clicked.max_rr),
            "dcg": _mean(clicked.dcg),
            "clipped": _mean(in_a_row(done.clipped, there)),
        }
        if self.population.n_groups > 1:
            groups = np.repeat(self.population.group_of(clients), there.sum(axis=1))
            for number, name in enumerate(self.population.groups):
                mine = groups == number
                found[f"{ONLINE_NDCG}/{name}"] = mean_over(values[mine], relevant[mine], self.no_relevant)
        return found

    def _dcg(self, queries: Ints, shown: Ints, intents: Ints) -> tuple[Floats, Floats]:
        """DCG of lists (I, k) under their intents, and the highest possible one, both (I,)."""
        if len(self.world.ideals) == 1:
            (ideal,) = self.world.ideals
            return dcg(self.world.data, queries, shown), ideal[queries]
        found, best = np.zeros(queries.size), np.zeros(queries.size)
        for intent, ideal in enumerate(self.world.ideals):
            mine = np.flatnonzero(intents == intent)
            found[mine] = dcg(self.world.judged[intent], queries[mine], shown[mine])
            best[mine] = ideal[queries[mine]]
        return found, best


def in_a_row(values: NDArray[T], there: Bools) -> NDArray[T]:
    """The values (C, B, ...) of the interactions that took place (C, B); no copies where all of them did."""
    return values.reshape(-1, *values.shape[2:]) if there.all() else values[there]


def _mean(values: Floats | Bools) -> float:
    return float(values.mean()) if values.size else float("nan")
