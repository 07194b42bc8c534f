"""Ranking metrics of shown lists.

A shown list holds positions in its query, padded with -1. nDCG has gain 2^r - 1 and discount log2(i + 1)
(Burges et al. 2005, "Learning to rank using gradient descent"); the ideal DCG uses all candidates of the
query. A document is relevant if its label is above 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records import Dataset
from foltr_audit.utils.arrays import Bools, Floats, Ints

LIST_LENGTH = 10
"""Documents in a shown list, k: a user sees at most ten."""

ONLINE_DISCOUNT = 0.9995
"""Discount of the online performance, per round (Oosterhuis & de Rijke 2018, section 5.4) or list."""


class MetricDescription(NamedTuple):
    """How reports show a metric."""

    label: str
    higher_is_better: bool = True


class ListMetric(NamedTuple):
    """An online metric of lists of up to ten documents: a function of the clicks.

    Attributes:
        values: its values, float64 (v,).
        outcomes: index into `values` for each click pattern, int64 (1024,); bit i of a pattern is the click
            on place i.
    """

    values: Floats
    outcomes: Ints

    def nearest(self, numbers: Floats) -> Ints:
        """Index of the nearest value for each number (m,), int64 (m,)."""
        order = np.argsort(self.values)
        # The nearest value changes halfway between two neighbours, so a binary search in the sorted values
        # finds it: DCG has 1,024 values, and a table of all distances would be that many times larger.
        middles = (self.values[order][1:] + self.values[order][:-1]) / 2
        return np.asarray(order[np.searchsorted(middles, numbers)])


@cache
def list_metric(name: str) -> ListMetric:
    """The metric `maxrr` or `dcg`.

    MaxRR is 1 / r for a first click on rank r, and 0 without a click (v = 11). DCG is the sum of
    `1 / log2(r + 1)` over clicked ranks r (v = 1024, one value for each pattern).
    """
    from foltr_audit.kernels.metrics import discounts

    patterns, places = np.arange(1 << LIST_LENGTH), np.arange(LIST_LENGTH)
    clicks = (patterns[:, np.newaxis] >> places) & 1
    if name == "dcg":
        return ListMetric((clicks * discounts(LIST_LENGTH)).sum(axis=1), patterns)
    first = np.where(patterns > 0, clicks.argmax(axis=1) + 1, 0)
    return ListMetric(np.concatenate([[0.0], 1.0 / (places + 1)]), first)


OFFLINE_NDCG, ONLINE_NDCG = "offline_ndcg@10", "online_ndcg@10"
"""The two metrics of utility that most reports show."""

OFFLINE: Mapping[str, MetricDescription] = MappingProxyType(
    {
        OFFLINE_NDCG: MetricDescription("nDCG@10"),
        "offline_mrr@10": MetricDescription("MRR@10"),
        "offline_map@10": MetricDescription("MAP@10"),
        "offline_dcg@10": MetricDescription("DCG@10"),
        "offline_maxrr@10": MetricDescription("MaxRR"),
    }
)
"""Metrics of a global model on the test split, by their name in reports."""

ONLINE: Mapping[str, MetricDescription] = MappingProxyType(
    {
        ONLINE_NDCG: MetricDescription("nDCG@10"),
        "online_ndcg@10_discounted": MetricDescription("nDCG@10, discounted"),
        "online_ndcg@10_paired": MetricDescription("nDCG@10, with pairs"),
        "online_dcg@10": MetricDescription("DCG@10"),
        "maxrr": MetricDescription("MaxRR"),
        "dcg": MetricDescription("DCG of clicks"),
    }
)
"""Metrics of the lists shown to users in a round, by their name in reports.

`maxrr` and `dcg` are of the clicks, as FOLtR-ES measures what users see; the others are of the labels.
"""


def ideal_dcg(data: Dataset, k: int = LIST_LENGTH) -> Floats:
    """The highest possible DCG@k of each query, float64 (queries,)."""
    from foltr_audit.kernels.metrics import discounts, ideal_dcg_of_queries

    return ideal_dcg_of_queries(data.labels, data.offsets, discounts(k))


def dcg(data: Dataset, queries: Ints, shown: Ints) -> Floats:
    """DCG of lists (I, k) shown for queries (I,), float64 (I,)."""
    from foltr_audit.kernels.metrics import dcg_of_lists, discounts

    return dcg_of_lists(data.labels, data.offsets, queries, shown, discounts(shown.shape[1]))


def ndcg(dcg: Floats, ideal: Floats) -> Floats:
    """NDCG of lists (I,) from their DCG and the highest possible one; 0 without relevant documents."""
    return np.divide(dcg, ideal, out=np.zeros(dcg.size), where=ideal > 0)


def mean_over(values: Floats, has_relevant: Bools, no_relevant: str) -> float:
    """Mean of a metric over lists (I,).

    Lists of queries without relevant documents count as 0 (`no_relevant="zero"`) or are left out (`"skip"`).
    NaN if no list is left.

    >>> values, has_relevant = np.array([0.5, 0.3]), np.array([True, False])
    >>> mean_over(values, has_relevant, "zero"), mean_over(values, has_relevant, "skip")
    (0.25, 0.5)
    """
    counted = values[has_relevant] if no_relevant == "skip" else np.where(has_relevant, values, 0.0)
    return float(counted.mean()) if counted.size else float("nan")


def relevant_documents(data: Dataset) -> Ints:
    """Number of relevant documents of each query, int64 (queries,)."""
    counts: Ints = np.add.reduceat((data.labels > 0).astype(np.int64), data.offsets[:-1])
    return counts


class OfflineValues(NamedTuple):
    """Metrics of the first ten documents of each query, float64 (queries,) each.

    Attributes:
        ndcg, dcg: gain 2^r - 1, discount log2(i + 1).
        reciprocal_rank: of the first relevant document, 0 without one. Its mean over queries is MRR@10
            (Voorhees 1999, "The TREC-8 question answering track report"), which the program of Wang et al.
            2021 calls MaxRR in figure 3, over queries with a relevant document.
        average_precision: the precisions at the ranks of relevant documents, summed and divided by
            min(10, relevant): 1 for the best list, 0 without relevant documents. Its mean over queries is
            MAP@10 (Manning, Raghavan & Schuetze 2008, "Introduction to information retrieval", section 8.4).
        max_rr: the expected MaxRR under a cascade model,
            `sum_i 1/i c(r_i) prod_{j<i} (1 - c(r_j))`: the model stops only after a click, so that the first
            click does not depend on P(stop | grade) (Chapelle et al. 2009, "Expected reciprocal rank for
            graded relevance", section 4); NaN without a click model.
    """

    ndcg: Floats
    dcg: Floats
    reciprocal_rank: Floats
    average_precision: Floats
    max_rr: Floats


def offline_values(
    data: Dataset,
    scores: Floats,
    ideal: Floats,
    relevant: Ints,
    click: Floats | None = None,
    *,
    by_position: bool = False,
) -> OfflineValues:
    """Metrics of the rankings by the scores of all documents: means over all orders of equal scores.

    Args:
        data: the judged queries.
        scores: of all documents, float64 (documents,).
        ideal: `ideal_dcg` of the data.
        relevant: `relevant_documents` of the data.
        click: P(click | grade), float64 (grades,), of which the last one holds for grades beyond it.
        by_position: whether the upper row comes first instead, as in published programs.

    Source: McSherry & Najork 2008, "Computing information retrieval performance measures
    efficiently in the presence of tied scores".
    """
    from foltr_audit.kernels.metrics import discounts, tied_metrics

    weights = discounts(LIST_LENGTH)
    clicked = np.empty(0) if click is None else np.ascontiguousarray(click)
    dcg, first, precisions, max_rr = tied_metrics(
        data.labels, data.offsets, scores, weights, clicked, by_position
    ).T
    most = np.minimum(relevant, LIST_LENGTH)
    return OfflineValues(
        ndcg=ndcg(dcg, ideal),
        dcg=dcg,
        reciprocal_rank=first,
        average_precision=np.divide(precisions, most, out=np.zeros(dcg.size), where=most > 0),
        max_rr=max_rr,
    )


class ClickValues(NamedTuple):
    """Metrics of the clicks on lists (I, k), each (I,).

    Attributes:
        max_rr: reciprocal rank of the first click, 0 without a click.
        dcg: sum of 1 / log2(r + 1) over the clicked ranks r.
        paired: whether some of the documents were clicked and others not.
    """

    max_rr: Floats
    dcg: Floats
    paired: Bools


def click_values(shown: Ints, clicks: Bools) -> ClickValues:
    """Metrics of the clicks on lists (I, k), which are padded with -1.

    >>> shown = np.array([[3, 0, 1], [2, -1, -1]])
    >>> click_values(shown, np.array([[False, True, True], [True, False, False]])).paired.tolist()
    [True, False]
    """
    from foltr_audit.kernels.metrics import click_metrics, discounts

    max_rr, dcg, paired = click_metrics(shown, clicks, discounts(clicks.shape[1])).T
    return ClickValues(max_rr, dcg, paired > 0)


def pham_ndcg(values: Floats, paired: Bools, there: Bools) -> tuple[Floats, float]:
    """The online nDCG of a round as Pham 2022 writes it, of each list (I,), and as the program has it.

    As written, the nDCG of a list has a factor of .9995 for each earlier list of its client in the round. The
    program discounts nothing and takes the mean over clients of their means over the lists with a pair, which
    they learn from, 0 for a client without any; NaN if nobody played.

    Args:
        values: nDCG of the lists, one client after the other, (I,).
        paired: whether a list has a pair of a clicked document and one that was not clicked, (I,).
        there: which of the lists of each client were shown, (C, B), I in all.

    Source: Pham 2022, "Federated learning for online learning to rank", section 3.4; its program,
    `Client.train_model`.
    """
    from foltr_audit.kernels.metrics import values_by_client

    return values_by_client(values, paired, there, ONLINE_DISCOUNT)


def online_sum(per_round: Floats) -> float:
    """Discounted online performance: sum over rounds t = 1, 2, ... of nDCG_t .9995^(t-1).

    A round without lists (NaN) adds 0.
    """
    shown = np.where(np.isnan(per_round), 0.0, per_round)
    return float(np.add.reduce(shown * ONLINE_DISCOUNT ** np.arange(per_round.size)))


LAST_ROUNDS = 10
"""Rounds at the end of a training over which studies of FOLtR-ES average the online MaxRR."""


def mean_of_rounds(per_round: Floats) -> float:
    """Mean over the rounds that have a value; NaN if none has.

    >>> mean_of_rounds(np.array([0.25, np.nan, 0.75]))
    0.5
    """
    known = per_round[~np.isnan(per_round)]
    return float(known.mean()) if known.size else float("nan")
