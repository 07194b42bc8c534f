"""Parquet files of schema 1 as tables of the present schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from foltr_audit.errors import TraceError
from foltr_audit.recorder.table_files import Columns
from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.schema1.first_types import feature_form, first_columns
from foltr_audit.utils.reading.parquet import parquet_frame, parquet_schema

if TYPE_CHECKING:
    import polars as pl

_MOST_PADDED, _PADDED_PER_ENTRY = 1 << 24, 1000
"""Places that lists may be padded to: this many, or this many times the number of documents."""


def load_first(data: bytes, header: TraceHeader, table: str, path: Path, rows: int) -> Columns:
    """The columns of a table from the bytes of its file, which is to hold so many rows.

    Raises:
        TraceError: no Parquet, or other columns, types, rows or missing values than the schema has.
    """
    frame = _frame(data, header, table, path)
    if frame.height != rows:
        raise TraceError(f"trace: {path}: has {frame.height} rows, expected {rows}")
    return _FirstTable(frame, header, path).columns()


def _frame(data: bytes, header: TraceHeader, table: str, path: Path) -> pl.DataFrame:
    where = f"trace: {path}"
    found = parquet_schema(data, where, TraceError)
    expected = first_columns(header, table, feature_form(found))
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


class _FirstTable:
    """A table as it was stored, and its columns as they are stored now."""

    def __init__(self, frame: pl.DataFrame, header: TraceHeader, path: Path) -> None:
        self._frame, self._header, self._path = frame, header, path

    def columns(self) -> Columns:
        """The columns of the present schema."""
        found: dict[str, NDArray[np.generic]] = {}
        for name in self._frame.columns:
            if name == "payload":
                found["array-0"] = self._frame[name].to_numpy()
            elif name == "total":
                found |= self._total()
            elif name == "state":
                found[name] = self._states()
            elif name == "metrics":
                return self._metrics()
            elif name in ("shown", "features", "clicks"):
                kinds: dict[str, DTypeLike] = {
                    "shown": np.int64,
                    "clicks": np.bool_,
                    "features": feature_form(dict(self._frame.schema)).dtype,
                }
                found[name] = self._padded(name, -1 if name == "shown" else 0, kinds[name])
            elif name == "aborted":
                found[name] = np.array(self._frame[name].to_list(), dtype=np.str_)
            elif name != "survivors":  # those of the messages say the same
                found[name] = self._frame[name].to_numpy()
        return found

    def _error(self, problem: str) -> TraceError:
        return TraceError(f"trace: {self._path}: {problem}")

    def _total(self) -> dict[str, NDArray[np.generic]]:
        column, P = self._frame["total"], self._header.parameters
        lengths = column.list.len().to_numpy()
        if not np.isin(lengths, (0, P)).all():
            raise self._error("column total has lists of other lengths than 0 and P")
        totals = np.zeros((lengths.size, P), dtype=np.uint64)
        totals[lengths == P] = self._entries("total").reshape(-1, P)
        return {"total": totals, "has_total": lengths == P}

    def _states(self) -> NDArray[np.generic]:
        lists = self._frame["state"].to_list()
        if any(value is None for values in lists for value in values):
            raise self._error("column state has missing values")
        if len({len(values) for values in lists}) > 1:
            raise self._error("column state has lists of several lengths")
        return np.array(lists, dtype=np.float64).reshape(len(lists), -1)

    def _metrics(self) -> Columns:
        rows = []
        for number, entries in zip(
            self._frame["round"].to_list(), self._frame["metrics"].to_list(), strict=True
        ):
            if any(entry is None or entry["name"] is None or entry["value"] is None for entry in entries):
                raise self._error("column metrics has missing values")
            rows += [(number, entry["name"], entry["value"]) for entry in entries]
        numbers, names, values = zip(*rows, strict=True) if rows else ((), (), ())
        return {
            "round": np.array(numbers, dtype=np.int64),
            "name": np.array(names, dtype=np.str_),
            "value": np.array(values, dtype=np.float64),
        }

    def _entries(self, name: str) -> NDArray[np.generic]:
        """The entries of a column of lists, one list after the other."""
        column = self._frame[name]
        # Polars explodes an empty list to a null, which would pass for a missing value.
        entries = column.filter(column.list.len() > 0).explode()
        if entries.null_count():
            raise self._error(f"column {name} has missing values")
        found: NDArray[np.generic] = entries.to_numpy()
        return found

    def _padded(self, name: str, fill: float, dtype: DTypeLike) -> NDArray[np.generic]:
        """A column of lists, shape (rows, k) or (rows, k, d), filled up at the end."""
        k, lengths = self._header.k, self._frame[name].list.len().to_numpy()
        if lengths.size and lengths.max() > k:
            raise self._error(f"column {name} has a list of {lengths.max()}, expected at most k = {k}")
        if "shown" in self._frame.columns and not np.array_equal(lengths, self._frame["shown"].list.len()):
            raise self._error(f"column {name} has lists of other lengths than shown")
        flat = self._entries(name)
        # k is a claim of the header: short lists with a huge k would take any amount of memory when padded.
        if lengths.size * k > max(_MOST_PADDED, _PADDED_PER_ENTRY * len(flat)):
            raise self._error(f"{len(flat)} documents in {lengths.size} lists, expected more for k = {k}")
        out = np.full((lengths.size, k, *flat.shape[1:]), fill, dtype=dtype)
        out[np.arange(k) < lengths[:, None]] = flat
        return out
