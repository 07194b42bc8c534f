"""Divides queries between two clients by the categories of their relevant documents.

Every query of a part is in exactly one group: of the first client (DS_1), of the second (DS'_2), remaining
(D_merge is taken from these), or without relevant documents. The last group has no topic and trains no
model; it counts only in the whole data set.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), sections 3.2, 4
and 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr_audit.utils.arrays import Bools, Ints

Method = Literal["initial", "no-tie-breaking", "exclusive"]

METHODS: tuple[Method, ...] = ("initial", "no-tie-breaking", "exclusive")
"""How the queries of the first client are selected."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryPartition:
    """The queries of a part by group, ascending indices, int64.

    Attributes:
        first: those of client 1, DS_1.
        second: those of client 2, DS'_2: no relevant document has the first client's category.
        remaining: the others with a relevant document.
        irrelevant: those without a relevant document.
    """

    first: Ints
    second: Ints
    remaining: Ints
    irrelevant: Ints


def no_tie_breaking(relevant: Ints, category: int) -> Bools:
    """The queries with more relevant documents of a category than of any other.

    `relevant` counts relevant documents, shape (queries, categories).

    >>> no_tie_breaking(np.array([[2, 1], [1, 1], [0, 0]]), 0).tolist()
    [True, False, False]
    """
    others = np.delete(relevant, category, axis=1)
    return np.asarray(relevant[:, category] > others.max(axis=1, initial=0))


def exclusive(relevant: Ints, category: int) -> Bools:
    """The queries with relevant documents, all of them of a category.

    >>> exclusive(np.array([[2, 0], [1, 1], [0, 0]]), 0).tolist()
    [True, False, False]
    """
    return np.asarray((relevant[:, category] > 0) & (relevant[:, category] == relevant.sum(axis=1)))


def without(relevant: Ints, category: int) -> Bools:
    """The queries with relevant documents, none of them of a category: DS'_2, the same for every method.

    >>> without(np.array([[2, 0], [0, 1], [0, 0]]), 0).tolist()
    [False, True, False]
    """
    return np.asarray((relevant[:, category] == 0) & (relevant.sum(axis=1) > 0))


def partition(method: Method, relevant: Ints, topics: Ints, category: int) -> QueryPartition:
    """Group the queries of a part.

    Args:
        method: how the first client's queries are selected.
        relevant: numbers of relevant documents, shape (queries, categories).
        topics: topic of each query with ties broken, shape (queries,).
        category: the first client's category.
    """
    if method == "initial":
        first = np.asarray(topics == category)
    elif method == "no-tie-breaking":
        first = no_tie_breaking(relevant, category)
    else:
        first = exclusive(relevant, category)
    second = without(relevant, category)
    judged = relevant.sum(axis=1) > 0
    return QueryPartition(
        first=np.flatnonzero(first),
        second=np.flatnonzero(second),
        remaining=np.flatnonzero(judged & ~first & ~second),
        irrelevant=np.flatnonzero(~judged),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class MergeQueries:
    """D_merge of each client: queries unlike those that its model was trained on.

    Attributes:
        clients: indices for client 1 and for client 2, int64.
        wanted: the number that each should get; it gets fewer if fewer remain.
    """

    clients: tuple[Ints, Ints]
    wanted: tuple[int, int]


def merge_queries(remaining: Ints, relevant: Ints, trained_on: tuple[int, int]) -> MergeQueries:
    """Take D_merge from the remaining queries of the validation part.

    They are sorted by their number of relevant documents of the first client's category, with ties in the
    order of the part. Client 1 gets the lowest |Q_1| / 2 and client 2 the highest |Q_2| / 2, rounded down and
    at least 1. If too few remain, both may get the same query.

    Args:
        remaining: indices, from `QueryPartition.remaining`.
        relevant: number of relevant documents of the category for each query of the part, shape (queries,).
        trained_on: |Q_1| and |Q_2|, the numbers of training queries of the two models.
    """
    # A stable sort: ties must not depend on the sorting algorithm.
    order = remaining[np.argsort(relevant[remaining], kind="stable")]
    wanted = (max(1, trained_on[0] // 2), max(1, trained_on[1] // 2))
    lowest, highest = order[: wanted[0]], order[max(0, order.size - wanted[1]) :]
    return MergeQueries(clients=(np.sort(lowest), np.sort(highest)), wanted=wanted)
