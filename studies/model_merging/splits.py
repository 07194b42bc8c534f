"""Topics of queries, and what clients have of them: splits, and the counts of each.

Every query of a part is in exactly one group: of a client (DS_1, DS'_2 or DS_2, and so on), remaining
(D_merge is taken from these), or without relevant documents. The last group has no topic and trains no model;
it counts only in the whole data set.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), sections 3.2, 4
and 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from foltr_audit.studies.model_merging.categories import CategoryRule

from foltr_audit.core.ranking_metrics import relevant_documents
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.errors import DataError, UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Ints

# Source of the rule and its ties: "Learning to rank for non independent and identically distributed datasets"
# (2024), section 3.1.

NO_TOPIC = -1
"""Topic of a query without relevant documents."""


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
    def of(cls, collection: Collection, rule: CategoryRule, streams: Streams) -> QueryTopics:
        """The topics of the queries of a collection, whose documents get categories by a rule."""
        columns = rule.columns(collection, streams)
        values = np.unique(np.concatenate(list(columns.values())))
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


Method = Literal["initial", "no-tie-breaking", "exclusive"]

METHODS: tuple[Method, ...] = ("initial", "no-tie-breaking", "exclusive")
"""How the queries of the first client are selected."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryPartition:
    """The queries of a part by group, ascending indices, int64: of each client, and the others.

    Of the others, those `remaining` have a relevant document and those `irrelevant` have none.
    """

    clients: tuple[Ints, ...]
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


def partition(method: Method, relevant: Ints, topics: Ints, chosen: Sequence[int]) -> QueryPartition:
    """Group the queries of a part by the places of the chosen categories.

    A single category makes two clients: the first has its queries, selected by `method` (DS_1), and the
    second those `without` it (DS'_2). Several make as many clients, each with the queries of its own.
    `relevant` counts relevant documents (queries, categories), and `topics` has ties broken (queries,).
    """
    select = {"no-tie-breaking": no_tie_breaking, "exclusive": exclusive}
    held = [
        np.asarray(topics == place) if method == "initial" else select[method](relevant, place)
        for place in chosen
    ]
    if len(chosen) == 1:
        held.append(without(relevant, chosen[0]))
    judged = relevant.sum(axis=1) > 0
    return QueryPartition(
        clients=tuple(map(np.flatnonzero, held)),
        remaining=np.flatnonzero(judged & ~np.any(held, axis=0)),
        irrelevant=np.flatnonzero(~judged),
    )


def merge_queries(
    remaining: Ints, relevant: Ints, chosen: Sequence[int], wanted: Sequence[int]
) -> tuple[Ints, ...]:
    """D_merge of each client, int64: `remaining` queries unlike those that its model was trained on.

    A client gets the queries with the fewest `relevant` documents (queries, categories) of its chosen
    category, as many as `wanted` or all that remain; the second of two clients, which has none of the chosen
    one, those with most. Ties go by their order in the part. Clients may get the same query.
    """
    # A stable sort: ties must not depend on the sorting algorithm.
    orders = [remaining[np.argsort(relevant[remaining, place], kind="stable")] for place in chosen]
    if len(chosen) == 1:
        orders.append(orders[0][::-1])
    return tuple(np.sort(order[:number]) for order, number in zip(orders, wanted, strict=True))


PAIR = 2
"""Clients of the paper; its second one has the queries without the category of the first."""

SPLITS: dict[int, tuple[Method, int]] = {
    1: ("exclusive", 0),
    2: ("no-tie-breaking", 0),
    3: ("no-tie-breaking", 1),
}
"""The method and the category of each split: the first category (0) or the second (1)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TopicSplit:
    """One split, 1 to 3, or the initial one, 0, which has no D_merge.

    `category` is that of the first of two clients, and `choice` says whether it is the first (1) or the
    second (2) one; both are None with more clients. `merge` is D_merge of each client, and `wanted` its size
    by the paper's rule, half of the client's training queries.
    """

    number: int
    method: Method
    choice: int | None
    category: int | None
    parts: dict[str, QueryPartition]
    wanted: tuple[int, ...]
    merge: tuple[Ints, ...]

    @classmethod
    def of(cls, number: int, topics: QueryTopics, places: tuple[int, ...]) -> TopicSplit:
        """Divide the queries of every part; `number` is a key of `SPLITS`, or 0 for the initial split.

        `places` are those of the first and second category, or of the categories of more clients.
        """
        method, rank = SPLITS.get(number, ("initial", 0))
        if rank >= len(places):
            raise DataError(f"merge: split {number}: only one query topic; expected a second category")
        pair = len(places) <= PAIR
        chosen = places[rank : rank + 1] if pair else places
        parts = {
            part: partition(method, counts.relevant, topics.topics[part], chosen)
            for part, counts in topics.counts.items()
        }
        if number == 0 and pair:  # the second client has all that the first has not
            for part, found in parts.items():
                rest = np.union1d(found.clients[1], found.remaining)
                parts[part] = replace(found, clients=(found.clients[0], rest), remaining=rest[:0])
        _check_clients(number, parts, [topics.categories[place] for place in chosen])
        wanted = tuple(max(1, queries.size // 2) for queries in parts["train"].clients)
        remaining, relevant = parts["vali"].remaining, topics.counts["vali"].relevant
        split = cls(
            number=number,
            method=method,
            choice=rank + 1 if pair else None,
            category=topics.categories[chosen[0]] if pair else None,
            parts=parts,
            wanted=wanted,
            merge=merge_queries(remaining, relevant, chosen, wanted) if number else (),
        )
        split._check_merge()
        return split

    def _check_merge(self) -> None:
        for client, (queries, wanted) in enumerate(zip(self.merge, self.wanted, strict=False), start=1):
            if queries.size >= 2:
                continue
            trained = self.parts["train"].clients[client - 1].size
            cause = f"{self.parts['vali'].remaining.size} validation queries remain for D_merge"
            if wanted < 2:
                cause = f"D_merge has half as many queries as train client {client}, and these are {trained}"
            raise DataError(
                f"merge: split {self.number}: {cause}; expected at least 2 in D_merge of each client; use "
                "more data, or another --category"
            )

    @property
    def clients(self) -> int:
        return len(self.wanted)

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the queries of each client."""
        return group_names(self.clients, "DS_2" if self.number == 0 else "DS'_2")

    @property
    def shortage(self) -> list[str]:
        """One line for each client that gets fewer queries for D_merge than the paper's rule says."""
        return [
            f"split {self.number}, client {client}: D_merge has {queries.size} queries; half of its training "
            f"queries are {wanted}, but no more remain in the validation part"
            for client, (queries, wanted) in enumerate(zip(self.merge, self.wanted, strict=False), start=1)
            if queries.size < wanted
        ]


def _check_clients(number: int, parts: Mapping[str, QueryPartition], categories: Sequence[int]) -> None:
    for part in ("train", "vali"):
        for client, queries in enumerate(parts[part].clients, start=1):
            if not queries.size:
                category = categories[min(client, len(categories)) - 1]
                raise DataError(
                    f"merge: split {number}: no {part} query of client {client} for category {category}; "
                    "expected more data, or another --category"
                )


def group_names(clients: int, second: str = "DS'_2") -> tuple[str, ...]:
    """The names of the queries of each client, the second of two clients by itself."""
    return ("DS_1", second) if clients == PAIR else tuple(f"DS_{client}" for client in range(1, clients + 1))


def chosen_places(topics: QueryTopics, categories: tuple[int, ...]) -> tuple[int, ...]:
    """The places of the given categories; the most frequent topics replace a missing first or second."""
    given = [topics.place(category) for category in categories]
    frequent = [place for place in topics.most_frequent(2 * PAIR) if place not in given]
    return tuple([*given, *frequent][: max(PAIR, len(given))])


# The forms are those of "Learning to rank for non independent and identically distributed datasets" (2024),
# table 2 and figure 2.


def split_statistics(
    collection: Collection, topics: QueryTopics, places: tuple[int, ...]
) -> list[dict[str, Any]]:
    """One row for each part and group: `DS`, and those of each split by category and method.

    With more than two clients the groups of a method are of all categories, in the place of which is None.
    """
    pair = len(places) <= PAIR
    choices = [((place,), topics.categories[place]) for place in places] if pair else [(places, None)]
    names = (*group_names(max(PAIR, len(places))), "remaining", "irrelevant")
    rows = []
    for part in collection.PARTS:
        data, relevant = collection.part(part), topics.counts[part].relevant
        rows.append(_sizes((part, None, None, "DS"), data, np.arange(data.n_queries)))
        for chosen, category in choices:
            for method in METHODS:
                found = partition(method, relevant, topics.topics[part], chosen)
                queries = (*found.clients, found.remaining, found.irrelevant)
                rows += [
                    _sizes((part, category, method, name), data, mine)
                    for name, mine in zip(names, queries, strict=True)
                ]
    return rows


def _sizes(named: tuple[str, int | None, str | None, str], data: Dataset, queries: Ints) -> dict[str, Any]:
    """The sizes of some queries; they are named by part, category, method and group."""
    return {
        **dict(zip(("part", "category", "method", "group"), named, strict=True)),
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
    """How mixed the queries of each part are, in four shares that sum to 1."""
    rows = []
    for part, counts in topics.counts.items():
        judged = counts.relevant[counts.relevant.sum(axis=1) > 0]
        # A column of zeros stands for the second largest category if there is only one.
        padded = np.concatenate([judged, np.zeros((len(judged), 1), dtype=np.int64)], axis=1)
        ordered = np.sort(padded, axis=1)[:, ::-1]
        lead, mixed = ordered[:, 0] - ordered[:, 1], ordered[:, 1] > 0
        rows.append(
            {
                "part": part,
                "queries": len(judged),
                "exclusive": _share(~mixed),
                "tie": _share(lead == 0),
                "lead_1_to_3": _share(mixed & (lead > 0) & (lead <= 3)),
                "lead_over_3": _share(mixed & (lead > 3)),
            }
        )
    return rows


def _share(mask: Bools) -> float:
    return float(mask.mean()) if mask.size else float("nan")
