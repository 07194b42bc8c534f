"""Two clients with different topics: who has which query, by the categories of its relevant documents.

Every query of a part is in exactly one group: of the first client (DS_1), of the second (DS'_2), among the
remaining ones, which D_merge is taken from, or without relevant documents. The last have no topic and teach
nothing; they count in the whole data set alone.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), sections 3.2, 4
and 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["initial", "no-tie-breaking", "exclusive"]

METHODS: tuple[Method, ...] = ("initial", "no-tie-breaking", "exclusive")
"""How the queries of the first client are chosen."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryPartition:
    """The queries of a part by group, ascending indices, int64.

    Attributes:
        first: of client 1, DS_1.
        second: of client 2, DS'_2: no relevant document is of the first client's category.
        remaining: the other ones that have a relevant document.
        irrelevant: without a relevant document.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    remaining: NDArray[np.int64]
    irrelevant: NDArray[np.int64]


def initial(topics: NDArray[np.int64], category: int) -> NDArray[np.bool_]:
    """Queries (queries,) whose topic, ties broken, is a category."""
    return np.asarray(topics == category)


def no_tie_breaking(relevant: NDArray[np.int64], category: int) -> NDArray[np.bool_]:
    """Queries with more relevant documents of a category than of every other.

    `relevant` counts relevant documents, shape (queries, categories).

    >>> no_tie_breaking(np.array([[2, 1], [1, 1], [0, 0]]), 0).tolist()
    [True, False, False]
    """
    others = np.delete(relevant, category, axis=1)
    return np.asarray(relevant[:, category] > others.max(axis=1, initial=0))


def exclusive(relevant: NDArray[np.int64], category: int) -> NDArray[np.bool_]:
    """Queries all of whose relevant documents, at least one, are of a category.

    >>> exclusive(np.array([[2, 0], [1, 1], [0, 0]]), 0).tolist()
    [True, False, False]
    """
    return np.asarray((relevant[:, category] > 0) & (relevant[:, category] == relevant.sum(axis=1)))


def without(relevant: NDArray[np.int64], category: int) -> NDArray[np.bool_]:
    """Queries with relevant documents, none of them of a category: DS'_2, the same for every method.

    >>> without(np.array([[2, 0], [0, 1], [0, 0]]), 0).tolist()
    [False, True, False]
    """
    return np.asarray((relevant[:, category] == 0) & (relevant.sum(axis=1) > 0))


def partition(
    method: Method, relevant: NDArray[np.int64], topics: NDArray[np.int64], category: int
) -> QueryPartition:
    """Group the queries of a part.

    Args:
        method: how the first client's are chosen.
        relevant: relevant documents, shape (queries, categories).
        topics: topic of each query, ties broken, shape (queries,).
        category: of the first client.
    """
    if method == "initial":
        first = initial(topics, category)
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
        asked: how many each was to get; fewer are there where fewer remain.
    """

    clients: tuple[NDArray[np.int64], NDArray[np.int64]]
    asked: tuple[int, int]


def merge_queries(
    remaining: NDArray[np.int64], relevant: NDArray[np.int64], trained_on: tuple[int, int]
) -> MergeQueries:
    """D_merge out of the remaining queries of the validation part.

    They are sorted by their number of relevant documents of the first client's category, equal ones in the
    order of the part. Client 1 gets the lowest |Q_1| / 2, client 2 the highest |Q_2| / 2, rounded down, at
    least 1; where that is more than there is, both may get the same query.

    Args:
        remaining: indices, of `QueryPartition.remaining`.
        relevant: relevant documents of the category, of all queries of the part, shape (queries,).
        trained_on: |Q_1| and |Q_2|, numbers of training queries of the two models.
    """
    order = remaining[np.argsort(relevant[remaining], kind="stable")]
    asked = (max(1, trained_on[0] // 2), max(1, trained_on[1] // 2))
    lowest, highest = order[: asked[0]], order[max(0, order.size - asked[1]) :]
    return MergeQueries(clients=(np.sort(lowest), np.sort(highest)), asked=asked)
