"""Column names and Parquet types of the tables of schema 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from foltr_audit.trace.header import TraceHeader

if TYPE_CHECKING:
    import polars as pl

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
"""Columns of whole numbers."""


class FeatureForm(NamedTuple):
    """How embedded features are stored.

    Attributes:
        width: features a document, 1 or more.
        dtype: `float32` or `float64`.
    """

    width: int = 1
    dtype: str = "float32"


def first_columns(header: TraceHeader, table: str, form: FeatureForm) -> dict[str, pl.DataType]:
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


def feature_form(types: Mapping[str, object]) -> FeatureForm:
    """The form of a `features` column as stored; the default where there is none to be read."""
    import polars as pl

    inner = getattr(types.get("features"), "inner", None)
    width = getattr(inner, "size", None)
    dtype = "float64" if getattr(inner, "inner", None) == pl.Float64 else "float32"
    return FeatureForm(width if isinstance(width, int) and width > 0 else 1, dtype)
