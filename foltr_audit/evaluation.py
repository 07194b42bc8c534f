"""Offline metrics of a global model on the test part, lists in score order."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foltr_audit.clicks import Cascade
from foltr_audit.metrics import (
    LIST_LENGTH,
    OFFLINE,
    average_precision,
    dcg,
    expected_max_rr,
    ideal_dcg,
    mean_ndcg,
    mean_over,
    ndcg,
    reciprocal_rank,
    relevant_documents,
)
from foltr_audit.plugins import ClickModel
from foltr_audit.registry import make
from foltr_audit.setup import Setup


def not_evaluated() -> dict[str, float]:
    """The offline metrics of a round that nobody evaluated: NaN under every name."""
    return dict.fromkeys(OFFLINE, float("nan"))


class Evaluation:
    """Offline metrics of a global model on the test part, lists in score order.

    Example:
        `Evaluation(setup).metrics(parameters)["offline_map@10"]`
    """

    def __init__(self, setup: Setup) -> None:
        """Prepare the ideal lists of the test part."""
        self.setup = setup
        self.data = setup.collection.test
        self.ideal = ideal_dcg(self.data)
        self.queries = np.arange(self.data.n_queries)

    def lists(self, parameters: NDArray[np.float64]) -> NDArray[np.int64]:
        """What a model (P,) shows for each test query, ties by position; (queries, k), padded with -1."""
        from foltr_audit.kernels.ranking import top_lists

        scores, starts = self.setup.ranker.scores(parameters[np.newaxis], self.data, self.queries)
        return top_lists(scores, starts, LIST_LENGTH)

    def ndcg(self, parameters: NDArray[np.float64]) -> float:
        """Mean nDCG@10 of a model (P,) over the test queries."""
        shown, no_relevant = self.lists(parameters), self.setup.spec.train.no_relevant
        return mean_ndcg(self.data, self.queries, shown, self.ideal, no_relevant)

    def metrics(self, parameters: NDArray[np.float64]) -> dict[str, float]:
        """Means over the test queries of a model (P,), under the names of `foltr_audit.metrics.OFFLINE`.

        The MaxRR is the expected one under the click model that the Spec trains with, over all queries, since
        users may click where nothing is relevant; NaN where that is no cascade model.
        """
        asked = (self.data, self.queries, self.lists(parameters))
        values = {
            "offline_ndcg@10": ndcg(*asked, self.ideal),
            "offline_mrr@10": reciprocal_rank(*asked),
            "offline_map@10": average_precision(*asked, self._relevant),
            "offline_dcg@10": dcg(*asked),
        }
        has_relevant, no_relevant = self.data.has_relevant, self.setup.spec.train.no_relevant
        means = {name: mean_over(each, has_relevant, no_relevant) for name, each in values.items()}
        if self._click is not None:
            means["offline_maxrr@10"] = float(expected_max_rr(*asked, self._click).mean())
        return not_evaluated() | means

    @property
    def ceiling(self) -> float:
        """The mean nDCG@10 that a perfect ranker would reach."""
        if self.setup.spec.train.no_relevant == "skip":
            return 1.0
        return float((self.ideal > 0).mean())

    @cached_property
    def _relevant(self) -> NDArray[np.int64]:
        return relevant_documents(self.data)

    @cached_property
    def _click(self) -> NDArray[np.float64] | None:
        """P(click | grade) of the click model that the Spec trains with; None where that is no cascade."""
        model = make(ClickModel, self.setup.spec.train.click_model)
        if not isinstance(model, Cascade):
            return None
        return model.tables(self.setup.collection.largest_label)[0]
