"""Tables to rounds, with every check that a later reader relies on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import Cohort, GlobalModel, RoundRecord, RoundTruth
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.recorder.array_layout import FLOATING
from foltr_audit.recorder.table_files import Columns, sources_of, unpack_columns, with_implied
from foltr_audit.trace.differences import from_differences, sources_of_differences
from foltr_audit.trace.header import MOST_WHOLE, TraceHeader
from foltr_audit.trace.layout import joined
from foltr_audit.trace.marker import TracePart
from foltr_audit.trace.part_table import PartTable
from foltr_audit.trace.schema import columns, misfit
from foltr_audit.utils.arrays import Features, Floats, Ints
from foltr_audit.utils.reading import json_table
from foltr_audit.utils.reading.arrays import read_archive

Tables = Mapping[str, Columns]
"""Columns of the tables of a part by the name of the table."""


def load(data: bytes, header: TraceHeader, table: str, path: Path, rows: int) -> Columns:
    """The columns of a table from the bytes of its file, which is to hold so many rows.

    Raises:
        TraceError: no archive of plain arrays, or other columns, types, shapes or rows than the schema has.
    """
    where = f"trace: {path}"
    # A round without messages of a large model: its axes are compared with those of the header.
    stored = read_archive(data, where, TraceError, stored=True, longest=MOST_WHOLE)
    try:
        found = unpack_columns(stored, rows)
    except ValueError as error:
        raise TraceError(f"{where}: {error}") from None
    expected = columns(header, table)
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


def completed(header: TraceHeader, part: TracePart, tables: Tables, folder: Path) -> Tables:
    """The tables of a part with the columns that its files leave out; without those that lack some.

    Messages and true updates are there as such, where they were written as differences.

    Raises:
        TraceError: rows that other tables do not have, or a part of the columns that go together.
    """
    try:
        return from_differences(header, with_implied(tables))
    except ValueError as error:
        raise _in_file(error, part, folder) from None


def sources(part: TracePart, tables: Tables, folder: Path) -> set[str]:
    """The tables from which `completed` takes the columns that these lack.

    Raises:
        TraceError: as `completed`.
    """
    try:
        return sources_of(tables) | sources_of_differences(tables)
    except ValueError as error:
        raise _in_file(error, part, folder) from None


def _in_file(error: ValueError, part: TracePart, folder: Path) -> TraceError:
    table, _, problem = str(error).partition(": ")
    return TraceError(f"trace: {folder / part.file_name(table)}: {problem}")


def rounds(header: TraceHeader, part: TracePart, tables: Tables, folder: Path) -> Iterator[RoundRecord]:
    """The records of a part from its observed tables.

    Raises:
        TraceError: rows of other rounds or out of order, or a round that does not fit the header.
    """
    decoder = _RoundDecoder(header, part, tables, folder)
    for i in range(part.n_rounds):
        try:
            record = decoder.record(i)
        except UsageError as error:
            raise TraceError(f"trace: {folder}: part {part.index}: {error}") from None
        problem = misfit(header, record)
        if problem is not None:
            raise TraceError(f"trace: {folder}: part {part.index}: {problem}")
        yield record


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
        arrays = [messages.array(f"array-{n}")[m] for n in range(len(header.arrays))]
        buffers = [
            values
            for array, values in zip(header.arrays, arrays, strict=True)
            if array.dtype not in FLOATING and header.kind != "masked"
        ]
        features = self._lists.columns.get("features")
        has_total = header.kind == "masked" and bool(table.array("has_total")[i])
        candidates, n_candidates = self._own_candidates(i)
        return RoundRecord(
            round=number,
            parameters=_row(table, "parameters", i),
            aggregate=_row(table, "aggregate", i),
            shares=int(table.whole("shares", slice(i, i + 1))[0]),
            survivors=messages.array("survived")[m].astype(np.bool_, copy=False),
            counts=messages.whole("count", m),
            messages=joined(header.arrays, arrays, header.message_format),
            **{name: values[r] for name, values in self._whole.items()},
            features=None if features is None else _as_features(features[r]),
            total=table.array("total")[i].astype(np.uint64, copy=False) if has_total else None,
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
        return _as_features(table.array("features")[c]), np.bincount(at, minlength=lists.size)


def _as_features(values: NDArray[np.generic]) -> Features:
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _row(table: PartTable, name: str, i: int) -> Floats:
    return np.asarray(table.array(name)[i], dtype=np.float64)


def _moment(table: PartTable, name: str, i: int) -> float | None:
    values = table.floats(name, slice(i, i + 1))
    return None if values is None or np.isnan(values[0]) else float(values[0])


def truths(header: TraceHeader, part: TracePart, tables: Tables, folder: Path) -> Iterator[RoundTruth]:
    """The truths of a part's rounds from its truth tables.

    Raises:
        TraceError: rows of other rounds or out of order, or values that do not fit the header.
    """
    messages, clicks = (
        PartTable(tables[f"truth/{n}"], part, f"truth/{n}", folder) for n in ("messages", "clicks")
    )
    messages.expect_slots()
    optional = clicks.columns
    for i, values in enumerate(metrics(part, tables, folder)):
        m, r = messages.span(i), clicks.span(i)
        try:
            yield RoundTruth(
                clients=_clients(messages, m),
                updates=_updates(messages, header, m),
                clicks=clicks.bits("clicks", r, header.k),
                **({"clipped": optional["clipped"][r].astype(np.bool_)} if "clipped" in optional else {}),
                metrics=values,
                intents=clicks.whole("intent", r) if header.intents > 1 else None,
                known=_flags(optional, "known", r),
            )
        except UsageError as error:
            raise TraceError(f"trace: {folder}: part {part.index}: {error}") from None


def row_problems(part: TracePart, tables: Tables, folder: Path) -> list[str]:
    """Tables of truth whose rows are not about those of the observed ones, as far as both are there."""
    return [
        f"trace: {folder / part.file_name(truth)}: rows differ from those of {observed}"
        for truth, observed, keys in (
            ("truth/messages", "observed/messages", ("round", "slot")),
            ("truth/clicks", "observed/interactions", ("round", "slot", "step")),
        )
        if observed in tables
        and truth in tables
        and not all(np.array_equal(tables[truth][key], tables[observed][key]) for key in keys)
    ]


def _clients(messages: PartTable, rows: slice) -> Ints:
    clients: NDArray[np.generic] = messages.array("client")[rows]
    return clients if clients.dtype == np.uint64 else clients.astype(np.int64)  # type: ignore[return-value]


def _updates(messages: PartTable, header: TraceHeader, rows: slice) -> Floats:
    found = messages.floats("update", rows)
    return np.full((rows.stop - rows.start, header.update_width), np.nan) if found is None else found


def _flags(columns: Columns, name: str, rows: slice) -> NDArray[np.bool_] | None:
    values = columns.get(name)
    return None if values is None else values[rows].astype(np.bool_, copy=False)


def metrics(part: TracePart, tables: Tables, folder: Path) -> list[dict[str, float]]:
    """Metrics of each round of a part, from the table `truth/rounds` alone.

    Raises:
        TraceError: rows of other rounds, a name twice, or the name `round`.
    """
    table = PartTable(tables["truth/rounds"], part, "truth/rounds", folder)
    found = []
    for i in range(part.n_rounds):
        pairs = table.named_values(table.span(i))
        names = dict(pairs)
        if len(names) != len(pairs) or "round" in names:
            raise table.error(f"round {part.first_round + i} has a metric twice, or one named round")
        found.append(names)
    return found


def last_model(header: TraceHeader, part: TracePart, tables: Tables, folder: Path) -> GlobalModel:
    """What the server had after the last round of a part, from the table `observed/rounds` alone."""
    table = PartTable(tables["observed/rounds"], part, "observed/rounds", folder)
    state = None if header.holds_models else _row(table, "state", -1).copy()
    return GlobalModel(_row(table, "aggregate", -1).copy(), state)
