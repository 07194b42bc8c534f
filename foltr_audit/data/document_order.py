"""The order of queries and documents: by content, so that the order of a file's rows changes no result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Dataset
from foltr_audit.utils.arrays import Bools, Ints


def in_content_order(data: Dataset) -> Dataset:
    """The same data with queries by id, and the documents of each by features, grades and id.

    Random draws are named by the numbers of queries and documents, and sums add documents in their order. The
    queries of users stay in order of time. `file_queries` and `file_documents` keep the order of the file.
    """
    queries = np.arange(data.n_queries)
    if data.users is None:
        queries = np.array(sorted(queries.tolist(), key=lambda query: _by_number(data.query_ids[query])))
    place = np.empty(data.n_queries, dtype=np.int64)
    place[queries] = np.arange(data.n_queries)
    rows = _content_rows(data, np.repeat(place, data.lengths))
    as_it_is = np.array_equal(rows, np.arange(data.n_documents))
    inside = np.arange(data.n_documents) - np.repeat(data.offsets[:-1], data.lengths)
    names = data.document_ids
    return replace(
        data,
        features=data.features if as_it_is else data.features[rows],
        labels=data.labels[rows],
        offsets=np.concatenate([[0], np.cumsum(data.lengths[queries])]),
        query_ids=tuple(data.query_ids[query] for query in queries.tolist()),
        document_ids=names if as_it_is else tuple(names[row] for row in rows.tolist()),
        intents=None if data.intents is None else data.intents[:, rows],
        users=data.users,
        file_queries=queries,
        file_documents=inside[rows],
    )


def _by_number(name: str) -> tuple[bool, int, str]:
    """Sorts whole numbers first and by value, then all other names."""
    number = name.isascii() and name.isdigit()
    return not number, len(name) if number else 0, name


def _content_rows(data: Dataset, place: Ints) -> Ints:
    """Rows in order of the places (documents,) of their queries, then of their content."""
    rows = np.argsort(place, kind="stable")
    group = np.searchsorted(place[rows], place[rows])  # rows that are equal so far have a number in common
    for column in (*data.features.T, *data.grades):
        tied = np.flatnonzero(_repeats(group))
        if not tied.size:  # as after a few features of most data
            return rows
        _refine(rows, group, tied, column[rows[tied]])
    tied = np.flatnonzero(_repeats(group))
    _refine(rows, group, tied, np.array([data.document_ids[row] for row in rows[tied].tolist()]))
    return rows


def _repeats(group: Ints) -> Bools:
    """Which elements (n,) have a neighbour of the same number."""
    repeats = np.zeros(group.size, dtype=np.bool_)
    repeats[1:] = group[1:] == group[:-1]
    repeats[:-1] |= repeats[1:]
    return repeats


def _refine(rows: Ints, group: Ints, tied: Ints, keys: NDArray[np.generic]) -> None:
    """Sort tied rows, in places `tied` (n,), by keys (n,), and give groups with several keys new numbers.

    A group is a stretch of rows, and its number is the place of the first of them.
    """
    if not tied.size:
        return
    order = np.lexsort((keys, group[tied]))
    rows[tied], keys, numbers = rows[tied][order], keys[order], group[tied]
    begins = np.ones(tied.size, dtype=np.bool_)
    begins[1:] = (numbers[1:] != numbers[:-1]) | (keys[1:] != keys[:-1])
    group[tied] = tied[np.maximum.accumulate(np.where(begins, np.arange(tied.size), 0))]
