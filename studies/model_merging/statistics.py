"""How many queries, relevant documents and pairs each client has, and how categories are distributed.

The forms are those of "Learning to rank for non independent and identically distributed datasets" (2024),
table 2 and figure 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.studies.model_merging.splits import METHODS, partition
from foltr_audit.studies.model_merging.topics import QueryTopics

Row = dict[str, Any]


def split_statistics(collection: Collection, topics: QueryTopics, places: tuple[int, ...]) -> list[Row]:
    """One row per part and group: `DS`, and for each category and method `DS_1`, `DS'_2` and what remains."""
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


def _sizes(group: str, data: Dataset, queries: NDArray[np.int64]) -> Row:
    relevant = np.add.reduceat((data.labels > 0).astype(np.int64), data.offsets[:-1])
    return {
        "group": group,
        "queries": int(queries.size),
        "relevant_documents": int(relevant[queries].sum()),
        "pairs": int(data.lengths[queries].sum()),
    }


def category_rows(topics: QueryTopics) -> list[Row]:
    """Relevant documents and queries of each category in the training part."""
    found, counts = topics.topics["train"], topics.counts["train"].relevant
    queries = np.bincount(found[found >= 0], minlength=len(topics.categories))
    return [
        {"category": category, "relevant_documents": int(counts[:, place].sum()), "queries": int(number)}
        for place, (category, number) in enumerate(zip(topics.categories, queries, strict=True))
    ]


def mixture_rows(topics: QueryTopics) -> list[Row]:
    """How mixed the queries of each part are, as shares of those with relevant documents.

    All relevant documents of one category; a tie of the largest categories; the largest up to 3 ahead of the
    next without a tie; more than 3 ahead.
    """
    rows = []
    for part, counts in topics.counts.items():
        judged = counts.relevant[counts.relevant.sum(axis=1) > 0]
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


def _share(held: NDArray[np.bool_]) -> float:
    return float(held.mean()) if held.size else float("nan")
