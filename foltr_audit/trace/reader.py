"""Reading a trace, part by part: each file checked against its marker, and its tables made rounds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import Cohort, GlobalModel, RoundRecord, RoundTruth
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.recorder.array_layout import FLOATING
from foltr_audit.recorder.part_files import marker_name
from foltr_audit.recorder.table_files import Columns, sources_of, unpack_columns, with_implied
from foltr_audit.trace.differences import from_differences, sources_of_differences
from foltr_audit.trace.header import MOST_WHOLE, TraceHeader, joined, read_header
from foltr_audit.trace.parts import PartTable, TracePart, read_markers
from foltr_audit.trace.schema import columns, misfit
from foltr_audit.utils.arrays import Features, Floats, Ints
from foltr_audit.utils.reading import file_bytes, json_table
from foltr_audit.utils.reading.arrays import read_archive

Tables = Mapping[str, Columns]
"""Columns of the tables of a part by the name of the table."""


class _RoundDecoder:
    """The observed tables of a part, from which records are made."""

    def __init__(self, header: TraceHeader, part: TracePart, tables: Tables, folder: Path) -> None:
        self._header, self._part = header, part
        made = {name: PartTable(tables[name], part, name, folder) for name in part.observed}
        self._rounds, self._messages = made["observed/rounds"], made["observed/messages"]
        self._lists = made["observed/interactions"]
        self._candidates, self._cohort = made.get("observed/candidates"), made.get("observed/cohort")
        self._metrics = made.get("observed/metrics")
        self._messages.expect_slots()
        self._whole = {name: self._lists.whole(name) for name in ("slot", "step", "part", "query")}
        self._whole["shown"] = self._lists.places("shown")

    def record(self, i: int) -> RoundRecord:
        """The i-th round of the part."""
        header, table, messages = self._header, self._rounds, self._messages
        m, r, number = messages.span(i), self._lists.span(i), self._part.first_round + i
        arrays = [messages.columns[f"array-{n}"][m] for n in range(len(header.arrays))]
        buffers = [
            values
            for array, values in zip(header.arrays, arrays, strict=True)
            if array.dtype not in FLOATING and header.kind != "masked"
        ]
        features = self._lists.columns.get("features")
        has_total = header.kind == "masked" and bool(table.columns["has_total"][i])
        candidates, n_candidates = self._own_candidates(i)
        return RoundRecord(
            round=number,
            parameters=_row(table, "parameters", i),
            aggregate=_row(table, "aggregate", i),
            shares=int(table.whole("shares", slice(i, i + 1))[0]),
            survivors=messages.columns["survived"][m].astype(np.bool_, copy=False),
            counts=messages.weights("count", m),
            messages=joined(header.arrays, arrays, header.message_format),
            **{name: values[r] for name, values in self._whole.items()},
            features=None if features is None else _as_features(features[r]),
            total=table.columns["total"][i].astype(np.uint64, copy=False) if has_total else None,
            aborted="".join(table.texts("aborted", slice(i, i + 1))),
            seeds=messages.words("seed", m),
            state=None if header.holds_models else _row(table, "state", i),
            buffers=tuple(buffers),
            senders=messages.words("sender", m),
            sizes=messages.whole("bytes", m) if "bytes" in messages.columns else None,
            sent_at=messages.floats("sent_at", m),
            started=_moment(table, "started", i),
            ended=_moment(table, "ended", i),
            clear=self._clear(i, m.stop - m.start),
            cohort=self._asked(i),
            facts=self._facts(i, number),
            candidates=candidates,
            n_candidates=n_candidates,
        )

    def _facts(self, i: int, number: int) -> Mapping[str, object]:
        [text] = self._rounds.texts("facts", slice(i, i + 1))
        if not text:
            return {}
        facts = json_table(text, f"trace: {self._rounds.path}: facts of round {number}", TraceError)
        try:
            self._header.in_round(facts)
        except TraceError as error:
            raise self._rounds.error(
                f"round {number}: {str(error).removeprefix('trace: header: ')}"
            ) from None
        return facts

    def _asked(self, i: int) -> Cohort | None:
        table = self._cohort
        span = slice(0) if table is None else table.span(i)
        nodes = None if table is None else table.words("node", span)
        if table is None or nodes is None or not nodes.size:
            return None
        outcome, reason, stage = (table.texts(name, span) for name in ("outcome", "reason", "stage"))
        return Cohort(node=nodes, outcome=outcome, reason=reason, stage=stage)

    def _clear(self, i: int, messages: int) -> dict[str, Floats]:
        table = self._metrics
        if table is None:
            return {}
        span = table.span(i)
        slots, found = table.whole("slot", span), dict[str, Floats]()
        if slots.size and not 0 <= slots.min() <= slots.max() < messages:
            raise table.error(f"slot holds {slots.max()}, expected less than the {messages} messages")
        for slot, (name, value) in zip(slots.tolist(), table.named_values(span), strict=True):
            column = found.setdefault(name, np.full(messages, np.nan))
            if not np.isnan(column[slot]):
                raise table.error(f"message {slot} has two values of {name[:60]!r}")
            column[slot] = value
        return found

    def _own_candidates(self, i: int) -> tuple[Features | None, Ints | None]:
        """The candidates of the lists of a round, and how many each has."""
        table = self._candidates
        if table is None or table.span(i).start == table.span(i).stop:
            return None, None
        c, r = table.span(i), self._lists.span(i)
        # Lists and candidates are sorted by slot and step, which one number orders in the same way.
        steps, rank = np.unique(
            np.concatenate([self._whole["step"][r], table.whole("step", c)]), return_inverse=True
        )
        _, place = np.unique(
            np.concatenate([self._whole["slot"][r], table.whole("slot", c)]), return_inverse=True
        )
        key = place * steps.size + rank
        lists, own = np.split(key, [r.stop - r.start])
        at = np.searchsorted(lists, own)
        if not lists.size or np.any(at >= lists.size) or np.any(lists[at] != own) or np.any(np.diff(own) < 0):
            raise table.error("rows that are no candidates of a recorded list, or in another order")
        return _as_features(table.columns["features"][c]), np.bincount(at, minlength=lists.size)


def _as_features(values: NDArray[np.generic]) -> Features:
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _row(table: PartTable, name: str, i: int) -> Floats:
    return np.asarray(table.columns[name][i], dtype=np.float64)


def _moment(table: PartTable, name: str, i: int) -> float | None:
    values = table.floats(name, slice(i, i + 1))
    return None if values is None or np.isnan(values[0]) else float(values[0])


def _clients(messages: PartTable, rows: slice) -> Ints:
    clients: NDArray[np.generic] = messages.columns["client"][rows]
    return clients if clients.dtype == np.uint64 else clients.astype(np.int64)  # type: ignore[return-value]


def _updates(messages: PartTable, header: TraceHeader, rows: slice) -> Floats:
    found = messages.floats("update", rows)
    return np.full((rows.stop - rows.start, header.update_width), np.nan) if found is None else found


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
        folder = Path(folder)
        if not folder.is_dir():
            raise UsageError(f"trace: {folder}: no such folder")
        header, trace_id = read_header(folder)
        parts, problems = read_markers(folder, header, trace_id)
        if problems:
            raise TraceError(problems[0])
        has_truth = header.has_truth and (folder / "truth").is_dir()
        trace = cls(folder=folder, header=header, trace_id=trace_id, parts=tuple(parts), has_truth=has_truth)
        # A look at sizes is cheap and finds a part that was cut. Hashes need all bytes, and wait until a part
        # is read.
        for part in parts:
            for table in part.observed:
                trace.check_size(part, table)
        return trace

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

    def rounds(self) -> Iterator[RoundRecord]:
        """The rounds in order; memory holds one part at a time. Needs no truth.

        Raises:
            TraceError: a part that is damaged.
        """
        for part in self.parts:
            tables = self.whole_columns(part, part.observed)
            for record in self.rounds_in(part, tables):
                yield self._renumbered(self._without_given(record))

    def on(self, collection: Collection | None) -> Trace:
        """The same trace with a data set."""
        return replace(self, collection=collection)

    def _renumbered(self, record: RoundRecord) -> RoundRecord:
        if self.collection is None:
            return record
        places = record.part, record.query, record.shown
        query, shown = self.collection.of_file(self.header.dataset.parts, *places)
        return replace(record, query=query, shown=shown)

    def _without_given(self, record: RoundRecord) -> RoundRecord:
        """A round without its own values of the facts that were given by hand."""
        if self.given.isdisjoint(record.facts):
            return record
        return replace(record, facts={name: record.facts[name] for name in record.facts.keys() - self.given})

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
            tables = self.whole_columns(part, (*part.truth, "observed/interactions"))
            # Clicks of another list would be scored as an attack that failed.
            for problem in self.row_problems(part, tables):
                raise TraceError(problem)
            yield from self.truths_in(part, tables)

    def rounds_in(self, part: TracePart, tables: Tables) -> Iterator[RoundRecord]:
        """The records of a part from its observed tables."""
        decoder = _RoundDecoder(self.header, part, tables, self.folder)
        for i in range(part.n_rounds):
            try:
                record = decoder.record(i)
                problem = misfit(self.header, record)
            except UsageError as error:
                problem = str(error)
            if problem is not None:
                raise TraceError(f"trace: {self.folder}: part {part.index}: {problem}")
            yield record

    def truths_in(self, part: TracePart, tables: Tables) -> Iterator[RoundTruth]:
        """The truths of a part's rounds from its truth tables."""
        messages, clicks = (
            PartTable(tables[name], part, name, self.folder) for name in ("truth/messages", "truth/clicks")
        )
        messages.expect_slots()
        header, optional = self.header, clicks.columns
        for i, values in enumerate(self._metrics_in(part, tables)):
            m, r = messages.span(i), clicks.span(i)
            try:
                yield RoundTruth(
                    clients=_clients(messages, m),
                    updates=_updates(messages, header, m),
                    clicks=clicks.bits("clicks", r, header.k),
                    **({"clipped": optional["clipped"][r].astype(np.bool_)} if "clipped" in optional else {}),
                    metrics=values,
                    intents=clicks.whole("intent", r) if header.intents > 1 else None,
                    known=optional["known"][r].astype(np.bool_) if "known" in optional else None,
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
        table = PartTable(tables["truth/rounds"], part, "truth/rounds", self.folder)
        found = []
        for i in range(part.n_rounds):
            pairs = table.named_values(table.span(i))
            names = dict(pairs)
            if len(names) != len(pairs) or "round" in names:
                raise table.error(f"round {part.first_round + i} has a metric twice, or one named round")
            found.append(names)
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
            found = self._metrics_in(part, {"truth/rounds": self.columns(part, "truth/rounds")})
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
        part = self.parts[-1]
        table = PartTable(self.columns(part, "observed/rounds"), part, "observed/rounds", self.folder)
        state = None if self.header.holds_models else _row(table, "state", -1).copy()
        return GlobalModel(_row(table, "aggregate", -1).copy(), state)

    def check_size(self, part: TracePart, table: str) -> None:
        """Refuse a file that is missing or of another size than its marker says."""
        path, expected = self.folder / part.file_name(table), part.files[table]
        try:
            found = path.stat()
        except OSError:
            raise TraceError(f"trace: {path}: missing, though {marker_name(part.index)} exists") from None
        if not S_ISREG(found.st_mode):  # a pipe would be waited for
            raise TraceError(f"trace: {path}: no regular file; expected one")
        size = found.st_size
        if size != expected.size:
            content = file_bytes(path, TraceError, size, "trace: ")
            origin = self._origin_of(part, table, hashlib.sha256(content).hexdigest())
            raise TraceError(f"trace: {path}: has {size} bytes, expected {expected.size}; {origin}")

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

    def whole_columns(self, part: TracePart, tables: Sequence[str]) -> Tables:
        """Tables of a part with the columns that their files leave out, and those from which these follow."""
        found = {table: self.columns(part, table) for table in tables}
        while more := self._sources(part, found) - found.keys():
            found |= {table: self.columns(part, table) for table in sorted(more)}
        return self.completed(part, found)

    def completed(self, part: TracePart, tables: Tables) -> Tables:
        """The tables of a part with the columns that its files leave out; without those that lack some.

        Messages and true updates are there as such, where they were written as differences.
        """
        try:
            return from_differences(self.header, with_implied(tables))
        except ValueError as error:
            raise self._in_file(error, part) from None

    def _sources(self, part: TracePart, tables: Tables) -> set[str]:
        """The tables from which `completed` takes the columns that these lack."""
        try:
            return sources_of(tables) | sources_of_differences(tables)
        except ValueError as error:
            raise self._in_file(error, part) from None

    def _in_file(self, error: ValueError, part: TracePart) -> TraceError:
        table, _, problem = str(error).partition(": ")
        return TraceError(f"trace: {self.folder / part.file_name(table)}: {problem}")

    def columns(self, part: TracePart, table: str) -> Columns:
        """The columns of the file of a table, read-only; some that follow from others are left out."""
        where, rows = f"trace: {self.folder / part.file_name(table)}", part.files[table].rows
        # A round without messages of a large model: its axes are compared with those of the header.
        stored = read_archive(self.content(part, table), where, TraceError, stored=True, longest=MOST_WHOLE)
        try:
            found = unpack_columns(stored, rows)
        except ValueError as error:
            raise TraceError(f"{where}: {error}") from None
        expected = columns(self.header, table)
        for name in found:
            if name not in expected:
                raise TraceError(f"{where}: unknown column {name[:60]}; expected {', '.join(expected)}")
        for name, form in expected.items():
            values = found.get(name)
            if values is None:
                if form.required:
                    raise TraceError(f"{where}: column {name} is missing, expected {form.text}")
            elif values.ndim < 1 or not form.fits(values):
                raise TraceError(
                    f"{where}: column {name} is {values.dtype} of shape {values.shape}, expected {form.text}"
                )
            elif len(values) != rows:
                raise TraceError(f"{where}: column {name} has {len(values)} rows, expected {rows}")
        return found

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
