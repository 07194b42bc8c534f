"""Reader for LETOR and SVM-rank text: `LABEL qid:QUERY 1:VALUE 2:VALUE ... #docid = DOCUMENT`.

Format as published with LETOR 4.0 (Qin & Liu 2013, "Introducing LETOR 4.0 datasets") and
SVM-rank (Joachims 2006); libsvm rows with a `.query` file of group sizes as LightGBM reads them.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Dataset
from foltr_audit.data.letor.features import MAX_FEATURES, FeatureBlock, parse_features
from foltr_audit.data.letor.lines import line_batches, name_in_messages, read_group_sizes, shown
from foltr_audit.data.letor.writer import MAX_LABEL, write_letor
from foltr_audit.errors import DataError
from foltr_audit.utils.arrays import Features, Ints

__all__ = ["MAX_FEATURES", "MAX_LABEL", "LetorFile", "read_letor", "write_letor"]

_MOST_PLACES, _PLACES_PER_VALUE = 1 << 25, 100
"""Features of all rows, which are stored whether given or not: this many, or this many times the given."""

_DOCUMENT = re.compile(rb"\bdoc[_-]?id\s*[=:]\s*(\S+)|\A\s*([^\s#=:]+)\s*\Z", re.IGNORECASE)
"""A comment with `docid = NAME`, and more or less around it, or of nothing but a NAME."""
_LABEL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class LetorFile:
    """One file: its queries, whether every row gives exactly the features 1..d, and queries passed over."""

    dataset: Dataset
    dense: bool
    left_out: int = 0


def read_letor(
    path: Path, *, groups: Path | None = None, dtype: str = "float32", only: Container[str] | None = None
) -> LetorFile:
    """Read a LETOR or SVM-rank text file, plain or gzip, with features in float32 or float64.

    With `groups` (one number of rows a line) query ids are `FILE:0`, `FILE:1`, ...; a `qid:` is ignored.
    With `only` the rows of other queries are passed over: their features are not read.

    Raises:
        DataError: a file that cannot be read, or the first malformed line with its number.
    """
    rows = _LetorRows(name_in_messages(path), grouped=groups is not None, dtype=dtype, only=only)
    blocks: list[FeatureBlock] = []
    for first, lines in line_batches(path):
        blocks += rows.read(first, lines)
    if not blocks:
        rest = f"; {rows.left_out} queries are others" if rows.left_out else ""
        raise DataError(f"letor: {rows.name}: no rows{rest}; expected lines 'LABEL qid:QUERY 1:VALUE ...'")
    offsets, query_ids = rows.queries() if groups is None else _grouped(path, groups, len(rows.labels))
    width = max(block.width for block in blocks)
    if not width:
        raise DataError(
            f"letor: {rows.name}: no row has a feature; expected FEATURE:VALUE after the query id"
        )
    dense = all(bool(np.all(block.counts == width)) for block in blocks)
    dataset = Dataset(
        features=_assemble(blocks, width, rows.name, dtype),
        labels=np.array(rows.labels, dtype=np.int64),
        offsets=offsets,
        query_ids=query_ids,
        document_ids=tuple(rows.document_ids),
    )
    return LetorFile(dataset, dense, rows.left_out)


@dataclass
class _LetorRows:
    """What was read from the lines of a file so far, apart from the features."""

    name: str
    grouped: bool
    dtype: str
    only: Container[str] | None = None
    left_out: int = 0
    labels: list[int] = field(default_factory=list)
    document_ids: list[str] = field(default_factory=list)
    starts: dict[bytes, int] = field(default_factory=dict)  # first row of each query, in file order
    query: bytes | None = None
    passing: bool = False
    label_of: dict[bytes, int] = field(default_factory=dict)

    def read(self, first: int, lines: list[bytes]) -> list[FeatureBlock]:
        """Read a batch of lines whose first one has this number; no block if none holds a row."""
        rows: list[bytes] = []
        numbers: list[int] = []
        fault: DataError | None = None
        for number, line in enumerate(lines, first):
            try:
                row = self._take(line, number)
            except DataError as error:
                fault = error  # an earlier row may have a bad feature: that one is reported
                break
            if row is not None:
                rows.append(row)
                numbers.append(number)
        blocks = [parse_features(rows, numbers, self.name, self.dtype)] if rows else []
        if fault is not None:
            raise fault
        return blocks

    def _take(self, line: bytes, number: int) -> bytes | None:
        """Note label, query and document of a line; its features, or None if it is blank."""
        body, _, comment = line.partition(b"#")
        fields = body.split(None, 2)
        if not fields:
            return None
        label = self.label_of.get(fields[0])
        if label is None:
            label = self.label_of[fields[0]] = _parse_label(fields[0], f"letor: {self.name}:{number}")
        query = fields[1] if len(fields) > 1 else b""
        if not self.grouped:
            self._enter(query, number)
            if self.passing:
                return None
        self.labels.append(label)
        found = _DOCUMENT.search(comment) if comment else None
        self.document_ids.append((found[1] or found[2]).decode() if found else "")
        has_query = not self.grouped or query.startswith(b"qid:")
        return b" ".join(fields[2 if has_query else 1 :]).strip()

    def _enter(self, query: bytes, number: int) -> None:
        if query == self.query:
            return
        where = f"letor: {self.name}:{number}"
        if not query.startswith(b"qid:") or query == b"qid:":
            found = f"{shown(query)} after the label" if query else "nothing after the label"
            expected = "'qid:NAME', or a group file; qrels of intents are given by --intents"
            raise DataError(f"{where}: query id missing: {found}; expected {expected}")
        if query in self.starts:
            raise DataError(f"{where}: rows of query {shown(query[4:])} are split apart; expected one block")
        self.query = query
        self.passing = self.only is not None and query[4:].decode() not in self.only
        if self.passing:
            self.left_out += 1
        else:
            self.starts[query] = len(self.labels)

    def queries(self) -> tuple[Ints, tuple[str, ...]]:
        """Offsets, shape (queries + 1,), and ids of the queries."""
        offsets = np.array([*self.starts.values(), len(self.labels)], dtype=np.int64)
        return offsets, tuple(query[4:].decode() for query in self.starts)


def _parse_label(text: bytes, where: str) -> int:
    if not _LABEL.fullmatch(text):
        raise DataError(f"{where}: label {shown(text)} is not a number; expected 0 to {MAX_LABEL}")
    value = float(text)
    if value < 0:
        raise DataError(f"{where}: label {shown(text)} is negative; expected 0 to {MAX_LABEL}")
    if value > MAX_LABEL:
        raise DataError(f"{where}: label {shown(text)} is above {MAX_LABEL}; expected 0 to {MAX_LABEL}")
    if not value.is_integer():
        raise DataError(f"{where}: label {shown(text)} is fractional; expected a whole number")
    return int(value)


def _grouped(path: Path, groups: Path, rows: int) -> tuple[Ints, tuple[str, ...]]:
    sizes = read_group_sizes(groups)
    if sum(sizes) != rows:
        raise DataError(
            f"letor: {name_in_messages(groups)}: groups add up to {sum(sizes)} rows, "
            f"but {name_in_messages(path)} has {rows}"
        )
    # The whole name with `.train` or `.test`: else the parts would have the same ids.
    name = path.name.removesuffix(".gz")
    offsets = np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))])
    return offsets, tuple(f"{name}:{query}" for query in range(len(sizes)))


def _assemble(blocks: list[FeatureBlock], width: int, name: str, dtype: str) -> Features:
    """One matrix of all blocks; each is dropped once it is copied, so that memory holds the features once."""
    rows = sum(block.counts.size for block in blocks)
    given = sum(int(block.counts.sum()) for block in blocks)
    if rows * width > max(_MOST_PLACES, _PLACES_PER_VALUE * given):
        raise DataError(
            f"letor: {name}: {rows} rows of {width} features, of which {given} are given; "
            f"expected at least one in {_PLACES_PER_VALUE}"
        )
    try:
        features: Features = np.zeros((rows, width), dtype=dtype)
    except MemoryError as error:
        raise DataError(f"letor: {name}: {rows} rows of {width} features do not fit into memory") from error
    row = rows
    while blocks:
        block = blocks.pop()
        row -= block.counts.size
        block.fill(features[row : row + block.counts.size])
    return features
