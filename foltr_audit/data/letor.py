"""LETOR and SVM-rank text, `LABEL qid:QUERY 1:VALUE 2:VALUE ... #docid = DOCUMENT`: reader and writer."""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import zlib
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Dataset
from foltr_audit.core.settings.data import LARGEST_FEATURE
from foltr_audit.data.values import (
    BEYOND,
    MAX_FEATURES,
    MISSING,
    NO_VALUE,
    NOT_FINITE,
    is_marker,
    label_problem,
    zero_features,
)
from foltr_audit.errors import DataError
from foltr_audit.recorder.atomic_files import whole_file
from foltr_audit.utils.arrays import Features, Ints

MOST_SHOWN = 20
"""Bytes of a file that an error message may quote."""

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BATCH_BYTES = 2 << 20  # a batch that stays in the cache reads faster than 20,000 wide rows at once
_MOST_LINE_BYTES = 16 << 20  # a line of all features that there may be has some two million
# gzip packs repetitions a thousandfold: a small file from outside could otherwise fill the memory.
_MOST_UNPACKED = (8 << 20, 200)  # this many bytes, or this many times the packed ones
_FOLD = re.compile(r"Fold\d+")
_GROUP_SIZE = re.compile(rb"\d{1,18}")


def name_in_messages(path: Path) -> str:
    """How errors name a file: `train.txt`, or `Fold2/train.txt` in a folder of folds."""
    folder = path.parent.name
    return f"{folder}/{path.name}" if _FOLD.fullmatch(folder) else path.name


def shown(value: bytes) -> str:
    """A piece of a file for a message; a long one is not quoted, as the file may be of another kind."""
    if len(value) > MOST_SHOWN:
        return f"of {len(value)} bytes"
    return repr(value.decode("utf-8", errors="replace"))


def line_batches(path: Path, who: str = "letor") -> Iterator[tuple[int, list[bytes]]]:
    """Lines of a text file, some megabytes at a time, each batch with its first line's number (from 1).

    `who` names the reader in messages.

    Raises:
        DataError: a file that is missing, a folder, unreadable, damaged gzip, or not UTF-8 text.
    """
    where = f"{who}: {name_in_messages(path)}"
    number = 1
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == _GZIP_MAGIC
            stream = cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=raw))) if packed else raw
            for lines in _batches(stream, raw, where):
                if number == 1:
                    lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
                # One check of a whole batch; lines are searched only to name the bad one.
                if _fault(b"\n".join(lines)):
                    bad, line = next((i, line) for i, line in enumerate(lines, number) if _fault(line))
                    raise DataError(f"{where}:{bad}: {_fault(line)}; expected a text file, plain or gzip")
                yield number, lines
                number += len(lines)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{where}: damaged gzip data ({error}); expected a complete file") from error
    except IsADirectoryError as error:
        raise DataError(f"{who}: {path}: a folder, where a file is expected") from error
    except FileNotFoundError as error:
        raise DataError(f"{who}: {path}: no such file") from error
    except OSError as error:
        raise DataError(f"{who}: {path}: cannot be read: {error.strerror or error}") from error


def _batches(stream: BinaryIO, raw: BinaryIO, where: str) -> Iterator[list[bytes]]:
    """Lines of a stream without their ends; `raw` is the file it reads from, which may be compressed."""
    rest, total = b"", 0
    while piece := stream.read(_BATCH_BYTES):
        total += len(piece)
        if stream is not raw and raw.seekable():  # a pipe has no position
            packed = raw.tell()
            if total > max(_MOST_UNPACKED[0], _MOST_UNPACKED[1] * packed):
                raise DataError(f"{where}: {packed} bytes unpack to {total} and more; expected data")
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > _MOST_LINE_BYTES:
            raise DataError(f"{where}: a line of more than {_MOST_LINE_BYTES} bytes; expected shorter ones")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _fault(text: bytes) -> str:
    """Why bytes are no text; empty if they are."""
    if b"\0" in text:
        return "a NUL byte"
    try:
        if not text.isascii():
            text.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes that are not UTF-8"
    return ""


def _group_names(path: Path) -> list[str]:
    """Names of the files that may hold the group sizes of a file with rows; each may end in `.gz` as well."""
    names = dict.fromkeys((path.name.removesuffix(".gz"), path.name))
    return [f"{name}{end}" for name in names for end in (".query", ".group")]


def group_file(path: Path) -> Path | None:
    """The file beside a file with rows that holds its group sizes, as LightGBM or XGBoost names it.

    Raises:
        DataError: several such files.
    """
    there = [
        name + packed
        for name in _group_names(path)
        for packed in ("", ".gz")
        if os.path.isfile(path.with_name(name + packed))  # False also of a name that is too long
    ]
    if len(there) > 1:
        raise DataError(
            f"data: {path.parent}: several group files of {path.name}: {' and '.join(there)}; expected one"
        )
    return path.with_name(there[0]) if there else None


def read_group_sizes(path: Path) -> list[int]:
    """Numbers of rows of the queries in a `.query` or `.group` file, one a line; blank lines are skipped.

    Raises:
        DataError: a file that cannot be read, or a line that is not a whole number from 1.
    """
    sizes: list[int] = []
    for first, lines in line_batches(path):
        for number, line in enumerate(lines, first):
            text = line.strip()
            if not text:
                continue
            size = int(text) if _GROUP_SIZE.fullmatch(text) else 0
            if size < 1:
                where = f"letor: {name_in_messages(path)}:{number}"
                raise DataError(f"{where}: group size {shown(text)}; expected a whole number from 1")
            sizes.append(size)
    return sizes


_OTHER_SPACE = (b"  ", b"\t", b"\r", b"\v", b"\f")
_ID = re.compile(rb"[+-]?\d+")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INFINITE = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)
_NO_VALUE = re.compile(rb"[+-]?nan|null|na", re.IGNORECASE)
"""Not a number, or what LETOR's files of raw features have where a feature has no value."""


@dataclass(frozen=True)
class _FeatureBlock:
    """Parsed features of some consecutive rows, up to the feature `width`.

    Attributes:
        counts: number of given features of each row, shape (rows,).
        columns: 0-based feature of each value, shape (entries,); None if every row gives 1..width in order.
        values: shape (entries,).
    """

    counts: Ints
    columns: NDArray[np.uint16] | None
    values: Features
    width: int

    @classmethod
    def of(cls, counts: Ints, ids: NDArray[np.int32], values: Features) -> _FeatureBlock:
        width = int(ids.max(initial=0))
        given = ids.reshape(counts.size, width) if width and np.all(counts == width) else None
        if given is not None and np.array_equal(given, np.broadcast_to(np.arange(1, width + 1), given.shape)):
            return cls(counts, None, values, width)
        return cls(counts, (ids - 1).astype(np.uint16), values, width)

    def fill(self, matrix: Features) -> None:
        """Write the values into zeros of shape (rows, at least width)."""
        if self.columns is None:
            matrix[:, : self.width] = self.values.reshape(self.counts.size, self.width)
        else:
            matrix[np.repeat(np.arange(self.counts.size), self.counts), self.columns] = self.values


def _read_entries(text: bytes, count: int, dtype: str) -> tuple[NDArray[np.int32], Features]:
    """Feature ids and values of entries with a space between them; 0 or NaN of what may be wrong.

    They are read as a CSV with a colon between columns: no Python string is made for any of them, and text
    becomes a number in one rounding.
    """
    # Imported here: polars takes about half a second, which runs that parse no text need not wait for.
    import polars as pl
    from polars.exceptions import PolarsError

    schema = {"id": pl.Int32, "value": pl.Float64 if dtype == "float64" else pl.Float32}
    form = {"has_header": False, "separator": ":", "eol_char": " ", "quote_char": None}
    ids, values = np.full(count, 0, np.int32), np.full(count, np.nan, dtype)
    # Polars passes over an empty third column at the end of the text, and an odd number of columns.
    if count and text.count(b":") == count:
        with suppress(PolarsError):
            frame = pl.read_csv(text, schema=schema, ignore_errors=True, **form)
            if frame.height == count:
                ids[:] = frame["id"].fill_null(0).to_numpy()
                values[:] = frame["value"].fill_null(math.nan).to_numpy()
    return ids, values


def _parse_entry(entry: bytes, *, nan_is_missing: bool) -> tuple[int, float]:
    """The feature, from 1, and its value, maybe `MISSING`; a `ValueError` that says what is wrong."""
    left, colon, text = entry.partition(b":")
    if not colon:
        raise ValueError(f"{shown(entry)} has no colon; expected FEATURE:VALUE")
    if not _ID.fullmatch(left):
        raise ValueError(f"feature id {shown(left)} is not a whole number from 1")
    digits = left.lstrip(b"+0")
    if not digits or left.startswith(b"-"):
        raise ValueError(f"feature id {shown(left)}; expected a whole number from 1")
    # The length first: of more than 4,300 digits Python refuses to make a number, with an error of its own.
    if len(digits) > 9 or int(digits) > MAX_FEATURES:
        raise ValueError(f"feature id {shown(left)} is above the largest, {MAX_FEATURES}")
    is_number = _NUMBER.fullmatch(text) is not None
    if is_marker(text.decode()) if is_number else nan_is_missing and _NO_VALUE.fullmatch(text):
        return int(digits), MISSING
    if not is_number:
        problem = (
            NO_VALUE
            if _NO_VALUE.fullmatch(text)
            else NOT_FINITE
            if _INFINITE.fullmatch(text)
            else " is not a number"
        )
        raise ValueError(f"feature {int(digits)}: value {shown(text)}{problem}")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(float(text))):
            raise ValueError(f"feature {int(digits)}: value {shown(text)}{BEYOND}")
    return int(digits), float(text)


_BATCH_VALUES = 1_000_000


def write_letor(dataset: Dataset, path: Path) -> None:
    """Write dense LETOR text with query and document ids, which are names without spaces.

    The file appears whole or not at all, and reading it back gives the same fingerprint.

    Raises:
        DataError: the file cannot be written.
    """
    rows = max(1, _BATCH_VALUES // dataset.n_features)
    try:
        with whole_file(path) as stream:
            for start in range(0, dataset.n_documents, rows):
                stream.write(_text(dataset, start, min(start + rows, dataset.n_documents)))
    except OSError as error:
        raise DataError(f"letor: {path}: cannot be written: {error.strerror or error}") from error


def _text(dataset: Dataset, start: int, stop: int) -> bytes:
    """The lines of rows start .. stop-1."""
    import polars as pl

    queries = np.searchsorted(dataset.offsets, np.arange(start, stop), side="right") - 1
    heads = [
        f"{label} qid:{dataset.query_ids[query]}"
        for label, query in zip(dataset.labels[start:stop].tolist(), queries.tolist(), strict=True)
    ]
    tails = [f" #docid = {name}\n" if name else "\n" for name in dataset.document_ids[start:stop]]
    pieces: list[pl.Series | pl.Expr] = [pl.Series(heads, dtype=pl.String)]
    for column in range(dataset.n_features):
        values = pl.Series(np.ascontiguousarray(dataset.features[start:stop, column]))
        pieces += [pl.lit(f" {column + 1}:"), values.cast(pl.String)]
    lines = pl.select(pl.concat_str([*pieces, pl.Series(tails, dtype=pl.String)])).to_series()
    return "".join(lines.to_list()).encode()


# Format as published with LETOR 4.0 (Qin & Liu 2013, "Introducing LETOR 4.0 datasets") and
# SVM-rank (Joachims 2006); libsvm rows with a file of group sizes, `.query` as LightGBM reads it or
# `.group` as XGBoost does.

_DOCUMENT = re.compile(
    rb"(?<!\S)#*doc[_-]?id\s*[=:]\s*(\S+)|\A[\s#]*(?!doc[_-]?id[=:])([^\s#]\S*)\s*\Z", re.IGNORECASE
)
"""A comment with `docid = NAME`, and more or less around it, or of nothing but a NAME, such as an address."""
_LABEL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_FORM = "expected lines 'LABEL qid:QUERY 1:VALUE ...'"
_ELSE = "or in Python a data frame for fa.make_data"


@dataclass(frozen=True)
class LetorFile:
    """One file: its queries, whether every row gives exactly the features 1..d, and queries passed over."""

    dataset: Dataset
    dense: bool
    left_out: int = 0


def read_letor(
    path: Path,
    *,
    groups: Path | None = None,
    dtype: str = "float32",
    only: Container[str] | None = None,
    nan_is_missing: bool = False,
) -> LetorFile:
    """Read a LETOR or SVM-rank text file, plain or gzip, with features in float32 or float64.

    With `groups` (one number of rows a line) query ids are `FILE:0`, `FILE:1`, ..., or those of the rows,
    which must be of the same queries. With `only` the rows of other queries are passed over: their features
    are not read. A feature that is missing is `MISSING`, see `fill_missing`; so is NaN if `nan_is_missing`,
    which else is refused.

    Raises:
        DataError: a file that cannot be read, the first malformed line with its number, or groups of other
            rows.
    """
    rows = _LetorRows(path, groups is not None, dtype, only, nan_is_missing)
    for first, lines in line_batches(path):
        rows.read(first, lines)
    if not rows.blocks:
        rest = f"; {rows.left_out} queries are others" if rows.left_out else ""
        raise DataError(f"{rows.where}: no rows{rest}; {_FORM}")
    offsets, query_ids = rows.queries(groups)
    width = max(block.width for block in rows.blocks)
    if not width:
        raise DataError(f"{rows.where}: no row has a feature; expected FEATURE:VALUE after the query id")
    dense = all(bool(np.all(block.counts == width)) for block in rows.blocks)
    dataset = Dataset(
        features=rows.features(width),
        labels=np.array(rows.labels, dtype=np.int64),
        offsets=offsets,
        query_ids=query_ids,
        document_ids=tuple(rows.document_ids),
    )
    return LetorFile(dataset, dense, rows.left_out)


@dataclass
class _LetorRows:
    """What was read from the lines of a file so far."""

    path: Path
    grouped: bool  # whether a file of group sizes says where queries begin
    dtype: str
    only: Container[str] | None
    nan_is_missing: bool
    left_out: int = 0
    blocks: list[_FeatureBlock] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    document_ids: list[str] = field(default_factory=list)
    starts: dict[bytes, int] = field(default_factory=dict)  # first row of each query, in file order
    query: bytes | None = None
    passing: bool = False
    label_of: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = name_in_messages(self.path)
        self.where = f"letor: {self.name}"

    def read(self, first: int, lines: list[bytes]) -> None:
        """Read a batch of lines whose first one has this number.

        Raises:
            DataError: the first line that is malformed.
        """
        rows: list[bytes] = []
        numbers: list[int] = []
        fault: DataError | None = None
        for number, line in enumerate(lines, first):
            try:
                row = self._take(line)
            except ValueError as error:
                # An earlier row may have a bad feature: that one is reported.
                fault = DataError(f"{self.where}:{number}: {error}")
                break
            if row is not None:
                rows.append(row)
                numbers.append(number)
        if rows:
            self.blocks.append(self._features(rows, numbers))
        if fault is not None:
            raise fault

    def _take(self, line: bytes) -> bytes | None:
        """Note label, query and document of a line; its features, or None if it is blank or passed over."""
        body, _, comment = line.partition(b"#")
        fields = body.split(None, 2)
        if not fields:
            return None
        label = self.label_of.get(fields[0])
        if label is None:
            if not self.label_of and not _LABEL.fullmatch(fields[0]):
                raise ValueError(f"label {shown(fields[0])} is not a number; {_FORM}, {_ELSE}")
            label = self.label_of[fields[0]] = _parse_label(fields[0])
        query = fields[1] if len(fields) > 1 else b""
        has_query = query.startswith(b"qid:")
        if has_query and self.grouped and self.labels and self.query is None:
            raise ValueError(
                f"query id {shown(query[4:])} after rows without one; expected one in every row or in none"
            )
        if has_query or not self.grouped or self.query is not None:
            if query != self.query:
                self._enter(query)
            if self.passing:
                return None
        self.labels.append(label)
        found = _DOCUMENT.search(comment) if comment else None
        self.document_ids.append((found[1] or found[2]).decode() if found else "")
        return b" ".join(fields[2 if has_query else 1 :]).strip()

    def _enter(self, query: bytes) -> None:
        if not query.startswith(b"qid:") or query == b"qid:":
            found = f"{shown(query)} after the label" if query else "nothing after the label"
            expected = "'qid:NAME'"
            if self.query is None and self.only is None:
                expected += f", or a group file {' or '.join(_group_names(self.path))}, plain or .gz"
                expected += "; qrels of intents are given by --intents"
            raise ValueError(f"query id missing: {found}; expected {expected}")
        if query in self.starts:
            raise ValueError(f"rows of query {shown(query[4:])} are split apart; expected one block")
        self.query = query
        self.passing = self.only is not None and query[4:].decode() not in self.only
        if self.passing:
            self.left_out += 1
        else:
            self.starts[query] = len(self.labels)

    def _features(self, rows: list[bytes], numbers: list[int]) -> _FeatureBlock:
        """Parse the features of rows, without label, query id and comment.

        What is missing becomes `MISSING`: Istella's marker, and what is no number if `nan_is_missing`.
        """
        text = b" ".join(filter(None, rows))
        if any(space in text for space in _OTHER_SPACE):
            rows = [b" ".join(row.split()) for row in rows]
            text = b" ".join(filter(None, rows))
        counts = np.array([row.count(b" ") + 1 if row else 0 for row in rows], dtype=np.int64)
        ids, values = _read_entries(text, int(counts.sum()), self.dtype)
        sound, fault = ids.size, ""  # the entries before the first malformed one, and what is wrong with it
        odd = np.flatnonzero((ids < 1) | (ids > MAX_FEATURES) | ~(np.abs(values) <= LARGEST_FEATURE))
        entries = text.split(b" ") if odd.size else []
        known: dict[bytes, tuple[int, float]] = {}  # a few, as of a marker
        for place in odd.tolist():
            entry = entries[place]
            try:
                if entry not in known:
                    known[entry] = _parse_entry(entry, nan_is_missing=self.nan_is_missing)
            except ValueError as error:
                sound, fault = place, str(error)
                break
            ids[place], values[place] = known[entry]
        repeated = _first_repeated(ids[:sound], counts)
        if repeated is not None:
            sound, fault = repeated, f"feature {ids[repeated]} given twice"
        if fault:
            row = int(np.searchsorted(np.cumsum(counts), sound, side="right"))
            raise DataError(f"{self.where}:{numbers[row]}: {fault}")
        return _FeatureBlock.of(counts, ids, values)

    def queries(self, groups: Path | None) -> tuple[Ints, tuple[str, ...]]:
        """Offsets, shape (queries + 1,), and ids of the queries.

        Raises:
            DataError: groups of other rows.
        """
        offsets = np.array([*self.starts.values(), len(self.labels)], dtype=np.int64)
        names = tuple(query[4:].decode() for query in self.starts)
        if groups is None:
            return offsets, names
        sizes = read_group_sizes(groups)
        where = f"letor: {name_in_messages(groups)}"
        if sum(sizes) != len(self.labels):
            raise DataError(
                f"{where}: groups add up to {sum(sizes)} rows, but {self.name} has {len(self.labels)}"
            )
        if not names:
            # The whole name with `.train` or `.test`: else the parts would have the same ids.
            name = self.path.name.removesuffix(".gz")
            offsets = np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))])
            return offsets, tuple(f"{name}:{group}" for group in range(len(sizes)))
        for name, rows, size in zip(names, np.diff(offsets), sizes, strict=False):
            if rows != size:
                raise DataError(
                    f"{where}: a group of {size} rows, but query {shown(name.encode())} of {self.name} has "
                    f"{rows}; expected the same, or no group file"
                )
        return offsets, names

    def features(self, width: int) -> Features:
        """One matrix of all blocks; each is dropped once it is copied, so that memory holds it once."""
        row, given = len(self.labels), sum(block.values.size for block in self.blocks)
        features = zero_features(self.where, row, width, given, self.dtype)
        while self.blocks:
            block = self.blocks.pop()
            row -= block.counts.size
            block.fill(features[row : row + block.counts.size])
        return features


def _first_repeated(ids: NDArray[np.int32], counts: Ints) -> int | None:
    """The place of the first of some feature ids that its row, of so many entries, has given already."""
    rising = ids[1:] > ids[:-1]
    ends = np.cumsum(counts)
    rising[ends[(ends > 0) & (ends < ids.size)] - 1] = True
    # Ids that rise within every row are distinct: only other files pay for a sort.
    if np.all(rising):
        return None
    keys = np.repeat(np.arange(counts.size), counts)[: ids.size] * (MAX_FEATURES + 1) + ids
    new = np.unique(keys, return_index=True)[1]
    return None if new.size == ids.size else int(np.setdiff1d(np.arange(ids.size), new)[0])


def _parse_label(text: bytes) -> int:
    value = float(text) if _LABEL.fullmatch(text) else math.nan
    if (problem := label_problem(value)) is not None:
        raise ValueError(f"label {shown(text)} {problem}")
    return int(value)
