"""The order of queries and documents: by content, so that the order of a file's rows changes no result."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Dataset
from foltr_audit.data.values import own_memory, row_batches
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Features, Ints

_BATCH_ROWS = 8_192  # sorted at a time, about


def in_content_order(data: Dataset, *, times: Ints | None = None, overwrite: bool = False) -> Dataset:
    """The same data with queries by id, and the documents of each in an order of features, grades and ids.

    With `times` (queries,) queries are in order of time, and those of one time by id.

    Random draws are named by the numbers of queries and documents, and sums add documents in their order.
    That order is one of hashes, so that the place of a document says nothing about it. `file_queries` and
    `file_documents` keep the order of the file. With `overwrite` the given features, which must not be used
    afterwards, are sorted where they are, so that data in about this order need memory once.
    """
    when = [0] * data.n_queries if times is None else times.tolist()
    keys = [(time, natural_key(name)) for time, name in zip(when, data.query_ids, strict=True)]
    queries = np.array(sorted(range(data.n_queries), key=keys.__getitem__), dtype=np.int64)
    rows = _content_rows(data, np.repeat(np.argsort(queries), data.lengths))
    inside = np.arange(data.n_documents) - np.repeat(data.offsets[:-1], data.lengths)
    names = map(tuple(data.document_ids).__getitem__, rows.tolist())
    return replace(
        data,
        features=_sorted_in_place(data, rows) if overwrite else data.features[rows],
        labels=data.labels[rows],
        offsets=np.concatenate([[0], np.cumsum(data.lengths[queries])]),
        query_ids=tuple(data.query_ids[query] for query in queries.tolist()),
        document_ids=tuple(names),
        intents=None if data.intents is None else data.intents[:, rows],
        users=None if data.users is None else data.users[queries],
        file_queries=queries,
        file_documents=inside[rows],
    )


def _sorted_in_place(data: Dataset, rows: Ints) -> Features:
    """The features in the order of rows, some at a time that stay among themselves."""
    own = own_memory(data)
    ends = np.flatnonzero(np.maximum.accumulate(rows) == np.arange(rows.size)) + 1
    last = np.searchsorted(ends, np.arange(0, rows.size, _BATCH_ROWS) + _BATCH_ROWS)
    for first, end in pairwise([0, *ends[np.minimum(last, ends.size - 1)].tolist()]):
        own[first:end] = own[rows[first:end]]
    return own


def natural_key(name: str) -> tuple[tuple[str | tuple[int, str], ...], str]:
    """Sorts names with numbers by these: `q9` before `q10`."""
    pieces = re.split(r"([0-9]+)", name)
    digits = (piece.lstrip("0") for piece in pieces[1::2])
    numbers = ((len(number), number) for number in (*digits, ""))
    return tuple(chain.from_iterable(zip(pieces[::2], numbers, strict=True))), name


def _content_rows(data: Dataset, place: Ints) -> Ints:
    """Rows in order of the places (documents,) of their queries, then of their content."""
    hashes = _hashes(data)
    rows = np.lexsort((hashes, place))
    repeats = (np.diff(place[rows]) == 0) & (hashes[rows[1:]] == hashes[rows[:-1]])
    tied = np.flatnonzero(np.append(False, repeats) | np.append(repeats, False))
    if tied.size:  # repeated documents
        same, stretch = rows[tied], np.cumsum(~np.append(False, repeats))[tied]
        names = np.array([data.document_ids[row] for row in same.tolist()])
        # By their bits: NaN would differ from itself, and -0 would be 0, so that the order of rows decided.
        bits = data.features[same].astype(np.float64).view(np.int64)
        rows[tied] = same[np.lexsort((names, *data.grades[::-1, same], *bits.T[::-1], stretch))]
    return rows


def _hashes(data: Dataset) -> NDArray[np.uint64]:
    """A number for the features and grades of each document, float32 or float64 alike, (documents,)."""
    width = data.n_features + len(data.grades)
    factors = Streams(0).generator("document order").bit_generator.random_raw(width) | np.uint64(1)
    out = np.empty(data.n_documents, dtype=np.uint64)
    for rows in row_batches(data.n_documents):
        single = data.features[rows].astype(np.float32) + np.float32(0.0)  # which makes -0 a 0
        bits = np.hstack([single.view(np.uint32), data.grades[:, rows].T]).astype(np.uint64)
        out[rows] = (bits * factors).sum(axis=1, dtype=np.uint64)
    # Multiplying moves low bits up only; the high ones decide, and are mixed into all others.
    out ^= out >> np.uint64(32)
    out *= np.uint64(0x9E3779B97F4A7C15)
    return out ^ (out >> np.uint64(29))
