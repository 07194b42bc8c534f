"""Columns and types of the tables of a trace, and whether a round fits the header of its trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import UsageError
from foltr_audit.trace.header import TraceHeader

if TYPE_CHECKING:
    import polars as pl

NUMPY: dict[str, type[np.unsignedinteger | np.signedinteger]] = {
    "UInt8": np.uint8,
    "UInt32": np.uint32,
    "Int64": np.int64,
}
# Whole-number columns and their Parquet types. Clients of real systems may have 63-bit names.
WHOLE: dict[str, dict[str, str]] = {
    "observed/rounds": dict.fromkeys(("round", "shares", "survivors"), "UInt32"),
    "observed/messages": dict.fromkeys(("round", "slot", "count"), "UInt32"),
    "observed/interactions": {
        **dict.fromkeys(("round", "slot", "step", "query"), "UInt32"),
        "part": "UInt8",
    },
    "truth/rounds": {"round": "UInt32"},
    "truth/messages": {"round": "UInt32", "slot": "UInt32", "client": "Int64"},
    "truth/clicks": dict.fromkeys(("round", "slot", "step"), "UInt32"),
}


class FeatureFormat(NamedTuple):
    """How embedded features are stored.

    Attributes:
        width: features a document, 1 or more.
        dtype: `float32` or `float64`.
    """

    width: int = 1
    dtype: str = "float32"


def columns(header: TraceHeader, table: str, form: FeatureFormat) -> dict[str, pl.DataType]:
    """Column names and Parquet types of a table; `form` is that of the embedded features."""
    import polars as pl

    number = pl.Float32() if header.number_format == "float32" else pl.Float64()
    payload = pl.UInt64() if header.kind == "masked" else number
    message, change = (pl.Array(inner, header.width) for inner in (payload, number))
    vector = pl.Array(pl.Float64, header.parameters)
    metric = pl.Struct({"name": pl.String, "value": pl.Float64})
    rest: dict[str, dict[str, pl.DataType]] = {
        "observed/rounds": {"parameters": vector, "aggregate": vector},
        "observed/messages": {"survived": pl.Boolean(), "payload": message},
        "observed/interactions": {"shown": pl.List(pl.UInt32)},
        "truth/rounds": {"metrics": pl.List(metric)},
        "truth/messages": {"update": change},
        "truth/clicks": {"clicks": pl.List(pl.Boolean), "clipped": pl.Boolean()},
    }
    if table == "observed/rounds" and header.kind == "masked":
        rest[table] |= {"total": pl.List(pl.UInt64), "aborted": pl.String()}
    if table == "observed/rounds" and not header.holds_models:
        rest[table] |= {"state": pl.List(pl.Float64)}
    if table == "truth/clicks" and header.intents > 1:
        rest[table] |= {"intent": pl.UInt8()}
    if table == "observed/messages" and header.kind == "es":
        rest[table] |= {"seed": pl.UInt64()}
    if table == "observed/interactions" and header.embeds_features:
        value = pl.Float64 if form.dtype == "float64" else pl.Float32
        rest[table]["features"] = pl.List(pl.Array(value, form.width))
    types: dict[str, pl.DataType] = {name: getattr(pl, kind)() for name, kind in WHOLE[table].items()}
    return types | rest[table]


def feature_form(types: Mapping[str, object]) -> FeatureFormat:
    """The form of a `features` column as stored; the default where there is none to be read."""
    import polars as pl

    inner = getattr(types.get("features"), "inner", None)
    width = getattr(inner, "size", None)
    dtype = "float64" if getattr(inner, "inner", None) == pl.Float64 else "float32"
    return FeatureFormat(width if isinstance(width, int) and width > 0 else 1, dtype)


def narrow(name: str, values: NDArray[np.generic], kind: str) -> NDArray[np.integer]:
    """A copy in the stored whole-number type.

    Raises:
        UsageError: a value that the type does not hold.
    """
    dtype = np.dtype(NUMPY[kind])
    most = int(np.iinfo(dtype).max)
    if values.size and (values.max() > most or values.min() < 0):
        raise UsageError(f"trace: {name} holds {values.max()}, expected 0 to {most}")
    return values.astype(dtype, copy=True)


def misfit(header: TraceHeader, record: RoundRecord) -> str | None:
    """Why a round does not fit the trace with this header; None where it does."""
    rows, width = record.messages.shape
    facts = [
        ("parameters P", record.parameters.size, header.parameters),
        ("numbers in a message", width, header.width),
        ("seeds", record.seeds is not None, header.kind == "es"),
        ("state beside the model", record.state is not None, not header.holds_models),
        ("shown lists of k", record.shown.shape[1], header.k),
        ("messages of type", str(record.messages.dtype), header.dtype),
        ("embedded features", record.features is not None, header.embeds_features),
    ]
    for what, found, expected in facts:
        if found != expected:
            return f"round {record.round}: {what} {found}, expected {expected} as in the header"
    encoding = header.encoding
    if encoding is not None:
        most = max(
            int(values.max(initial=0)) for values in (record.messages, record.total) if values is not None
        )
        if most.bit_length() > encoding.bits:
            return f"round {record.round}: a masked number {most}, expected one below 2^{encoding.bits}"
    if record.part.size and record.part.max() >= len(header.dataset.parts):
        return f"round {record.round}: part {record.part.max()}, expected one of {len(header.dataset.parts)}"
    recorded = np.bincount(record.slot, minlength=rows)
    if np.any(recorded > record.counts):
        slot = int(np.argmax(recorded > record.counts))
        return (
            f"round {record.round}: slot {slot} counts {record.counts[slot]} interactions, "
            f"but {recorded[slot]} are recorded"
        )
    return None


def truth_misfit(header: TraceHeader, record: RoundRecord, truth: RoundTruth) -> str | None:
    """Why a truth does not belong to a round of the trace with this header; None where it does."""
    if (truth.intents is not None) != (header.intents > 1):
        given = "no intents" if truth.intents is None else "intents"
        return f"round {record.round}: truth: it has {given}, but the header says {header.intents}"
    if truth.intents is not None and truth.intents.max(initial=0) >= header.intents:
        return (
            f"round {record.round}: truth: intent {truth.intents.max()}, expected less than {header.intents}"
        )
    pairs = [
        ("updates", truth.updates.shape, record.messages.shape),
        ("clicks", truth.clicks.shape, record.shown.shape),
    ]
    for what, found, expected in pairs:
        if found != expected:
            return f"round {record.round}: truth: {what} of shape {found}, expected {expected}"
    if np.any(truth.clicks[record.shown < 0]):
        return f"round {record.round}: truth: a click where the shown list is padded"
    return None
