"""Topics of queries, and what clients have of them: splits, and the counts of each.

Every query of a part is in exactly one group: of a client (DS_1, DS'_2 or DS_2, and so on), remaining
(D_merge is taken from these), or without relevant documents. The last group has no topic and trains no model;
it counts only in the whole data set.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), sections 3.2, 4
and 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

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


class CategoryCounts(NamedTuple):
    """The relevant documents (label > 0) of each query by category, int64 (queries, categories).

    Besides their number, the sum and the highest of their labels; 0 if there are none.
    """

    relevant: Ints
    label_sums: Ints
    highest: Ints

    @classmethod
    def of(cls, part: Dataset, places: Ints, categories: int) -> CategoryCounts:
        """Count the documents of a part; `places` (documents,) are their places among the categories."""
        cells = np.repeat(np.arange(part.n_queries), part.lengths), places
        counts = cls(*np.zeros((3, part.n_queries, categories), dtype=np.int64))
        np.add.at(counts.relevant, cells, part.labels > 0)
        np.add.at(counts.label_sums, cells, part.labels)
        np.maximum.at(counts.highest, cells, part.labels)
        return counts


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
    for votes in counts:
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


def partition(method: Method, relevant: Ints, topics: Ints, chosen: Sequence[int]) -> QueryPartition:
    """Group the queries of a part by the places of the chosen categories.

    A single category makes two clients: the first has its queries, selected by `method` (DS_1), and the
    second those with relevant documents but none of it (DS'_2). Several make as many clients, each with the
    queries of its own. `exclusive` are queries whose relevant documents are all of the category;
    `no-tie-breaking` ones have more of it than of any other; `initial` are those of its topic.

    `relevant` counts relevant documents (queries, categories), and `topics` has ties broken (queries,).
    """
    every = relevant.sum(axis=1)

    def selected(place: int) -> Bools:
        if method == "initial":
            return np.asarray(topics == place)
        if method == "exclusive":
            return np.asarray((relevant[:, place] > 0) & (relevant[:, place] == every))
        others = np.delete(relevant, place, axis=1)
        return np.asarray(relevant[:, place] > others.max(axis=1, initial=0))

    held = list(map(selected, chosen))
    if len(chosen) == 1:
        held.append((relevant[:, chosen[0]] == 0) & (every > 0))
    return QueryPartition(
        clients=tuple(map(np.flatnonzero, held)),
        remaining=np.flatnonzero((every > 0) & ~np.any(held, axis=0)),
        irrelevant=np.flatnonzero(every == 0),
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
        for part in ("train", "vali"):
            for client, queries in enumerate(parts[part].clients):
                if not queries.size:
                    category = topics.categories[chosen[min(client, len(chosen) - 1)]]
                    raise DataError(
                        f"merge: split {number}: no {part} query of client {client + 1} for category "
                        f"{category}; expected more data, or another --category"
                    )
        trained = [queries.size for queries in parts["train"].clients]
        wanted = tuple(max(1, size // 2) for size in trained)
        remaining, relevant = parts["vali"].remaining, topics.counts["vali"].relevant
        merge = merge_queries(remaining, relevant, chosen, wanted) if number else ()
        for client, queries in enumerate(merge):
            if queries.size < 2:
                cause = f"{remaining.size} validation queries remain for D_merge"
                if wanted[client] < 2:
                    cause = f"D_merge has half as many queries as train client {client + 1}, and these are "
                    cause += str(trained[client])
                raise DataError(
                    f"merge: split {number}: {cause}; expected at least 2 in D_merge of each client; use "
                    "more data, or another --category"
                )
        return cls(
            number=number,
            method=method,
            choice=rank + 1 if pair else None,
            category=topics.categories[chosen[0]] if pair else None,
            parts=parts,
            wanted=wanted,
            merge=merge,
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
    rows: list[dict[str, Any]] = []

    def add(part: str, queries: Ints, category: int | None, method: str | None, group: str) -> None:
        data = collection.part(part)
        sizes = {
            "queries": int(queries.size),
            "relevant_documents": int(relevant_documents(data)[queries].sum()),
            "pairs": int(data.lengths[queries].sum()),
        }
        rows.append({"part": part, "category": category, "method": method, "group": group, **sizes})

    for part in collection.PARTS:
        add(part, np.arange(collection.part(part).n_queries), None, None, "DS")
        for chosen, category in choices:
            for method in METHODS:
                found = partition(method, topics.counts[part].relevant, topics.topics[part], chosen)
                groups = (*found.clients, found.remaining, found.irrelevant)
                for name, queries in zip(names, groups, strict=True):
                    add(part, queries, category, method, name)
    return rows


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
