"""Counts the queries, relevant documents and pairs of each client, and the categories.

The forms are those of "Learning to rank for non independent and identically distributed datasets" (2024),
table 2 and figure 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.studies.model_merging.splits import METHODS, partition
from foltr_audit.studies.model_merging.topics import QueryTopics
from foltr_audit.utils.arrays import Bools, Ints

Row = dict[str, Any]


def split_statistics(collection: Collection, topics: QueryTopics, places: tuple[int, ...]) -> list[Row]:
    """One row for each part and group: `DS`, and `DS_1`, `DS'_2` and the rest by category and method."""
    rows = []
    for part in collection.PARTS:
        data, relevant = collection.part(part), topics.counts[part].relevant
        everything = np.arange(data.n_queries)
        rows.append({"part": part, "category": None, "method": None, **_sizes("DS", data, everything)})
        for place in places:
            for method in METHODS:
                named = {"part": part, "category": topics.categories[place], "method": method}
                found = partition(method, relevant, topics.topics[part], place)
                rows += [
                    {**named, **_sizes(group, data, queries)}
                    for group, queries in (
                        ("DS_1", found.first),
                        ("DS'_2", found.second),
                        ("remaining", found.remaining),
                        ("irrelevant", found.irrelevant),
                    )
                ]
    return rows


def _sizes(group: str, data: Dataset, queries: Ints) -> Row:
    relevant = np.add.reduceat((data.labels > 0).astype(np.int64), data.offsets[:-1])
    return {
        "group": group,
        "queries": int(queries.size),
        "relevant_documents": int(relevant[queries].sum()),
        "pairs": int(data.lengths[queries].sum()),
    }


def category_rows(topics: QueryTopics) -> list[Row]:
    """The relevant documents and queries of each category in the training part."""
    found, counts = topics.topics["train"], topics.counts["train"].relevant
    queries = np.bincount(found[found >= 0], minlength=len(topics.categories))
    return [
        {"category": category, "relevant_documents": int(counts[:, place].sum()), "queries": int(number)}
        for place, (category, number) in enumerate(zip(topics.categories, queries, strict=True))
    ]


def mixture_rows(topics: QueryTopics) -> list[Row]:
    """How mixed the queries of each part are, as shares of the queries with relevant documents.

    The shares: all relevant documents have one category; the largest categories tie; the largest category
    leads the next one by 1 to 3 documents; it leads by more.
    """
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
