"""Counts the queries, relevant documents and pairs of each client, and the categories.

The forms are those of "Learning to rank for non independent and identically distributed datasets" (2024),
table 2 and figure 2.
"""

from __future__ import annotations

import numpy as np
from foltr_audit.studies.model_merging.merge_rows import CategoryRow, MixtureRow, SplitSizes
from foltr_audit.studies.model_merging.splits import METHODS, partition
from foltr_audit.studies.model_merging.topics import QueryTopics

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.utils.arrays import Bools, Ints


def split_statistics(
    collection: Collection, topics: QueryTopics, places: tuple[int, ...]
) -> list[SplitSizes]:
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


def _sizes(named: tuple[str, int | None, str | None, str], data: Dataset, queries: Ints) -> SplitSizes:
    """The sizes of some queries; they are named by part, category, method and group."""
    part, category, method, group = named
    relevant = np.add.reduceat((data.labels > 0).astype(np.int64), data.offsets[:-1])
    return SplitSizes(
        part=part,
        category=category,
        method=method,
        group=group,
        queries=int(queries.size),
        relevant_documents=int(relevant[queries].sum()),
        pairs=int(data.lengths[queries].sum()),
    )


def category_rows(topics: QueryTopics) -> list[CategoryRow]:
    """The relevant documents and queries of each category in the training part."""
    found, counts = topics.topics["train"], topics.counts["train"].relevant
    queries = np.bincount(found[found >= 0], minlength=len(topics.categories))
    return [
        CategoryRow(category=category, relevant_documents=int(counts[:, place].sum()), queries=int(number))
        for place, (category, number) in enumerate(zip(topics.categories, queries, strict=True))
    ]


def mixture_rows(topics: QueryTopics) -> list[MixtureRow]:
    """How mixed the queries of each part are."""
    rows = []
    for part, counts in topics.counts.items():
        judged = counts.relevant[counts.relevant.sum(axis=1) > 0]
        # A column of zeros stands for the second largest category if there is only one.
        padded = np.concatenate([judged, np.zeros((len(judged), 1), dtype=np.int64)], axis=1)
        ordered = np.sort(padded, axis=1)[:, ::-1]
        lead = ordered[:, 0] - ordered[:, 1]
        rows.append(
            MixtureRow(
                part=part,
                queries=len(judged),
                exclusive=_share(ordered[:, 1] == 0),
                tie=_share(lead == 0),
                lead_1_to_3=_share((lead > 0) & (lead <= 3)),
                lead_over_3=_share(lead > 3),
            )
        )
    return rows


def _share(mask: Bools) -> float:
    return float(mask.mean()) if mask.size else float("nan")
