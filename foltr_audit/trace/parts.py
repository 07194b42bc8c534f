"""A part of a trace: its commit marker, `part-00000.json`, without which it does not exist.

A marker is written last. It names the trace, the rounds and the SHA-256 of every file of its part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from foltr_audit.errors import TraceError
from foltr_audit.recorder.trace_files import PART_SCHEMA, PartRange, file_name, marker_indices, marker_name
from foltr_audit.recorder.trace_format import OBSERVED, OBSERVED_TOO, TRUTH
from foltr_audit.trace.header import TraceHeader
from foltr_audit.utils.reading import file_bytes, is_whole, json_table

MOST_MARKER_BYTES = 1 << 20
"""A longer marker is not read."""


@dataclass(frozen=True, kw_only=True)
class PartFile:
    """One file of a part: its number of rows, SHA-256 (hex) and size in bytes."""

    rows: int
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class TracePart(PartRange):
    """A committed part: whole rounds first_round .. last_round, and its files by table name.

    Tables are named as their files without number and suffix, e.g. `observed/messages`.
    """

    files: dict[str, PartFile]

    @property
    def n_rounds(self) -> int:
        return self.last_round - self.first_round + 1

    @property
    def observed(self) -> tuple[str, ...]:
        return tuple(table for table in OBSERVED + OBSERVED_TOO if table in self.files)

    @property
    def truth(self) -> tuple[str, ...]:
        return tuple(table for table in TRUTH if table in self.files)

    def file_name(self, table: str) -> str:
        return file_name(table, self.index)


def read_markers(folder: Path, header: TraceHeader, trace_id: str) -> tuple[list[TracePart], list[str]]:
    """The parts of a trace that are sound by their markers, and the problems of the others."""
    parts: list[TracePart] = []
    problems: list[str] = []
    expected_index, expected_round = 0, 0
    for index in marker_indices(folder):
        where = folder / marker_name(index)
        if index != expected_index:
            missing = folder / marker_name(expected_index)
            problems.append(f"trace: {missing}: missing, though {where.name} exists")
            expected_round = -1
        expected_index = index + 1
        try:
            part = _read(where, index, header, trace_id)
        except TraceError as error:
            problems.append(str(error))
            expected_round = -1
            continue
        if expected_round not in (-1, part.first_round):
            begins = f"begins with round {part.first_round}, expected round {expected_round}"
            problems.append(f"trace: {where}: {begins}")
        expected_round = part.last_round + 1
        parts.append(part)
    return parts, problems


def _read(path: Path, index: int, header: TraceHeader, trace_id: str) -> TracePart:
    if not path.is_file():  # a pipe would be waited for
        raise TraceError(f"trace: {path}: no regular file; expected one")
    content = file_bytes(path, TraceError, MOST_MARKER_BYTES, "trace: ")
    table = json_table(content, f"trace: {path}", TraceError)
    if table.get("schema") != PART_SCHEMA:
        raise TraceError(f"trace: {path}: expected a JSON object with schema {PART_SCHEMA}")
    if table.get("trace") != trace_id:
        raise TraceError(
            f"trace: {path}: belongs to trace {str(table.get('trace'))[:12]}, expected {trace_id[:12]}: "
            "the part is of another trace, or trace.toml was changed"
        )
    if table.get("index") != index:
        found = f"is the marker of part {table.get('index')!r}"
        raise TraceError(f"trace: {path}: {found}, expected part {index}")
    first = _whole(path, table, "first_round", 0)
    last = _whole(path, table, "last_round", first)
    required = OBSERVED + (TRUTH if header.has_truth else ())
    names = {file_name(name, index): name for name in required + OBSERVED_TOO}
    files = _files(path, table.get("files"), names, required)
    part = TracePart(trace=trace_id, index=index, first_round=first, last_round=last, files=files)
    _check_rows(path, part)
    return part


def _whole(path: Path, table: Mapping[str, object], name: str, least: int) -> int:
    value = table.get(name)
    if not is_whole(value, least):
        raise TraceError(f"trace: {path}: {name} is {value!r}, expected a whole number of {least} or more")
    return value


def _files(
    path: Path, files: object, names: Mapping[str, str], required: tuple[str, ...]
) -> dict[str, PartFile]:
    """The entries of a marker: `names` are the tables by their files, those of `required` must be there."""
    there = {names.get(name) for name in files} if isinstance(files, dict) else set()
    if not isinstance(files, dict) or None in there or not there.issuperset(required):
        found = ", ".join(sorted(map(str, files))) if isinstance(files, dict) else repr(files)
        expected = ", ".join(sorted(name for name, table in names.items() if table in required))
        raise TraceError(f"trace: {path}: names the files {found}; expected {expected}")
    found_files = {}
    for name, entry in files.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str):
            raise TraceError(f"trace: {path}: {name} has no sha256")
        rows, size = (_whole(path, entry, fact, 0) for fact in ("rows", "size"))
        found_files[names[name]] = PartFile(rows=rows, sha256=entry["sha256"], size=size)
    return found_files


def _check_rows(path: Path, part: TracePart) -> None:
    rows = {table: file.rows for table, file in part.files.items()}
    expected = {"observed/rounds": part.n_rounds}
    for truth, observed in zip(TRUTH, OBSERVED, strict=True):
        if truth in rows and truth != "truth/rounds":
            expected[truth] = rows[observed]
    for table, number in expected.items():
        if rows[table] != number:
            raise TraceError(f"trace: {path}: {table} has {rows[table]} rows, expected {number}")
