"""Categories of documents, counted by query, and the statistics of topics."""

from __future__ import annotations

import numpy as np
from foltr_audit.studies.model_merging.categories import CategoryRule
from foltr_audit.studies.model_merging.splits import QueryTopics, category_rows, split_statistics

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.rng import Streams
from tests.fixtures.reference import dataset
from tests.fixtures.tiny import collection_of


def part(queries: list[list[tuple[float, int]]], width: int = 3, column: int = 2) -> Dataset:
    """Queries as lists of (category, label)."""
    documents = [document for query in queries for document in query]
    features = np.zeros((len(documents), width))
    features[:, column - 1] = [category for category, _ in documents]
    return dataset(features, [label for _, label in documents], [*map(len, queries)])


def collection(train: list[list[tuple[float, int]]], column: int = 2) -> Collection:
    other = part([[(7, 1), (9, 0)]], column=column)
    return collection_of(part(train, column=column), other, other)


COLUMN = CategoryRule(feature=2)
TRAIN: list[list[tuple[float, int]]] = [
    [(5, 2), (5, 0), (7, 1), (5, 1)],
    [(7, 0), (7, 0)],
    [(11, 4)],
    [(7, 1), (11, 3)],
]


def test_counts_are_those_of_relevant_documents() -> None:
    topics = QueryTopics.of(collection(TRAIN), COLUMN, Streams(1))
    assert topics.categories == (5, 7, 9, 11)
    counts = topics.counts["train"]
    assert counts.relevant.tolist() == [[2, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 1]]
    assert counts.label_sums.tolist() == [[3, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 4], [0, 1, 0, 3]]
    assert counts.highest.tolist() == [[2, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 4], [0, 1, 0, 3]]
    assert topics.topics["train"].tolist() == [0, -1, 3, 3]
    assert topics.most_frequent(2) == (3, 0)
    assert topics.place(11) == 3


def test_equally_frequent_topics_come_in_the_order_of_categories() -> None:
    topics = QueryTopics.of(collection([[(9, 1)], [(5, 1)], [(7, 1)], [(7, 1)]]), COLUMN, Streams(1))
    assert [topics.categories[place] for place in topics.most_frequent(3)] == [7, 5, 9]


def test_statistics_by_hand() -> None:
    data = collection(TRAIN)
    rows = split_statistics(data, QueryTopics.of(data, COLUMN, Streams(1)), (1,))
    here = [row for row in rows if row["part"] == "train"]
    sizes = ("queries", "relevant_documents", "pairs")
    found = {(row["method"], row["group"]): tuple(row[name] for name in sizes) for row in here}
    assert found[None, "DS"] == (4, 6, 9)
    for method in ("initial", "no-tie-breaking", "exclusive"):
        assert found[method, "DS_1"] == (0, 0, 0)
        assert found[method, "DS'_2"] == (1, 1, 1)
        assert found[method, "remaining"] == (2, 5, 6)
        assert found[method, "irrelevant"] == (1, 0, 2)


def test_the_histogram_by_hand() -> None:
    topics = QueryTopics.of(collection(TRAIN), COLUMN, Streams(1))
    rows = [(row["category"], row["relevant_documents"], row["queries"]) for row in category_rows(topics)]
    assert rows == [(5, 2, 1), (7, 2, 0), (9, 0, 0), (11, 2, 2)]
