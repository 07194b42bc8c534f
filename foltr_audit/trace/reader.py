"""Reading a trace, part by part: each file checked against its marker, and its tables made rounds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import GlobalModel, Payload, RoundRecord, RoundTruth
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.recorder.array_layout import FLOATING, LayoutArray, widened
from foltr_audit.recorder.messages import NodeOutcome
from foltr_audit.recorder.trace_files import marker_name
from foltr_audit.recorder.trace_format import WORDS, Column, table_columns
from foltr_audit.trace.facts import Fact
from foltr_audit.trace.header import MOST_WHOLE, TraceHeader, read_header
from foltr_audit.trace.parts import TracePart, read_markers
from foltr_audit.trace.schema import misfits
from foltr_audit.utils.arrays import Features, Floats, Ints
from foltr_audit.utils.reading import file_bytes, json_table
from foltr_audit.utils.reading.arrays import LONGEST, read_archive

Columns = Mapping[str, NDArray[Any]]
"""A table: arrays of one length by name; a row is one index of the first axis."""

Tables = Mapping[str, Columns]
"""Columns of the tables of a part by the name of the table."""


class PartTable:
    """A table of a part, with the rows of each of its rounds."""

    def __init__(self, trace: Trace, part: TracePart, tables: Tables, table: str) -> None:
        self.columns, self.path = tables[table], trace.folder / part.file_name(table)
        number = self.columns["round"]
        every = np.arange(part.first_round, part.last_round + 1)
        if table == "observed/rounds" and not np.array_equal(number, every):
            raise self.error(f"expected the rounds {part.first_round} to {part.last_round}, one row each")
        if np.any(np.diff(number) < 0) or (
            number.size and not every[0] <= number[0] <= number[-1] <= every[-1]
        ):
            raise self.error(f"rows must rise from round {part.first_round} to {part.last_round}")
        self._edges = np.searchsorted(number, np.append(every, part.last_round + 1)).tolist()
        if table in ("observed/messages", "truth/messages"):
            first = np.repeat(self._edges[:-1], np.diff(self._edges))
            if not np.array_equal(self.columns["slot"], np.arange(number.size) - first):
                raise self.error("the slots of a round must be 0, 1, 2 and so on")

    def error(self, problem: str) -> TraceError:
        return TraceError(f"trace: {self.path}: {problem}")

    def size(self, i: int) -> int:
        """Number of rows of the i-th round of the part."""
        return int(self._edges[i + 1] - self._edges[i])

    def rows(self, name: str, i: int) -> NDArray[Any]:
        """The rows of the i-th round of a column."""
        return self.columns[name][self._edges[i] : self._edges[i + 1]]

    def of(self, name: str, i: int) -> Any:
        """The same; None where the table lacks the column."""
        return self.rows(name, i) if name in self.columns else None

    def texts(self, name: str, i: int) -> tuple[str, ...]:
        """The same of a column of text; "" where the table lacks it."""
        values = self.of(name, i)
        return ("",) * self.size(i) if values is None else tuple(values.tolist())


_OF_NODES = ("outcome", "reason", "stage")


class _RoundDecoder:
    """The observed tables of a part, from which records are made."""

    def __init__(self, trace: Trace, part: TracePart, tables: Tables) -> None:
        self._header, self._part = trace.header, part
        self._tables = {name: PartTable(trace, part, tables, name) for name in part.observed}

    def record(self, i: int) -> RoundRecord:
        """The i-th round of the part."""
        header, rounds = self._header, self._tables["observed/rounds"]
        messages, lists = self._tables["observed/messages"], self._tables["observed/interactions"]
        row: dict[str, Any] = {name: values[i] for name, values in rounds.columns.items()}
        arrays: list[Any] = [messages.of(f"array-{n}", i) for n in range(len(header.arrays))]
        started, ended = (float(row.get(name, np.nan)) for name in ("started", "ended"))
        candidates, n_candidates = self._own_candidates(i)
        return RoundRecord(
            round=self._part.first_round + i,
            parameters=row["parameters"],
            aggregate=row["aggregate"],
            shares=int(row["shares"]),
            survivors=messages.of("survived", i),
            counts=messages.of("count", i),
            messages=_joined(header.arrays, arrays, header.message_format),
            **{name: lists.of(name, i) for name in ("slot", "step", "part", "query", "features")},
            shown=lists.rows("shown", i) - 1,
            total=row["total"] if row.get("has_total") else None,
            aborted=str(row.get("aborted", "")),
            seeds=messages.of("seed", i),
            state=row.get("state"),
            buffers=tuple(
                values
                for array, values in zip(header.arrays, arrays, strict=True)
                if array.dtype not in FLOATING and header.kind != "masked"
            ),
            senders=messages.of("sender", i),
            sizes=messages.of("bytes", i),
            sent_at=messages.of("sent_at", i),
            started=None if np.isnan(started) else started,
            ended=None if np.isnan(ended) else ended,
            clear=self._clear(i, messages.size(i)),
            cohort=self._asked(i),
            facts=self._facts(str(row.get("facts", "")), self._part.first_round + i),
            candidates=candidates,
            n_candidates=n_candidates,
        )

    def _facts(self, text: str, number: int) -> Mapping[str, object]:
        if not text:
            return {}
        table = self._tables["observed/rounds"]
        facts = json_table(text, f"trace: {table.path}: facts of round {number}", TraceError)
        try:
            self._header.in_round(facts)
        except TraceError as error:
            raise table.error(f"round {number}: {str(error).removeprefix('trace: header: ')}") from None
        return facts

    def _asked(self, i: int) -> tuple[NodeOutcome, ...]:
        table = self._tables.get("observed/cohort")
        if table is None:
            return ()
        columns = (table.rows("node", i).tolist(), *(table.texts(each, i) for each in _OF_NODES))
        try:
            return tuple(
                NodeOutcome(node=node, outcome=outcome, reason=reason, stage=stage)
                for node, outcome, reason, stage in zip(*columns, strict=True)
            )
        except ValueError as error:
            raise UsageError(f"cohort: {error}") from None

    def _clear(self, i: int, messages: int) -> dict[str, Floats]:
        table, found = self._tables.get("observed/metrics"), dict[str, Floats]()
        if table is None:
            return {}
        slots, values = (table.rows(name, i) for name in ("slot", "value"))
        if slots.size and not 0 <= slots.min() <= slots.max() < messages:
            raise table.error(f"slot holds {slots.max()}, expected less than the {messages} messages")
        for slot, name, value in zip(slots.tolist(), table.texts("name", i), values.tolist(), strict=True):
            column = found.setdefault(name, np.full(messages, np.nan))
            if not np.isnan(column[slot]):
                raise table.error(f"message {slot} has two values of {name[:60]!r}")
            column[slot] = value
        return found

    def _own_candidates(self, i: int) -> tuple[Features | None, Ints | None]:
        """The candidates of the lists of a round, and how many each has; None where there are none."""
        table, counts = (
            self._tables.get("observed/candidates"),
            self._tables["observed/interactions"].of("candidates", i),
        )
        rows = None if table is None else table.rows("features", i)
        there = (rows is not None and rows.size) or (counts is not None and counts.any())
        return (rows, counts) if there else (None, None)


def _joined(layout: Sequence[LayoutArray], arrays: Sequence[NDArray[np.generic]], dtype: str) -> Payload:
    """The messages as records hold them, (M, P): the floating arrays (M, *shape), one after the other.

    The type of the result holds every value exactly.
    """
    pieces = [
        widened(values, array.dtype).reshape(len(values), array.size)
        for array, values in zip(layout, arrays, strict=True)
        if array.dtype in FLOATING or dtype == WORDS
    ]
    if len(pieces) == 1:
        return pieces[0].astype(dtype, copy=False)
    return np.concatenate(pieces, axis=1, dtype=dtype)


def _read(values: NDArray[Any], column: Column) -> NDArray[Any]:
    """A stored column in the type that records have.

    Raises:
        ValueError: a number that is out of range.
    """
    if column.kind in ("whole", "word") or (column.kind == "weight" and values.dtype.kind in "iu"):
        dtype = np.dtype(np.uint64 if column.kind == "word" else np.int64)
        if values.dtype.kind == "i" and values.size and int(values.min()) < 0:
            raise ValueError(f"holds {values.min()}, expected 0 or more")
        if values.dtype.kind == "u" and values.size and int(values.max()) > np.iinfo(dtype).max:
            raise ValueError(f"holds {values.max()}, expected less than 2^63")
        return values.astype(dtype, copy=False)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A recorded trace: its header at once, its rounds as a stream.

    Attributes:
        trace_id: SHA-256 (hex) of `trace.toml`.
        has_truth: whether the truth was recorded and its folder is still there.
        given: names of the header's facts that were given by hand, over those of rounds too.
        collection: the data set, by whose numbers rounds name queries and documents; None for their places in
            its files, by which a trace names them.
    """

    folder: Path
    header: TraceHeader
    trace_id: str
    parts: tuple[TracePart, ...]
    has_truth: bool
    given: frozenset[str] = frozenset()
    collection: Collection | None = None

    @classmethod
    def open(cls, folder: Path) -> Trace:
        """The trace in a folder; reads the header and the markers, and looks at file sizes.

        Raises:
            UsageError: no such folder.
            TraceError: no trace, a newer schema, a part that is missing, cut or of another trace.
        """
        trace, problems = cls.with_problems(folder)
        if problems:
            raise TraceError(problems[0])
        # A look at sizes is cheap and finds a part that was cut. Hashes need all bytes, and wait until a part
        # is read.
        for part in trace.parts:
            for table in part.observed:
                trace.check_size(part, table)
        return trace

    @classmethod
    def with_problems(cls, folder: Path) -> tuple[Trace, list[str]]:
        """The trace of the parts that are sound by their markers, and the problems of the others.

        Raises:
            UsageError: no such folder.
            TraceError: no trace, or a newer schema.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise UsageError(f"trace: {folder}: no such folder")
        header, trace_id = read_header(folder)
        parts, problems = read_markers(folder, header, trace_id)
        there = header.has_truth and (folder / "truth").is_dir()
        trace = cls(folder=folder, header=header, trace_id=trace_id, parts=tuple(parts), has_truth=there)
        return trace, problems

    @property
    def n_rounds(self) -> int:
        return sum(part.n_rounds for part in self.parts)

    @property
    def n_messages(self) -> int:
        return sum(part.files["observed/messages"].rows for part in self.parts)

    @property
    def n_interactions(self) -> int:
        return sum(part.files["observed/interactions"].rows for part in self.parts)

    def tables(self, part: TracePart) -> tuple[str, ...]:
        """Names of the tables of a part that can be read."""
        return part.observed + part.truth if self.has_truth else part.observed

    def on(self, collection: Collection | None) -> Trace:
        """The same trace with a data set."""
        return replace(self, collection=collection)

    def with_facts(self, facts: Mapping[str, Fact]) -> Trace:
        """The trace as if its header held these facts too, in the place of others, also of rounds.

        Raises:
            UsageError: facts that the rest of the header contradicts.
        """
        try:
            header = replace(self.header, knowledge={**self.header.knowledge, **facts})
        except TraceError as error:
            raise UsageError(f"--know: {error}") from error
        return replace(self, header=header, given=self.given | facts.keys())

    def rounds(self) -> Iterator[RoundRecord]:
        """The rounds in order; memory holds one part at a time. Needs no truth.

        Raises:
            TraceError: a part that is damaged.
        """
        for part in self.parts:
            for record in self.rounds_in(part, self._columns_of(part, part.observed)):
                changed: dict[str, Any] = {}
                if not self.given.isdisjoint(record.facts):  # those given by hand are those of rounds too
                    kept = record.facts.keys() - self.given
                    changed["facts"] = {name: record.facts[name] for name in kept}
                if self.collection is not None:
                    places = record.part, record.query, record.shown
                    found = self.collection.of_file(self.header.dataset.parts, *places)
                    changed["query"], changed["shown"] = found
                yield replace(record, **changed) if changed else record

    def truths(self) -> Iterator[RoundTruth]:
        """The truths of the rounds in order; `updates` are as exact as the payload's number format.

        Raises:
            UsageError: a trace without truth.
            TraceError: a part that is damaged, or clicks that are not those of its lists.
        """
        self._need_truth()
        return self._truths()

    def _truths(self) -> Iterator[RoundTruth]:
        for part in self.parts:
            tables = self._columns_of(part, (*part.truth, "observed/interactions"))
            # Clicks of another list would be scored as an attack that failed.
            for problem in self.row_problems(part, tables):
                raise TraceError(problem)
            yield from self.truths_in(part, tables)

    def rounds_in(self, part: TracePart, tables: Tables) -> Iterator[RoundRecord]:
        """The records of a part from its observed tables."""
        decoder = _RoundDecoder(self, part, tables)
        for i in range(part.n_rounds):
            try:
                record = decoder.record(i)
                problem = next((f"round {record.round}: {one}" for one in misfits(self.header, record)), "")
            except UsageError as error:
                problem = str(error)
            if problem:
                raise TraceError(f"trace: {self.folder}: part {part.index}: {problem}")
            yield record

    def truths_in(self, part: TracePart, tables: Tables) -> Iterator[RoundTruth]:
        """The truths of a part's rounds from its truth tables."""
        messages, clicks = (
            PartTable(self, part, tables, name) for name in ("truth/messages", "truth/clicks")
        )
        for i, metrics in enumerate(self._metrics_in(part, tables)):
            updates, clipped = messages.of("update", i), clicks.of("clipped", i)
            unknown = np.full((messages.size(i), self.header.update_width), np.nan)
            try:
                yield RoundTruth(
                    clients=messages.rows("client", i),
                    updates=unknown if updates is None else updates,
                    clicks=clicks.rows("clicks", i),
                    **({} if clipped is None else {"clipped": clipped}),
                    metrics=metrics,
                    intents=clicks.of("intent", i),
                    known=clicks.of("known", i),
                )
            except UsageError as error:
                raise TraceError(f"trace: {self.folder}: part {part.index}: {error}") from None

    def row_problems(self, part: TracePart, tables: Tables) -> list[str]:
        """Tables of truth whose rows are not about those of the observed ones, as far as both are there."""
        return [
            f"trace: {self.folder / part.file_name(truth)}: rows differ from those of {observed}"
            for truth, observed, keys in (
                ("truth/messages", "observed/messages", ("round", "slot")),
                ("truth/clicks", "observed/interactions", ("round", "slot", "step")),
            )
            if observed in tables
            and truth in tables
            and not all(np.array_equal(tables[truth][key], tables[observed][key]) for key in keys)
        ]

    def _metrics_in(self, part: TracePart, tables: Tables) -> list[dict[str, float]]:
        """Metrics of each round of a part, from the table `truth/rounds` alone."""
        table, found = PartTable(self, part, tables, "truth/rounds"), []
        for i in range(part.n_rounds):
            values = table.rows("value", i).tolist()
            metrics = dict(zip(table.texts("name", i), values, strict=True))
            if len(metrics) != len(values) or "round" in metrics:
                raise table.error(f"round {part.first_round + i} has a metric twice, or one named round")
            found.append(metrics)
        return found

    def metrics(self) -> list[dict[str, float]]:
        """The recorded metrics of each round, with its number under `round`.

        Raises:
            UsageError: a trace without truth.
            TraceError: a part that is damaged.
        """
        self._need_truth()
        rows: list[dict[str, float]] = []
        for part in self.parts:
            found = self._metrics_in(part, self._columns_of(part, ["truth/rounds"]))
            rows += [{"round": part.first_round + i, **values} for i, values in enumerate(found)]
        return rows

    def last_model(self) -> GlobalModel:
        """What the server had after the last round.

        Raises:
            UsageError: a trace without rounds.
            TraceError: a last part that is damaged.
        """
        if not self.parts:
            raise UsageError(f"trace: {self.folder} has no round yet")
        tables = self._columns_of(self.parts[-1], ["observed/rounds"])
        last = PartTable(self, self.parts[-1], tables, "observed/rounds").columns
        state = None if self.header.holds_models else last["state"][-1].copy()
        return GlobalModel(last["aggregate"][-1].copy(), state)

    def check_size(self, part: TracePart, table: str) -> None:
        """Refuse a file that is missing or of another size than its marker says."""
        path, expected = self.folder / part.file_name(table), part.files[table]
        try:
            found = path.stat()
        except OSError:
            raise TraceError(f"trace: {path}: missing, though {marker_name(part.index)} exists") from None
        if not S_ISREG(found.st_mode):  # a pipe would be waited for
            raise TraceError(f"trace: {path}: no regular file; expected one")
        if found.st_size != expected.size:
            content = file_bytes(path, TraceError, found.st_size, "trace: ")
            origin = self._origin_of(part, table, hashlib.sha256(content).hexdigest())
            raise TraceError(f"trace: {path}: has {found.st_size} bytes, expected {expected.size}; {origin}")

    def content(self, part: TracePart, table: str) -> bytes:
        """The bytes of a file, checked against its marker."""
        self.check_size(part, table)
        path = self.folder / part.file_name(table)
        # The caller parses these very bytes. A second read could find another file than the one that was
        # hashed.
        data = file_bytes(path, TraceError, part.files[table].size, "trace: ")
        digest = hashlib.sha256(data).hexdigest()
        if digest != part.files[table].sha256:
            origin = self._origin_of(part, table, digest)
            raise TraceError(f"trace: {path}: SHA-256 differs from {marker_name(part.index)}; {origin}")
        return data

    def _columns_of(self, part: TracePart, tables: Sequence[str]) -> Tables:
        return {table: self.columns(part, table) for table in tables}

    def columns(self, part: TracePart, table: str) -> Columns:
        """The columns of the file of a table, in the types that records have."""
        where, rows = f"trace: {self.folder / part.file_name(table)}", part.files[table].rows
        # A round without messages of a large model: its axes are compared with those of the header.
        found = read_archive(self.content(part, table), where, TraceError, longest=MOST_WHOLE)
        expected, columns = table_columns(self.header, table), {}
        for name in found:
            if name not in expected:
                raise TraceError(f"{where}: unknown column {name[:60]}; expected {', '.join(expected)}")
        for name, column in expected.items():
            values = found.get(name)
            if values is None:
                if column.required:
                    raise TraceError(f"{where}: column {name} is missing, expected {column.text}")
                continue
            if values.ndim < 1 or not column.fits(values, LONGEST):
                stored = f"{values.dtype} of shape {values.shape}"
                raise TraceError(f"{where}: column {name} is {stored}, expected {column.text}")
            if len(values) != rows:
                raise TraceError(f"{where}: column {name} has {len(values)} rows, expected {rows}")
            try:
                columns[name] = _read(values, column)
            except ValueError as error:
                raise TraceError(f"{where}: column {name} {error}") from None
        return columns

    def check_files(self) -> None:
        """Compare every file with its marker; a `TraceError` names the first that differs."""
        for part in self.parts:
            for table in self.tables(part):
                self.content(part, table)

    def _need_truth(self) -> None:
        if not self.has_truth:
            raise UsageError(
                f"trace: {self.folder} has no truth; scoring needs a trace that was recorded with it"
            )

    def _origin_of(self, part: TracePart, table: str, digest: str) -> str:
        for other in self.parts:
            for name, file in other.files.items():
                if file.sha256 == digest and (other.index, name) != (part.index, table):
                    return f"it is the file {other.file_name(name)}"
        return "it was cut, altered or taken from another trace"
