"""Topics of queries, and what two clients have of them: splits, and the counts of each.

Every query of a part is in exactly one group: of the first client (DS_1), of the second (DS'_2), remaining
(D_merge is taken from these), or without relevant documents. The last group has no topic and trains no
model; it counts only in the whole data set.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), sections 3.2, 4
and 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from foltr_audit.core.ranking_metrics import relevant_documents
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.errors import DataError, UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Ints

# Source of the rule and its ties: "Learning to rank for non independent and identically distributed datasets"
# (2024), section 3.1.

NO_TOPIC = -1
"""Topic of a query without relevant documents."""

MOST_CATEGORIES = 1_000
"""A column with more distinct values does not hold categories."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CategoryCounts:
    """The relevant documents (label > 0) of each query by category, int64 (queries, categories).

    Besides their number, the sum and the highest of their labels; 0 if there are none.
    """

    relevant: Ints
    label_sums: Ints
    highest: Ints

    @classmethod
    def of(cls, part: Dataset, places: Ints, categories: int) -> CategoryCounts:
        """Count the documents of a part; `places` (documents,) are their places among the categories."""
        query = np.repeat(np.arange(part.n_queries), part.lengths)
        cells = query * categories + places
        size, shape = part.n_queries * categories, (part.n_queries, categories)
        highest = np.zeros(size, dtype=np.int64)
        np.maximum.at(highest, cells, part.labels)
        relevant = np.bincount(cells[part.labels > 0], minlength=size)
        sums = np.zeros(size, dtype=np.int64)  # not bincount, whose weighted sums are floats
        np.add.at(sums, cells, part.labels)
        return cls(
            relevant=relevant.astype(np.int64).reshape(shape),
            label_sums=sums.reshape(shape),
            highest=highest.reshape(shape),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryTopics:
    """The categories of a collection, ascending; other arrays refer to places among them.

    The topic of each query of each part is int64 (queries,); `NO_TOPIC` if nothing is relevant.
    """

    categories: tuple[int, ...]
    counts: dict[str, CategoryCounts]
    topics: dict[str, Ints]

    @classmethod
    def of(cls, collection: Collection, feature: int, streams: Streams) -> QueryTopics:
        """Read the categories of a collection from a column, counted from 1; it must not be normalised."""
        if collection.normalised != "none":
            raise UsageError(f"merge: data normalised by {collection.normalised}; expected none")
        if not 1 <= feature <= collection.n_features:
            raise UsageError(
                f"--category-feature: {feature}; expected 1 to {collection.n_features}, the features of "
                f"{collection.source}"
            )
        columns = {
            name: _whole(collection.part(name), feature, collection.source) for name in collection.PARTS
        }
        values = np.unique(np.concatenate(list(columns.values())))
        if values.size > MOST_CATEGORIES:
            raise DataError(
                f"{collection.source}: feature {feature} has {values.size} distinct values; expected a "
                f"category, at most {MOST_CATEGORIES}"
            )
        counts = {
            name: CategoryCounts.of(collection.part(name), np.searchsorted(values, column), values.size)
            for name, column in columns.items()
        }
        topics = {
            name: query_topics(found, streams.generator(f"merge/topics/{name}"))
            for name, found in counts.items()
        }
        return cls(categories=tuple(values.tolist()), counts=counts, topics=topics)

    def most_frequent(self, number: int) -> tuple[int, ...]:
        """The places of the most frequent query topics of the training part; ties go to the lower place."""
        topics = self.topics["train"]
        found = np.bincount(topics[topics >= 0], minlength=len(self.categories))
        order = np.argsort(-found, kind="stable")
        return tuple(int(place) for place in order[:number])

    def place(self, category: int) -> int:
        """The place of a category, which some document must have."""
        if category not in self.categories:
            known = ", ".join(map(str, self.categories[:20]))
            raise UsageError(f"--category: {category}; no document has it (known: {known})")
        return self.categories.index(category)


def query_topics(counts: CategoryCounts, rng: np.random.Generator) -> Ints:
    """The topic of each query, int64 (queries,): the category of most of its relevant documents.

    Ties go to the category with the highest sum of labels, then to the one with the highest label, then to a
    random one. `NO_TOPIC` if nothing is relevant.
    """
    candidates = counts.relevant > 0
    for votes in (counts.relevant, counts.label_sums, counts.highest):
        valid = np.where(candidates, votes, -1)
        candidates = candidates & (valid == valid.max(axis=1, keepdims=True))
    # Every query and category takes a draw, tied or not: a tie elsewhere does not change the draws of a
    # query.
    chance = np.where(candidates, rng.random(candidates.shape), -1.0)
    return np.where(candidates.any(axis=1), chance.argmax(axis=1), NO_TOPIC).astype(np.int64)


def _whole(part: Dataset, feature: int, source: str) -> Ints:
    values = part.features[:, feature - 1]
    wrong = ~np.isfinite(values) | (np.floor(values) != values) | (np.abs(values) > 2**31)
    if wrong.any():
        row = int(np.argmax(wrong))
        query = part.query_ids[int(np.searchsorted(part.offsets, row, side="right")) - 1]
        raise DataError(
            f"{source}: feature {feature} of a document of query {query} is {values[row]:g}; expected a "
            "whole number, the category"
        )
    return values.astype(np.int64)


Method = Literal["initial", "no-tie-breaking", "exclusive"]

METHODS: tuple[Method, ...] = ("initial", "no-tie-breaking", "exclusive")
"""How the queries of the first client are selected."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryPartition:
    """The queries of a part by group, ascending indices, int64: DS_1 of client 1, and DS'_2 of client 2.

    No relevant document of the second has the first client's category. Of the others, those `remaining` have
    a relevant document and those `irrelevant` have none.
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

    The first client's queries are selected by `method` for its `category`, from the numbers of relevant
    documents (queries, categories) and the topics with ties broken (queries,).
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
    """D_merge of client 1 and of client 2, int64: queries unlike those that its model was trained on.

    Each gets fewer than `wanted` if fewer remain.
    """

    clients: tuple[Ints, Ints]
    wanted: tuple[int, int]


def merge_queries(remaining: Ints, relevant: Ints, trained_on: tuple[int, int]) -> MergeQueries:
    """Take D_merge from the `remaining` queries of the validation part, see `QueryPartition`.

    They are sorted by their number of `relevant` documents of the first client's category, with ties in the
    order of the part. Client 1 gets the lowest |Q_1| / 2 and client 2 the highest |Q_2| / 2, rounded down and
    at least 1, where the two models were `trained_on` |Q_1| and |Q_2| queries. If too few remain, both may
    get the same query.
    """
    # A stable sort: ties must not depend on the sorting algorithm.
    order = remaining[np.argsort(relevant[remaining], kind="stable")]
    wanted = (max(1, trained_on[0] // 2), max(1, trained_on[1] // 2))
    lowest, highest = order[: wanted[0]], order[max(0, order.size - wanted[1]) :]
    return MergeQueries(clients=(np.sort(lowest), np.sort(highest)), wanted=wanted)


SPLITS: dict[int, tuple[Method, int]] = {
    1: ("exclusive", 0),
    2: ("no-tie-breaking", 0),
    3: ("no-tie-breaking", 1),
}
"""The method and the category of each split: the first category (0) or the second (1)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TopicSplit:
    """One split, 1 to 3, or the initial one, 0, which has no D_merge.

    `rank` says whether the first client's queries have the first (0) or the second (1) category.
    """

    number: int
    method: Method
    rank: int
    category: int
    parts: dict[str, QueryPartition]
    merge: MergeQueries | None

    @classmethod
    def of(cls, number: int, topics: QueryTopics, places: tuple[int, ...]) -> TopicSplit:
        """Divide the queries of every part; `number` is a key of `SPLITS`, or 0 for the initial split."""
        method, rank = SPLITS.get(number, ("initial", 0))
        if rank >= len(places):
            raise DataError(f"merge: split {number}: only one query topic; expected a second category")
        place = places[rank]
        parts = {
            part: partition(method, counts.relevant, topics.topics[part], place)
            for part, counts in topics.counts.items()
        }
        category = topics.categories[place]
        for part in ("train", "vali"):
            for name in ("first", "second"):
                if not getattr(parts[part], name).size:
                    client = 1 if name == "first" else 2
                    raise DataError(
                        f"merge: split {number}: no {part} query of client {client} for category {category}; "
                        "expected more data, or another --category"
                    )
        merge = None
        if number:
            trained_on = (parts["train"].first.size, parts["train"].second.size)
            relevant = topics.counts["vali"].relevant[:, place]
            merge = merge_queries(parts["vali"].remaining, relevant, trained_on)
            if min(queries.size for queries in merge.clients) < 2:
                raise DataError(
                    f"merge: split {number}: {parts['vali'].remaining.size} queries remain for D_merge; "
                    "expected at least 2 for each client; use more data, or another --category"
                )
        return cls(number=number, method=method, rank=rank, category=category, parts=parts, merge=merge)

    @property
    def shortage(self) -> list[str]:
        """One line for each client that gets fewer queries for D_merge than the paper's rule says."""
        if self.merge is None:
            return []
        pairs = zip(self.merge.clients, self.merge.wanted, strict=True)
        return [
            f"split {self.number}, client {client}: D_merge has {queries.size} queries; half of its training "
            f"queries are {wanted}, but no more remain in the validation part"
            for client, (queries, wanted) in enumerate(pairs, start=1)
            if queries.size < wanted
        ]


def chosen_places(topics: QueryTopics, categories: tuple[int, ...]) -> tuple[int, ...]:
    """The places of the first and the second category: the given ones, then the most frequent topics."""
    given = [topics.place(category) for category in categories]
    frequent = [place for place in topics.most_frequent(4) if place not in given]
    return tuple([*given, *frequent][:2])


# The forms are those of "Learning to rank for non independent and identically distributed datasets" (2024),
# table 2 and figure 2.


def split_statistics(
    collection: Collection, topics: QueryTopics, places: tuple[int, ...]
) -> list[dict[str, Any]]:
    """One row for each part and group: `DS`, and `DS_1`, `DS'_2` and the rest by category and method."""
    rows = []
    for part in collection.PARTS:
        data, relevant = collection.part(part), topics.counts[part].relevant
        everything = np.arange(data.n_queries)
        rows.append(_sizes((part, None, None, "DS"), data, everything))
        for place in places:
            for method in METHODS:
                found = partition(method, relevant, topics.topics[part], place)
                rows += [
                    _sizes((part, topics.categories[place], method, group), data, queries)
                    for group, queries in (
                        ("DS_1", found.first),
                        ("DS'_2", found.second),
                        ("remaining", found.remaining),
                        ("irrelevant", found.irrelevant),
                    )
                ]
    return rows


def _sizes(named: tuple[str, int | None, str | None, str], data: Dataset, queries: Ints) -> dict[str, Any]:
    """The sizes of some queries; they are named by part, category, method and group."""
    part, category, method, group = named
    return {
        "part": part,
        "category": category,
        "method": method,
        "group": group,
        "queries": int(queries.size),
        "relevant_documents": int(relevant_documents(data)[queries].sum()),
        "pairs": int(data.lengths[queries].sum()),
    }


def category_rows(topics: QueryTopics) -> list[dict[str, Any]]:
    """The relevant documents and queries of each category in the training part."""
    found, counts = topics.topics["train"], topics.counts["train"].relevant
    queries = np.bincount(found[found >= 0], minlength=len(topics.categories))
    return [
        {"category": category, "relevant_documents": int(counts[:, place].sum()), "queries": int(number)}
        for place, (category, number) in enumerate(zip(topics.categories, queries, strict=True))
    ]


def mixture_rows(topics: QueryTopics) -> list[dict[str, Any]]:
    """How mixed the queries of each part are."""
    rows = []
    for part, counts in topics.counts.items():
        judged = counts.relevant[counts.relevant.sum(axis=1) > 0]
        # A column of zeros stands for the second largest category if there is only one.
        padded = np.concatenate([judged, np.zeros((len(judged), 1), dtype=np.int64)], axis=1)
        ordered = np.sort(padded, axis=1)[:, ::-1]
        lead = ordered[:, 0] - ordered[:, 1]
        rows.append(
            {
                "part": part,
                "queries": len(judged),
                "exclusive": _share(ordered[:, 1] == 0),
                "tie": _share(lead == 0),
                "lead_1_to_3": _share((lead > 0) & (lead <= 3)),
                "lead_over_3": _share(lead > 3),
            }
        )
    return rows


def _share(mask: Bools) -> float:
    return float(mask.mean()) if mask.size else float("nan")
