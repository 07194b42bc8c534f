"""Rounds to Parquet: the same rounds give the same bytes, for any number of threads."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.schema import WHOLE, FeatureFormat, columns, narrow

if TYPE_CHECKING:
    import polars as pl

ROW_GROUP = 1 << 16
LEVEL = 1  # noise-like floats hardly shrink: level 3 gains under 1 %


@dataclass(frozen=True)
class RaggedLists:
    """Lists without padding: the first `lengths[i]` entries of `values[i]`."""

    values: NDArray[np.generic]
    lengths: NDArray[np.int64]


Column = NDArray[np.generic] | RaggedLists | list[object]
Tables = dict[str, dict[str, Column]]


def encode(header: TraceHeader, record: RoundRecord, truth: RoundTruth | None) -> Tables:
    """The rows of one round in every table, copied: the caller may change its arrays afterwards.

    Raises:
        UsageError: a number too large for its column.
    """
    lengths, order = record.lengths, {"slot": record.slot, "step": record.step}
    slots = np.arange(record.n_messages)
    tables: Tables = {
        "observed/rounds": {
            "shares": np.array([record.shares]),
            "survivors": np.array([int(record.survivors.sum())]),
            "parameters": record.parameters[None].copy(),
            "aggregate": record.aggregate[None].copy(),
        },
        "observed/messages": {
            "slot": slots,
            "count": record.counts,
            "survived": record.survivors.copy(),
            "payload": record.messages.copy(),
        },
        "observed/interactions": {
            **order,
            "part": record.part,
            "query": record.query,
            # -1 wraps here, but the padding is cut off before it is stored
            "shown": RaggedLists(_documents(record.shown), lengths),
        },
    }
    if header.kind == "masked":
        P = header.parameters
        total = np.zeros(P, dtype=np.uint64) if record.total is None else record.total.copy()
        tables["observed/rounds"] |= {
            "total": RaggedLists(total[None], np.array([0 if record.total is None else P])),
            "aborted": [record.aborted],
        }
    if record.state is not None:
        tables["observed/rounds"]["state"] = [record.state.tolist()]
    if record.seeds is not None:
        tables["observed/messages"]["seed"] = record.seeds.copy()
    if record.features is not None:
        tables["observed/interactions"]["features"] = RaggedLists(record.features.copy(), lengths)
    if truth is not None:
        clicks = RaggedLists(truth.clicks.copy(), lengths)
        updates = _rounded(truth.updates, header.number_format)
        tables |= {
            "truth/rounds": {"metrics": [[{"name": n, "value": v} for n, v in truth.metrics.items()]]},
            "truth/messages": {"slot": slots, "client": truth.clients, "update": updates},
            "truth/clicks": {**order, "clicks": clicks, "clipped": truth.clipped.copy()},
        }
        if truth.intents is not None:
            tables["truth/clicks"]["intent"] = truth.intents.astype(np.uint8)
    interactions = record.n_interactions
    sizes = {"rounds": 1, "messages": slots.size, "interactions": interactions, "clicks": interactions}
    for table, found in tables.items():
        found["round"] = np.full(sizes[table.split("/")[1]], record.round)
        for name, kind in WHOLE[table].items():
            found[name] = narrow(name, np.asarray(found[name]), kind)
    return tables


def parquet(header: TraceHeader, table: str, rounds: Sequence[dict[str, Column]]) -> tuple[bytes, int]:
    """The Parquet file of a table over some rounds, and its number of rows."""
    import polars as pl

    joined = {name: _join([rows[name] for rows in rounds]) for name in rounds[0]}
    features = joined.get("features")
    form = FeatureFormat()
    if isinstance(features, RaggedLists):
        form = FeatureFormat(int(features.values.shape[-1]), str(features.values.dtype))
    types = columns(header, table, form)
    frame = pl.DataFrame([_series(name, joined[name], kind) for name, kind in types.items()])
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer, compression="zstd", compression_level=LEVEL, statistics=True, row_group_size=ROW_GROUP
    )
    return buffer.getvalue(), frame.height


def _documents(shown: NDArray[np.int64]) -> NDArray[np.uint32]:
    narrow("shown", np.maximum(shown, 0), "UInt32")
    return shown.astype(np.uint32)


def _rounded(updates: NDArray[np.float64], dtype: str) -> NDArray[np.floating]:
    with np.errstate(over="ignore"):  # beyond float32 is infinity, as in the message itself
        return updates.astype(dtype, copy=True)


def _join(columns: Sequence[Column]) -> Column:
    if isinstance(columns[0], RaggedLists):
        pieces = [piece for piece in columns if isinstance(piece, RaggedLists)]
        return RaggedLists(
            np.concatenate([piece.values for piece in pieces]),
            np.concatenate([piece.lengths for piece in pieces]),
        )
    if isinstance(columns[0], list):
        return [entry for column in columns if isinstance(column, list) for entry in column]
    return np.concatenate([column for column in columns if isinstance(column, np.ndarray)])


def _series(name: str, column: Column, kind: pl.DataType) -> pl.Series:
    import polars as pl

    if isinstance(column, list):
        return pl.Series(name, column, dtype=kind)
    values = column.values if isinstance(column, RaggedLists) else column
    if len(values) == 0:
        return pl.Series(name, [], dtype=kind)
    if not isinstance(column, RaggedLists):
        return pl.Series(name, values, dtype=kind)
    padded = pl.DataFrame({name: pl.Series(name, values), "length": column.lengths})
    return padded.select(pl.col(name).arr.to_list().list.head(pl.col("length")))[name]
