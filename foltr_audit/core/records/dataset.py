"""Ranking data: queries of different lengths in flat arrays, and the three parts of a fold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import DataError
from foltr_audit.utils.arrays import Bools, Features, Floats, Ints, freeze, read_only_features

_BATCH = 8_192  # rows of features at a time


def names_text(names: Iterable[str]) -> NDArray[np.uint8]:
    """Names as stored: UTF-8 bytes with a NUL after each, uint8 (bytes,); a `ValueError` if one has a NUL."""
    given = list(names)
    text = "\0".join([*given, ""]).encode("utf-8", "surrogatepass")
    if text.count(0) != len(given):
        raise ValueError("a name contains a NUL")
    return np.frombuffer(text, dtype=np.uint8)


def names_in(text: NDArray[np.uint8], count: int) -> tuple[str, ...]:
    """The names of stored bytes; a `ValueError` if these are not so many names of valid UTF-8."""
    *names, rest = text.tobytes().decode("utf-8", "surrogatepass").split("\0")
    if rest or len(names) != count:
        raise ValueError(f"{len(names)} names; expected {count}")
    return tuple(names)


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryOrigin:
    """The origin of each query of a data set.

    Attributes:
        part, query: the part that each query comes from, and its index in that part, int64 (queries,).
        document: position of each document in its original query, int64 (documents,); None if every query
            has all of its original documents.
    """

    part: Ints
    query: Ints
    document: Ints | None = None

    @classmethod
    def of_part(cls, part: int, data: Dataset) -> QueryOrigin:
        """The origin of the queries of one complete part."""
        return cls(part=np.full(data.n_queries, part), query=np.arange(data.n_queries))

    def shown(self, data: Dataset, queries: Ints, shown: Ints) -> Ints:
        """Lists (I, k) for queries (I,) of `data`, as positions in the original queries."""
        if self.document is None:
            return shown
        rows = data.offsets[queries][:, np.newaxis] + np.maximum(shown, 0)
        return np.where(shown >= 0, self.document[rows], -1)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dataset:
    """Judged queries, concatenated in flat arrays.

    Attributes:
        features: float32 or float64, shape (documents, features).
        labels: int64 relevance grades from 0, shape (documents,); with several intents, the highest of each.
        offsets: int64, shape (queries + 1,); query q owns rows offsets[q] .. offsets[q+1]-1.
        query_ids: one name per query.
        document_ids: one name per document, `""` where the source gives none.
        intents: int64 grades under each of I intents, shape (I, documents); None for a single intent.
        users: int64 number of the user who asked each query, from 0, shape (queries,); queries are then in
            order of time. None where queries are nobody's.
        file_queries: place of each query among those of its file, int64 (queries,); None if queries and
            documents stand as in the file, whose order then has a meaning: it breaks ties.
        file_documents: place of each document among those of its query in the file, int64 (documents,).

    Raises:
        DataError: inconsistent shapes, a query without documents, a label or a user below 0.
    """

    features: Features
    labels: Ints
    offsets: Ints
    query_ids: tuple[str, ...]
    document_ids: tuple[str, ...]
    intents: Ints | None = None
    users: Ints | None = None
    file_queries: Ints | None = None
    file_documents: Ints | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", read_only_features(self.features))
        freeze(self, labels=np.int64, offsets=np.int64, intents=np.int64, users=np.int64)
        freeze(self, file_queries=np.int64, file_documents=np.int64)
        documents = len(self.features)
        if self.features.ndim != 2 or self.labels.shape != (documents,):
            raise DataError(
                f"dataset: {self.labels.shape} labels for features of shape {self.features.shape}"
            )
        if len(self.document_ids) != documents or len(self.query_ids) != self.offsets.size - 1:
            raise DataError("dataset: one id per document and per query expected")
        if self.offsets[0] != 0 or self.offsets[-1] != documents or np.any(np.diff(self.offsets) < 1):
            raise DataError("dataset: offsets must rise from 0 to the number of documents")
        if documents and min(self.labels.min(), self.grades.min(initial=0)) < 0:
            raise DataError("dataset: a label is negative")
        if self.grades.ndim != 2 or self.grades.shape[1] != documents:
            raise DataError(f"dataset: grades {self.grades.shape}; expected one for each intent and document")
        if not np.array_equal(self.grades.max(axis=0, initial=-1), self.labels):
            raise DataError("dataset: expected each label to be the highest grade under any intent")
        if self.users is not None and (self.users.shape != (self.n_queries,) or np.any(self.users < 0)):
            raise DataError("dataset: one user from 0 per query expected")
        places = (self.file_queries, self.n_queries), (self.file_documents, documents)
        if any(values is not None and values.shape != (size,) for values, size in places):
            raise DataError("dataset: one place in the file per query and per document expected")

    def __repr__(self) -> str:
        return (
            f"<Dataset: {self.n_queries} queries, {self.n_documents} documents, {self.n_features} features>"
        )

    @property
    def n_queries(self) -> int:
        return self.offsets.size - 1

    @property
    def n_documents(self) -> int:
        """Number of query-document rows."""
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def n_intents(self) -> int:
        """Number of intents for which documents are judged."""
        return 1 if self.intents is None else len(self.intents)

    @property
    def n_users(self) -> int:
        """The largest number of a user plus 1; 0 where queries are nobody's."""
        return 0 if self.users is None else int(self.users.max(initial=-1)) + 1

    @property
    def grades(self) -> Ints:
        """Grade of each document under each intent, int64 (I, documents)."""
        return self.labels[np.newaxis] if self.intents is None else self.intents

    @property
    def lengths(self) -> Ints:
        """Number of documents of each query, shape (queries,)."""
        return np.diff(self.offsets)

    @cached_property
    def has_relevant(self) -> Bools:
        """Whether a query has a document with label > 0, shape (queries,)."""
        return np.add.reduceat(self.labels > 0, self.offsets[:-1]) > 0

    def shown_labels(self, queries: Ints, shown: Ints) -> Ints:
        """Grade of each shown document, int64 (C, k), -1 at the padding.

        `shown` (C, k) holds positions inside each of the `queries` (C,), padded with -1.
        """
        return np.where(shown >= 0, self.labels[self._rows(queries, shown)], -1)

    def shown_features(self, queries: Ints, shown: Ints) -> Features:
        """Feature row of each shown document, (C, k, d), 0 at the padding."""
        rows = self.features[self._rows(queries, shown)]
        rows[shown < 0] = 0  # safe: indexing has made a copy
        return rows

    def _rows(self, queries: Ints, shown: Ints) -> Ints:
        return self.offsets[queries][:, np.newaxis] + np.maximum(shown, 0)

    def select(self, queries: Sequence[int] | Ints) -> Dataset:
        """A data set of some queries (indices), in this order."""
        chosen = np.asarray(queries, dtype=np.int64)
        spans = [np.arange(self.offsets[q], self.offsets[q + 1]) for q in chosen]
        rows = np.concatenate(spans) if spans else np.empty(0, dtype=np.int64)
        return self._of(chosen, rows, self.lengths[chosen], self.file_documents)

    def of_rows(self, rows: Ints) -> Dataset:
        """A data set of some documents, numbers that rise; queries that lose all of theirs are left out."""
        query = np.searchsorted(self.offsets, rows, side="right") - 1
        kept, sizes = np.unique(query, return_counts=True)
        places = None
        if self.file_documents is not None:  # the documents of a query are counted anew
            places = np.empty(self.n_documents, dtype=np.int64)
            first = np.repeat(np.cumsum(sizes) - sizes, sizes)
            places[rows[np.lexsort((self.file_documents[rows], query))]] = np.arange(rows.size) - first
        return self._of(kept, rows, sizes, places)

    def _of(self, queries: Ints, rows: Ints, sizes: Ints, places: Ints | None) -> Dataset:
        """A data set of some documents (n,) of some queries (q,), which have `sizes` (q,) of them each.

        `places`: of all documents (documents,) among those that are left of their query in the file.
        """
        return Dataset(
            features=self.features[rows],
            labels=self.labels[rows],
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            query_ids=tuple(self.query_ids[q] for q in queries.tolist()),
            document_ids=tuple(self.document_ids[row] for row in rows.tolist()),
            intents=None if self.intents is None else self.intents[:, rows],
            users=None if self.users is None else self.users[queries],
            file_queries=None if self.file_queries is None else ranks(self.file_queries[queries]),
            file_documents=None if places is None else places[rows],
        )

    def with_features(self, features: Features) -> Dataset:
        """The same queries with other feature values, shape (documents, any)."""
        return replace(self, features=features)

    def with_intents(self, intents: Ints) -> Dataset:
        """The same documents with new grades for each of I intents, int64 (I, documents)."""
        return replace(self, labels=intents.max(axis=0), intents=intents)

    def under(self, intent: int) -> Dataset:
        """The same documents with their grades under one intent (from 0) only."""
        return replace(self, labels=self.grades[intent], intents=None)

    @cached_property
    def _in_file(self) -> tuple[Ints, Ints]:
        """Numbers of the queries and of the documents in the order of the file, (queries,), (documents,)."""
        if self.file_queries is None or self.file_documents is None:
            return np.arange(self.n_queries), np.arange(self.n_documents)
        rows = np.lexsort((self.file_documents, np.repeat(self.file_queries, self.lengths)))
        return np.argsort(self.file_queries), rows

    def in_file(self, queries: Ints, shown: Ints) -> tuple[Ints, Ints]:
        """Queries (I,) and the documents shown for them (I, k), by their places in the file."""
        if self.file_queries is None or self.file_documents is None:
            return queries, shown
        places = np.where(shown >= 0, self.file_documents[self._rows(queries, shown)], -1)
        return self.file_queries[queries], places

    def of_file(self, queries: Ints, shown: Ints) -> tuple[Ints, Ints]:
        """The inverse of `in_file`; a place that the data do not have stays as it is."""
        if self.file_queries is None:
            return queries, shown
        by_place, rows = self._in_file
        inside = (queries >= 0) & (queries < self.n_queries)
        ours = np.where(inside, by_place[np.where(inside, queries, 0)], queries)
        starts = np.concatenate([[0], np.cumsum(self.lengths[by_place])])
        place = np.where(inside, queries, 0)[:, np.newaxis]
        there = inside[:, np.newaxis] & (shown >= 0) & (shown < self.lengths[by_place][place])
        documents = rows[np.where(there, starts[place] + shown, 0)] - self.offsets[by_place[place]]
        return ours, np.where(there, documents, shown)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the content; neither the layout of the source file nor its order of rows matters.

        Float64 features that float32 represents exactly have the same fingerprint as float32 features.
        """
        pieces = [self.features[row : row + _BATCH] for row in range(0, self.n_documents, _BATCH)]
        exact = self.features.dtype == np.float32 or all(
            np.array_equal(rows, rows.astype(np.float32)) for rows in pieces
        )
        digest = hashlib.sha256(f"foltr-audit/dataset/1 {self.features.shape}\n".encode())
        for rows in pieces:
            digest.update(np.ascontiguousarray(rows, dtype="<f4" if exact else "<f8").data)
        for array in (self.labels, self.offsets):
            digest.update(np.ascontiguousarray(array, dtype="<i8").data)
        for names in (self.query_ids, self.document_ids):
            for name in names:
                digest.update(f"{len(name)}:{name}".encode())
        if self.intents is not None:
            digest.update(f"{len(self.intents)} intents\n".encode())
            digest.update(np.ascontiguousarray(self.intents, dtype="<i8").data)
        if self.users is not None:
            digest.update(b"users\n")
            digest.update(np.ascontiguousarray(self.users, dtype="<i8").data)
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Collection:
    """One fold: the parts for training, validation and test.

    Attributes:
        train, vali, test: the parts; all have the same number of features.
        source: source of the data, e.g. a path or `synthetic:mq2007`.
        synthetic: whether the data was generated.
        fold: number of the fold, from 1; 0 where the source has no folds.
        fingerprint: SHA-256 (hex) over the parts, before normalisation, but without missing values.
        normalised: `none`, `zscore`, `zscore-parts` or `query-minmax`.
        missing: what missing features have become, as `--missing`; None for 0.
        n_missing: number of features that were missing.
        intents_from: source of the intents, qrels or `synthetic:I`; None if the data include them.
        read: numbers of rows and queries in the files, of which those stay whose intents are judged; None
            where no intents are joined by document id.
        left_out: number of queries in the files that belong to nobody in the log, and so to no part.
        scale: mean and deviation, float64 (d,) each, of the features before `zscore`; None for another
            normalisation.
    """

    train: Dataset
    vali: Dataset
    test: Dataset
    source: str
    synthetic: bool
    fold: int
    fingerprint: str
    normalised: str = "none"
    missing: str | None = None
    n_missing: int = 0
    intents_from: str | None = None
    read: tuple[int, int] | None = None
    left_out: int = 0
    scale: tuple[Floats, Floats] | None = None

    def __repr__(self) -> str:
        sizes = " / ".join(str(self.part(name).n_queries) for name in self.PARTS)
        kind = "synthetic " if self.synthetic else ""
        return f"<Collection: {kind}{self.source}, {sizes} queries, {self.n_features} features>"

    PARTS: ClassVar[tuple[str, ...]] = ("train", "vali", "test")

    @property
    def document_order(self) -> str:
        """Whether documents are in the order of their `content` or of their `file`."""
        return "file" if self.train.file_documents is None else "content"

    @classmethod
    def parsed(cls, parts: Iterable[Dataset], **facts: Any) -> Collection:
        """A fold of the three parts as they were parsed, with its fingerprint."""
        train, vali, test = parts
        fingerprint = joint_fingerprint([train, vali, test])
        return cls(train=train, vali=vali, test=test, fingerprint=fingerprint, **facts)

    def with_parts(self, parts: Iterable[Dataset], **changes: Any) -> Collection:
        """The same fold with other parts, and maybe other facts."""
        train, vali, test = parts
        return replace(self, train=train, vali=vali, test=test, **changes)

    def part(self, name: str) -> Dataset:
        """The part with this name: `train`, `vali` or `test`."""
        if name not in self.PARTS:
            raise DataError(f"data: no part {name!r}; expected train, vali or test")
        part: Dataset = getattr(self, name)
        return part

    def joined_parts(self, names: Sequence[str]) -> Dataset:
        """The queries of some parts, one after the other; the last such data are kept for the next call."""
        if len(names) == 1:
            return self.part(names[0])
        if self not in _last_joined or _last_joined[self][0] != tuple(names):
            _last_joined[self] = tuple(names), joined([self.part(name) for name in names])
        return _last_joined[self][1]

    @cached_property
    def _repeats_ids(self) -> bool:
        ids = [set(self.part(name).query_ids) for name in self.PARTS]
        return len(set.union(*ids)) < sum(len(part) for part in ids)

    @cached_property
    def row_order(self) -> str:
        """SHA-256 (hex) of the order of the rows in the files; empty if it is that of the documents."""
        if self.document_order == "file":
            return ""
        digest = hashlib.sha256()
        for part in map(self.part, self.PARTS):
            for places in (part.file_queries, part.file_documents):
                digest.update(np.ascontiguousarray(places, dtype="<i8").data)
        return digest.hexdigest()

    def in_file(self, parts: Sequence[str], part: Ints, query: Ints, shown: Ints) -> tuple[Ints, Ints]:
        """Queries (I,) of parts (I,), indices into `parts`, and lists (I, k) by their places in the files."""
        return self._renumbered("in_file", parts, part, query, shown)

    def of_file(self, parts: Sequence[str], part: Ints, query: Ints, shown: Ints) -> tuple[Ints, Ints]:
        """The inverse of `in_file`."""
        return self._renumbered("of_file", parts, part, query, shown)

    def _renumbered(
        self, how: str, parts: Sequence[str], part: Ints, query: Ints, shown: Ints
    ) -> tuple[Ints, Ints]:
        queries, lists = query.copy(), shown.copy()
        for number in np.unique(part).tolist():
            here = part == number
            renumber = getattr(self.part(parts[number]), how)
            queries[here], lists[here] = renumber(query[here], shown[here])
        return queries, lists

    def query_name(self, part: str, query: int) -> str:
        """Id of a query; with the prefix `PART:` if two parts share an id."""
        name = self.part(part).query_ids[query]
        return f"{part}:{name}" if self._repeats_ids else name

    @property
    def n_features(self) -> int:
        return self.train.n_features

    @property
    def n_queries(self) -> int:
        return sum(self.part(name).n_queries for name in self.PARTS)

    @property
    def n_documents(self) -> int:
        """Number of rows of all parts, each a document of a query."""
        return sum(self.part(name).n_documents for name in self.PARTS)

    @property
    def n_intents(self) -> int:
        """Number of intents for which every part is judged."""
        return self.train.n_intents

    @property
    def largest_label(self) -> int:
        """The highest relevance grade in any part."""
        return max(int(self.part(name).labels.max()) for name in self.PARTS)


_last_joined: WeakKeyDictionary[Collection, tuple[tuple[str, ...], Dataset]] = WeakKeyDictionary()
"""See `Collection.joined_parts`. Not in the collections, so that it is not copied to other processes."""


def joint_fingerprint(parts: Sequence[Dataset]) -> str:
    """SHA-256 (hex) over the fingerprints of several parts, in order."""
    return hashlib.sha256("\n".join(part.fingerprint for part in parts).encode()).hexdigest()


def ranks(values: Ints) -> Ints:
    """How many of the values (n,) are smaller than each of them; equal ones in their order, int64 (n,)."""
    out = np.empty(values.size, dtype=np.int64)
    out[np.argsort(values, kind="stable")] = np.arange(values.size)
    return out


def joined(parts: Sequence[Dataset]) -> Dataset:
    """The concatenated queries of several data sets, also of their files."""
    rows = np.cumsum([0, *(part.n_documents for part in parts)])
    before = np.cumsum([0, *(part.n_queries for part in parts)])
    starts = [part.offsets[:-1] + row for part, row in zip(parts, rows, strict=False)]
    in_file = [
        part.file_queries + n for part, n in zip(parts, before, strict=False) if part.file_queries is not None
    ]
    users = [part.users for part in parts if part.users is not None]
    documents = [part.file_documents for part in parts if part.file_documents is not None]
    return Dataset(
        features=np.concatenate([part.features for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        offsets=np.concatenate([*starts, rows[-1:]]),
        query_ids=tuple(name for part in parts for name in part.query_ids),
        document_ids=tuple(name for part in parts for name in part.document_ids),
        intents=None if parts[0].intents is None else np.concatenate([part.grades for part in parts], axis=1),
        users=np.concatenate(users) if users else None,
        file_queries=np.concatenate(in_file) if in_file else None,
        file_documents=np.concatenate(documents) if documents else None,
    )
