"""Selects the queries of the two clients of a split in each part, and those that they merge models on."""

from __future__ import annotations

from dataclasses import dataclass

from foltr_audit.studies.model_merging.splits import (
    MergeQueries,
    Method,
    QueryPartition,
    merge_queries,
    partition,
)
from foltr_audit.studies.model_merging.topics import QueryTopics

from foltr_audit.errors import DataError

SPLITS: dict[int, tuple[Method, int]] = {
    1: ("exclusive", 0),
    2: ("no-tie-breaking", 0),
    3: ("no-tie-breaking", 1),
}
"""The method and the category of each split: the first category (0) or the second (1)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TopicSplit:
    """One split.

    Attributes:
        number: number of the split, 1 to 3; 0 for the initial one.
        method: how the first client's queries are selected.
        rank: whether they have the first (0) or the second (1) category.
        category: the value of that category.
        parts: the queries of each part.
        merge: D_merge of each client, from the validation part; None for the initial split.
    """

    number: int
    method: Method
    rank: int
    category: int
    parts: dict[str, QueryPartition]
    merge: MergeQueries | None

    @classmethod
    def of(cls, number: int, topics: QueryTopics, places: tuple[int, ...]) -> TopicSplit:
        """Divide the queries of every part; `number` is a key of `SPLITS`, or 0 for the initial split.

        Raises:
            DataError: a client has no query to train on, to stop on, or to merge with.
        """
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
    """The places of the first and the second category: the given ones, then the most frequent topics.

    Raises:
        UsageError: no document has a given category.
    """
    given = [topics.place(category) for category in categories]
    frequent = [place for place in topics.most_frequent(4) if place not in given]
    return tuple([*given, *frequent][:2])
