"""Parquet to rounds, with every check that a later reader relies on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from foltr_audit.core.records.interactions import GlobalModel, RoundRecord, RoundTruth
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.marker import TracePart, file_name
from foltr_audit.trace.schema import columns, feature_form, misfit
from foltr_audit.utils.arrays import Floats, Words
from foltr_audit.utils.reading.parquet import parquet_frame, parquet_schema

if TYPE_CHECKING:
    import polars as pl

Frames = Mapping[str, "pl.DataFrame"]

_MOST_PADDED, _PADDED_PER_ENTRY = 1 << 24, 1000
"""Places that lists may be padded to: this many, or this many times the number of documents."""


def load(data: bytes, header: TraceHeader, table: str, path: Path) -> pl.DataFrame:
    """A table from the bytes of its file.

    Raises:
        TraceError: no Parquet, or other columns, types or missing values than the schema has.
    """
    where = f"trace: {path}"
    found = parquet_schema(data, where, TraceError)
    expected = columns(header, table, feature_form(found))
    for name in expected | found:
        if found.get(name) != expected.get(name):
            raise TraceError(
                f"{where}: column {name} is {found.get(name, 'missing')}, "
                f"expected {expected.get(name, 'no such column')}"
            )
    frame = parquet_frame(data, where, TraceError)
    for series in frame:
        if series.null_count():
            raise TraceError(f"trace: {path}: column {series.name} has missing values")
    return frame


def rounds(header: TraceHeader, part: TracePart, frames: Frames, folder: Path) -> Iterator[RoundRecord]:
    """The records of a part from its observed tables.

    Raises:
        TraceError: rows of other rounds or out of order, or a round that does not fit the header.
    """
    table, messages, shown = (
        _RoundTable(frames, f"observed/{n}", part, folder) for n in ("rounds", "messages", "interactions")
    )
    messages.expect_slots()
    parameters, aggregate = table.array("parameters"), table.array("aggregate")
    payload, survivors = messages.array("payload"), messages.array("survived")
    documents = shown.padded("shown", header.k, -1, np.int64)
    features = None
    if header.embeds_features:
        features = shown.padded("features", header.k, 0, feature_form(dict(shown.frame.schema)).dtype)
    whole = {name: shown.array(name).astype(np.int64) for name in ("slot", "step", "part", "query")}
    totals, aborted = _secure_sums(table, header, part)
    states = _states(table, header, part)
    seeds = messages.array("seed") if header.kind == "es" else None
    for i, number in enumerate(range(part.first_round, part.last_round + 1)):
        m, r = messages.span(i), shown.span(i)
        try:
            record = RoundRecord(
                round=number,
                parameters=parameters[i],
                aggregate=aggregate[i],
                shares=int(table.array("shares")[i]),
                survivors=survivors[m],
                counts=messages.array("count")[m],
                messages=payload[m],
                shown=documents[r],
                features=None if features is None else features[r],
                total=totals[i],
                aborted=aborted[i],
                seeds=None if seeds is None else seeds[m],
                state=states[i],
                **{name: values[r] for name, values in whole.items()},
            )
        except UsageError as error:
            raise TraceError(f"trace: {folder}: part {part.index}: {error}") from None
        problem = misfit(header, record)
        if problem is None and record.survivors.sum() != table.array("survivors")[i]:
            problem = f"round {number}: number of survivors differs from that of the messages"
        if problem is not None:
            raise TraceError(f"trace: {folder}: part {part.index}: {problem}")
        yield record


def _secure_sums(
    table: _RoundTable, header: TraceHeader, part: TracePart
) -> tuple[list[Words | None], list[str]]:
    """The sum of each round and why there is none, by round."""
    if header.kind != "masked":
        return [None] * part.n_rounds, [""] * part.n_rounds
    lengths = table.frame["total"].list.len().to_numpy()
    if not np.isin(lengths, (0, header.parameters)).all():
        raise TraceError(f"trace: {table.path}: column total has lists of other lengths than 0 and P")
    values = table.padded("total", header.parameters, 0, np.uint64)
    totals = [row if length else None for row, length in zip(values, lengths, strict=True)]
    return totals, table.frame["aborted"].to_list()


def _states(table: _RoundTable, header: TraceHeader, part: TracePart) -> list[Floats | None]:
    """What the server remembered after each round in addition to the model."""
    if header.holds_models:
        return [None] * part.n_rounds
    lists = table.frame["state"].to_list()
    if any(value is None for values in lists for value in values):
        raise TraceError(f"trace: {table.path}: column state has missing values")
    return [np.array(values, dtype=np.float64) for values in lists]


def truths(header: TraceHeader, part: TracePart, frames: Frames, folder: Path) -> Iterator[RoundTruth]:
    """The truths of a part's rounds from its truth tables.

    Raises:
        TraceError: rows of other rounds or out of order, or values that do not fit the header.
    """
    table, messages, clicks = (
        _RoundTable(frames, f"truth/{n}", part, folder) for n in ("rounds", "messages", "clicks")
    )
    messages.expect_slots()
    clicked = clicks.padded("clicks", header.k, False, np.bool_)
    for i, metrics in enumerate(table.metrics()):
        m, r = messages.span(i), clicks.span(i)
        try:
            yield RoundTruth(
                clients=messages.array("client")[m],
                updates=messages.array("update")[m],
                clicks=clicked[r],
                clipped=clicks.array("clipped")[r],
                metrics=metrics,
                intents=clicks.array("intent")[r] if header.intents > 1 else None,
            )
        except UsageError as error:
            raise TraceError(f"trace: {folder}: part {part.index}: {error}") from None


def metrics(part: TracePart, frames: Frames, folder: Path) -> list[dict[str, float]]:
    """Metrics of each round of a part, from the table `truth/rounds` alone."""
    return _RoundTable(frames, "truth/rounds", part, folder).metrics()


def last_model(header: TraceHeader, part: TracePart, frames: Frames, folder: Path) -> GlobalModel:
    """What the server had after the last round of a part, from the table `observed/rounds` alone."""
    table = _RoundTable(frames, "observed/rounds", part, folder)
    parameters = np.asarray(table.array("aggregate")[-1], dtype=np.float64).copy()
    return GlobalModel(parameters, _states(table, header, part)[-1])


class _RoundTable:
    """A table of a part, cut into rounds."""

    def __init__(self, frames: Frames, table: str, part: TracePart, folder: Path) -> None:
        self.path = folder / file_name(table, part.index)
        self.frame = frames[table]
        number = self.array("round").astype(np.int64)
        every = np.arange(part.first_round, part.last_round + 1)
        one_each = table.endswith("/rounds")
        if one_each and not np.array_equal(number, every):
            raise self._error(f"expected the rounds {part.first_round} to {part.last_round}, one row each")
        if np.any(np.diff(number) < 0) or (
            number.size and not every[0] <= number[0] <= number[-1] <= every[-1]
        ):
            raise self._error(f"rows must rise from round {part.first_round} to {part.last_round}")
        self._edges = np.searchsorted(number, np.append(every, part.last_round + 1))

    def _error(self, problem: str) -> TraceError:
        return TraceError(f"trace: {self.path}: {problem}")

    def array(self, name: str) -> NDArray[Any]:
        """A column, shape (rows,) or (rows, width)."""
        return self.frame[name].to_numpy()

    def span(self, i: int) -> slice:
        """Rows of the i-th round of the part."""
        return slice(int(self._edges[i]), int(self._edges[i + 1]))

    def expect_slots(self) -> None:
        """Refuse rows that are not slot 0, 1, 2 ... in each round."""
        sizes = np.diff(self._edges)
        expected = np.arange(self.frame.height) - np.repeat(self._edges[:-1], sizes)
        if not np.array_equal(self.array("slot"), expected):
            raise self._error("the slots of a round must be 0, 1, 2 and so on")

    def padded(self, name: str, k: int, fill: float, dtype: DTypeLike) -> NDArray[Any]:
        """A column of lists, shape (rows, k) or (rows, k, d), filled up at the end."""
        column = self.frame[name]
        lengths = column.list.len().to_numpy()
        if lengths.size and lengths.max() > k:
            raise self._error(f"column {name} has a list of {lengths.max()}, expected at most k = {k}")
        if "shown" in self.frame.columns and not np.array_equal(lengths, self.frame["shown"].list.len()):
            raise self._error(f"column {name} has lists of other lengths than shown")
        # Polars explodes an empty list to a null, which would pass for a missing value.
        entries = column.filter(column.list.len() > 0).explode()
        if entries.null_count():
            raise self._error(f"column {name} has missing values")
        flat = entries.to_numpy()
        # k is a claim of the header: short lists with a huge k would take any amount of memory when padded.
        if lengths.size * k > max(_MOST_PADDED, _PADDED_PER_ENTRY * len(flat)):
            raise self._error(f"{len(flat)} documents in {lengths.size} lists, expected more for k = {k}")
        out = np.full((lengths.size, k, *flat.shape[1:]), fill, dtype=dtype)
        out[np.arange(k) < lengths[:, None]] = flat
        return out

    def metrics(self) -> list[dict[str, float]]:
        """The metrics of each row."""
        found = []
        for entries in self.frame["metrics"].to_list():
            if any(entry is None or entry["name"] is None or entry["value"] is None for entry in entries):
                raise self._error("column metrics has missing values")
            names = {entry["name"]: entry["value"] for entry in entries}
            if len(names) != len(entries) or "round" in names:
                raise self._error("column metrics has a name twice, or the name round")
            found.append(names)
        return found
