"""Offline metrics of a global model, lists in score order.

They are of the test part, or where users have several intents of the training part, since the intents of
different queries have nothing in common.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import declared_tables
from foltr_audit.core.ranking_metrics import (
    LIST_LENGTH,
    OFFLINE,
    average_precision,
    dcg,
    expected_max_rr,
    ideal_dcg,
    mean_over,
    ndcg,
    reciprocal_rank,
    relevant_documents,
)
from foltr_audit.core.records import Dataset
from foltr_audit.simulation.setup import Setup

OFFLINE_NDCG = "offline_ndcg@10"


class _IntentEvaluator:
    """The evaluated queries under one intent."""

    def __init__(self, data: Dataset, no_relevant: str) -> None:
        self.data = data
        self.no_relevant = no_relevant
        self.queries = np.arange(data.n_queries)
        self.ideal = ideal_dcg(data)
        self.relevant = relevant_documents(data)

    def by_query(self, shown: NDArray[np.int64]) -> NDArray[np.float64]:
        """The nDCG of the lists (queries, k), NaN where a query does not count, float64 (queries,)."""
        other = np.nan if self.no_relevant == "skip" else 0.0
        return np.where(self.data.has_relevant, ndcg(self.data, self.queries, shown, self.ideal), other)

    def ndcg(self, shown: NDArray[np.int64]) -> float:
        """Mean nDCG of the lists (queries, k)."""
        return self._mean(ndcg(self.data, self.queries, shown, self.ideal))

    def metrics(self, shown: NDArray[np.int64], click: NDArray[np.float64] | None) -> dict[str, float]:
        """Means over the queries; the MaxRR is expected under P(click | grade), NaN without it."""
        asked = (self.data, self.queries, shown)
        means = {
            OFFLINE_NDCG: self.ndcg(shown),
            "offline_mrr@10": self._mean(reciprocal_rank(*asked)),
            "offline_map@10": self._mean(average_precision(*asked, self.relevant)),
            "offline_dcg@10": self._mean(dcg(*asked)),
        }
        if click is not None:
            means["offline_maxrr@10"] = float(expected_max_rr(*asked, click).mean())
        return dict.fromkeys(OFFLINE, float("nan")) | means

    def _mean(self, values: NDArray[np.float64]) -> float:
        return mean_over(values, self.data.has_relevant, self.no_relevant)


class OfflineMetrics:
    """Offline metrics of a global model, lists in score order.

    Example:
        `OfflineMetrics(setup).metrics(parameters)["offline_map@10"]`
    """

    def __init__(self, setup: Setup, part: str = "test") -> None:
        """Prepare the ideal lists of the evaluated part; with several intents always the training part."""
        self.setup = setup
        self.part = part if setup.intents == 1 else "train"
        self.data = setup.collection.part(self.part)
        self.queries = np.arange(self.data.n_queries)
        every = [self.data] if setup.intents == 1 else [self.data.under(i) for i in range(setup.intents)]
        self._judged = [_IntentEvaluator(data, setup.spec.train.no_relevant) for data in every]

    def lists(self, parameters: NDArray[np.float64]) -> NDArray[np.int64]:
        """What a model (P,) shows for each query, ties by position; (queries, k), padded with -1."""
        from foltr_audit.kernels.ranking import top_lists

        scores, starts = self.setup.ranker.scores(parameters[np.newaxis], self.data, self.queries)
        return top_lists(scores, starts, LIST_LENGTH)

    def ndcg(self, parameters: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
        """Mean nDCG@10 of a model (P,) over the queries, and over the intents by their weights (I,)."""
        shown = self.lists(parameters)
        return self._over_intents([judged.ndcg(shown) for judged in self._judged], weights)

    def by_query(
        self, parameters: NDArray[np.float64], weights: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """The nDCG@10 of a model (P,) on each query, over intents as `ndcg`; NaN where it does not count."""
        shown = self.lists(parameters)
        several = np.stack([judged.by_query(shown) for judged in self._judged])
        if len(several) == 1:
            only: NDArray[np.float64] = several[0]
            return only
        shares = np.full(len(several), 1.0 / len(several)) if weights is None else weights
        there = shares > 0
        return np.asarray((shares[there, np.newaxis] * several[there]).sum(axis=0))

    def metrics(
        self, parameters: NDArray[np.float64], weights: NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        """Means over the queries of a model (P,), by the names of `core.ranking_metrics.OFFLINE`.

        The MaxRR is the expected one under the click model that the Spec trains with, over all queries, since
        users may click where nothing is relevant; NaN where that is no cascade model, or clients have others.
        With several intents all are means over them by their weights (I,), equal where not given, and the
        nDCG under each stands beside it, as `offline_ndcg@10/intent 1` and so on.
        """
        shown = self.lists(parameters)
        each = [judged.metrics(shown, self._click) for judged in self._judged]
        found = {name: self._over_intents([one[name] for one in each], weights) for name in OFFLINE}
        return found | dict(zip(self._by_intent(), (one[OFFLINE_NDCG] for one in each), strict=False))

    def nothing(self) -> dict[str, float]:
        """The metrics of a round that nobody evaluated: NaN under every name."""
        return dict.fromkeys((*OFFLINE, *self._by_intent()), float("nan"))

    @property
    def ceiling(self) -> float:
        """The mean nDCG@10 that a perfect ranker would reach, under the best case of every intent."""
        if self.setup.spec.train.no_relevant == "skip":
            return 1.0
        return self._over_intents([float((judged.ideal > 0).mean()) for judged in self._judged], None)

    def _by_intent(self) -> Iterator[str]:
        """Names of the nDCG under each of several intents."""
        several = len(self._judged) if len(self._judged) > 1 else 0
        return (f"{OFFLINE_NDCG}/intent {number + 1}" for number in range(several))

    def _over_intents(self, values: list[float], weights: NDArray[np.float64] | None) -> float:
        if len(values) == 1:
            return values[0]
        shares = np.full(len(values), 1.0 / len(values)) if weights is None else weights
        there = shares > 0
        return math.fsum((np.array(values)[there] * shares[there]).tolist())

    @cached_property
    def _click(self) -> NDArray[np.float64] | None:
        """P(click | grade) of the click model that the Spec trains with; None where that is no cascade."""
        if any(value.click_model is not None for value in self.setup.population.values):
            return None
        model = self.setup.click_model(self.setup.spec.train.click_model)
        tables = declared_tables(model, self.setup.collection.largest_label)
        return None if tables is None else tables[0]
