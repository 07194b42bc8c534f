"""Finds the topic of each query: the category of most of its relevant documents.

Source of the rule and its ties: "Learning to rank for non independent and identically distributed datasets"
(2024), section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.errors import DataError, UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Ints

NO_TOPIC = -1
"""Topic of a query without relevant documents."""

MOST_CATEGORIES = 1_000
"""A column with more distinct values does not hold categories."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CategoryCounts:
    """The relevant documents of each query by category; arrays are int64 (queries, categories).

    Attributes:
        relevant: their number, label > 0.
        label_sums: the sum of their labels.
        highest: the highest label; 0 if there are none.
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
    """The categories of a collection, and the topics of its queries.

    Attributes:
        categories: the values of the category column, ascending; other arrays refer to places in it.
        counts: the relevant documents of each part.
        topics: the topic of each query of each part, int64 (queries,); `NO_TOPIC` if nothing is relevant.
    """

    categories: tuple[int, ...]
    counts: dict[str, CategoryCounts]
    topics: dict[str, Ints]

    @classmethod
    def of(cls, collection: Collection, feature: int, streams: Streams) -> QueryTopics:
        """Read the categories of a collection from a column, counted from 1; it must not be normalised.

        Raises:
            UsageError: the column does not exist, or the data are normalised.
            DataError: its values are not categories.
        """
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
        """The place of a category.

        Raises:
            UsageError: no document has it.
        """
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
