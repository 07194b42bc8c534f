"""The tables of a trace from the arrays of its rounds: the one place that names their columns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .table_files import smallest, smallest_places

Table = dict[str, NDArray[np.generic]]
"""Columns of one length by name."""

Tables = dict[str, Table]
"""Tables by name, such as `observed/rounds`."""

WHOLE = {
    *("round", "shares", "slot", "count", "step", "part", "query", "shown"),
    *("client", "intent", "sender", "node", "bytes", "seed"),
}
"""Columns of whole numbers, which come and are stored in the smallest type that holds them.

`count` is in float64 where one is not whole.
"""

FILLED: dict[str, object] = {
    "facts": "",
    "aborted": "",
    "started": math.nan,
    "ended": math.nan,
    "bytes": 0,
    "sent_at": math.nan,
    "known": True,
    "update": math.nan,
}
"""Columns that some rounds of a part may lack, and what then stands in their rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CohortColumns:
    """Which nodes a server asked, who may be asked several times, and what became of it.

    Attributes:
        node: number of each node, uint64 (N,).
        outcome: `arrived`, `failed` or `late` (N,).
        reason: why a node failed, as the server knows it (N,); "" without a reason.
        stage: stage of the protocol (N,); "" for the training step.
    """

    node: ArrayLike
    outcome: Sequence[str]
    reason: Sequence[str]
    stage: Sequence[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundColumns:
    """What a server saw of one round: M messages, whose arrays are apart, and I shown lists.

    Attributes:
        round: number of the round, from 0.
        parameters: the model sent, float64 (P,): its floating arrays one after the other.
        aggregate: the model afterwards, float64 (P,); None, or NaN, where unknown.
        shares: number n of noise shares that the defenses assume; 0 where unknown.
        survivors: whether a message entered the aggregate, bool (M,).
        counts: interactions behind each message (M,), whole numbers; or their weights in the mean, of which
            some are not whole.
        slot: message that contains each list (I,). Rows are sorted by (slot, step).
        step: the client's local step, from 0 (I,).
        part: index of its data set part (I,).
        query: index of its query inside the part, from 0 (I,).
        shown: positions of the shown documents inside their query, (I, k), -1 after the last.
        features: float32 or float64 (I, k, d), 0 at the padding; None where not embedded.
        total: sum of the masked words, uint64 (W,); None where messages are not masked, or without a sum.
        aborted: why there is no sum of masked messages; else empty.
        seeds: the seed of each client's perturbation, uint64 (M,); None without perturbations.
        state: the server's state after the round in addition to the model, float64 (S,); None where messages
            are models.
        senders: number of each sender, uint64 (M,); None where the server does not know them.
        sizes: bytes of each message (M,), 0 where unknown; None where all are.
        sent_at: when each was sent, Unix seconds (M,), NaN where unknown; None where all are.
        started, ended: when the round began and ended, Unix seconds; None where unknown.
        clear: numbers that travelled in clear beside the messages, by name, float64 (M,), NaN where a
            message has none.
        cohort: whom the server asked; None where that was not recorded.
        facts: facts that hold in this round instead of those of the header.
        candidates: features of all candidates of each list, one list after the other, (C, d); None where not
            embedded.
        n_candidates: number of candidates of each list (I,), C in all; with `candidates` only.
    """

    round: int
    parameters: ArrayLike
    aggregate: ArrayLike | None
    shares: int = 0
    survivors: ArrayLike
    counts: ArrayLike
    slot: ArrayLike
    step: ArrayLike
    part: ArrayLike
    query: ArrayLike
    shown: ArrayLike
    features: NDArray[np.floating] | None = None
    total: ArrayLike | None = None
    aborted: str = ""
    seeds: ArrayLike | None = None
    state: ArrayLike | None = None
    senders: ArrayLike | None = None
    sizes: ArrayLike | None = None
    sent_at: ArrayLike | None = None
    started: float | None = None
    ended: float | None = None
    clear: Mapping[str, ArrayLike] = field(default_factory=dict)
    cohort: CohortColumns | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    candidates: NDArray[np.floating] | None = None
    n_candidates: ArrayLike | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthColumns:
    """What nobody but the laboratory knows of a round; rows match those of its messages and lists.

    Attributes:
        clients: the real client behind each message (M,), whole numbers.
        clicks: bool (I, k).
        updates: each client's update before any defense, (M, P), a row of NaN where unknown; None where all
            are.
        clipped: whether a local step was clipped, bool (I,); None where unknown.
        known: whether the clicks of a list are known, bool (I,); None where all are.
        intents: intent of each list (I,), from 0; None for a single one.
        metrics: utility of the round by name.
    """

    clients: ArrayLike
    clicks: ArrayLike
    updates: NDArray[np.floating] | None = None
    clipped: ArrayLike | None = None
    known: ArrayLike | None = None
    intents: ArrayLike | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


def round_tables(
    seen: RoundColumns,
    arrays: Sequence[NDArray[np.generic]],
    truth: TruthColumns | None = None,
    *,
    masked: bool = False,
) -> Tables:
    """The rows of one round in every table that has some or must exist.

    Arrays of messages and updates are the given ones, all others are copied.

    `arrays`: one array for each of the layout, (M, *shape), in the type in which it travelled (bfloat16 as
    uint16; masked words as uint64). `truth`: what only the laboratory knows of it. `masked`: whether messages
    are masked words.
    """
    tables = {
        "observed/rounds": _round(seen, arrays, masked=masked),
        "observed/messages": _messages(seen, arrays),
        "observed/interactions": _interactions(seen),
    }
    if seen.candidates is not None:
        tables["observed/candidates"] = _candidates(seen)
    if seen.cohort is not None:
        tables["observed/cohort"] = _cohort(seen.cohort)
    if seen.clear:
        tables["observed/metrics"] = _metrics(seen.clear)
    if truth is not None:
        tables |= _truth(truth, tables["observed/interactions"])
    for name, columns in tables.items():
        rows = len(next(iter(columns.values())))
        tables[name] = {"round": np.full(rows, seen.round, np.min_scalar_type(seen.round)), **columns}
    return tables


def join_tables(rounds: Sequence[Tables]) -> Tables:
    """The tables of a part from those of its rounds, in their order; of one round without a copy.

    Raises:
        ValueError: a column that only some rounds have and that cannot be filled, rows of other shapes, or a
            whole number that fits no type of 64 bits.
    """
    joined: Tables = {}
    for table in dict.fromkeys(name for tables in rounds for name in tables):
        pieces = [tables[table] for tables in rounds if table in tables]
        names = dict.fromkeys(name for piece in pieces for name in piece)
        joined[table] = {name: _joined(table, name, pieces) for name in names}
    return joined


def check_same_columns(rounds: Sequence[Tables]) -> None:
    """Refuse rounds that no part can hold together; without a copy of their arrays.

    Args:
        rounds: rounds that go together, and the last, which may not.
    """
    if _forms(rounds[0]) == _forms(rounds[-1]):
        return
    join_tables([first_rows(tables) for tables in rounds])


def first_rows(tables: Tables) -> Tables:
    """The first row of every table, copied: enough for `check_same_columns`."""
    return {
        table: {name: values[:1].copy() for name, values in columns.items()}
        for table, columns in tables.items()
    }


def _forms(tables: Tables) -> dict[str, dict[str, tuple[str, tuple[int, ...]]]]:
    """Type and axes of every column, of text and whole numbers whatever their length."""
    return {
        table: {
            name: (
                "whole" if name in WHOLE else "U" if values.dtype.kind == "U" else values.dtype.str,
                values.shape[1:],
            )
            for name, values in columns.items()
        }
        for table, columns in tables.items()
    }


def _round(seen: RoundColumns, arrays: Sequence[NDArray[np.generic]], *, masked: bool) -> Table:
    model = np.array(seen.parameters, dtype=np.float64)
    unknown = np.full(model.shape, math.nan)
    columns: Table = {
        "shares": _whole([seen.shares]),
        "parameters": model[None],
        "aggregate": np.array(unknown if seen.aggregate is None else seen.aggregate, dtype=np.float64)[None],
    }
    if seen.state is not None:
        columns["state"] = np.array(seen.state, dtype=np.float64)[None]
    if masked:
        total = np.zeros(arrays[0].shape[1:], dtype=np.uint64) if seen.total is None else seen.total
        columns["total"] = np.array(total, dtype=np.uint64)[None]
        columns["has_total"] = np.array([seen.total is not None])
        columns["aborted"] = np.array([seen.aborted])
    if seen.facts:
        columns["facts"] = np.array([json.dumps(dict(seen.facts), sort_keys=True, ensure_ascii=False)])
    for name, moment in (("started", seen.started), ("ended", seen.ended)):
        if moment is not None:
            columns[name] = np.array([moment], dtype=np.float64)
    return columns


def _messages(seen: RoundColumns, arrays: Sequence[NDArray[np.generic]]) -> Table:
    counts = np.asarray(seen.counts)
    columns: Table = {
        "slot": _whole(np.arange(counts.size)),
        "count": counts.astype(np.float64) if counts.size and counts.dtype.kind == "f" else _whole(counts),
        "survived": np.array(seen.survivors, dtype=np.bool_),
        **{f"array-{i}": values for i, values in enumerate(arrays)},
    }
    if seen.seeds is not None:
        columns["seed"] = _whole(seen.seeds, np.uint64)
    if seen.senders is not None:
        columns["sender"] = _whole(seen.senders, np.uint64)
    if seen.sizes is not None:
        columns["bytes"] = _whole(seen.sizes)
    if seen.sent_at is not None:
        columns["sent_at"] = np.array(seen.sent_at, dtype=np.float64)
    return columns


def _interactions(seen: RoundColumns) -> Table:
    columns: Table = {
        name: _whole(getattr(seen, name)) for name in ("slot", "step", "part", "query", "shown")
    }
    if seen.features is not None:
        columns["features"] = seen.features.copy()
    return columns


def _candidates(seen: RoundColumns) -> Table:
    if seen.candidates is None or seen.n_candidates is None:
        raise ValueError("expected both candidates and n_candidates, or neither")
    times = np.asarray(seen.n_candidates, dtype=np.int64)
    columns: Table = {name: np.repeat(_whole(getattr(seen, name)), times) for name in ("slot", "step")}
    columns["features"] = seen.candidates.copy()
    return columns


def _cohort(cohort: CohortColumns) -> Table:
    texts = {name: np.array(getattr(cohort, name), dtype=np.str_) for name in ("outcome", "reason", "stage")}
    return {"node": _whole(cohort.node, np.uint64), **texts}


def _metrics(metrics: Mapping[str, ArrayLike]) -> Table:
    values = np.stack([np.asarray(column, dtype=np.float64) for column in metrics.values()], axis=1)
    slot, number = np.nonzero(~np.isnan(values))
    return {
        "slot": _whole(slot),
        "name": np.array(list(metrics), dtype=np.str_)[number],
        "value": values[slot, number],
    }


def _truth(truth: TruthColumns, interactions: Table) -> Tables:
    clients = _whole(truth.clients)
    messages: Table = {"slot": _whole(np.arange(clients.size)), "client": clients}
    if truth.updates is not None:
        messages["update"] = truth.updates
    clicks: Table = {
        "slot": interactions["slot"],
        "step": interactions["step"],
        "clicks": _packed_bits(truth.clicks),
    }
    optional = (
        ("known", truth.known, np.bool_),
        ("clipped", truth.clipped, np.bool_),
        ("intent", truth.intents, np.int64),
    )
    for name, values, kind in optional:
        if values is not None:
            clicks[name] = _whole(values) if name in WHOLE else np.array(values, dtype=kind)
    names, figures = list(truth.metrics), list(truth.metrics.values())
    metrics: Table = {"name": np.array(names, dtype=np.str_), "value": np.array(figures, dtype=np.float64)}
    return {"truth/rounds": metrics, "truth/messages": messages, "truth/clicks": clicks}


def _packed_bits(clicks: ArrayLike) -> NDArray[np.uint8]:
    """As `numpy.packbits(clicks, axis=1)`, in a quarter of the time."""
    rows, k = np.shape(clicks)
    whole = np.zeros((rows, -(-k // 8) * 8), dtype=np.bool_)
    whole[:, :k] = clicks
    return np.packbits(whole).reshape(rows, -(-k // 8))


def _joined(table: str, name: str, pieces: Sequence[Table]) -> NDArray[np.generic]:
    example = next(piece[name] for piece in pieces if name in piece)
    columns = [piece[name] if name in piece else _fill(table, name, piece, example) for piece in pieces]
    if name == "count" and any(column.dtype.kind == "f" for column in columns):
        columns = [column.astype(np.float64) for column in columns]
    kinds = {column.dtype.kind for column in columns}
    if len(kinds - {"i", "u"}) + bool(kinds & {"i", "u"}) > 1 or (
        name not in WHOLE and kinds != {"U"} and len({column.dtype for column in columns}) > 1
    ):
        types = ", ".join(sorted({str(column.dtype) for column in columns}))
        raise ValueError(f"{table}: column {name} has several types: {types}")
    whole = columns[0] if len(columns) == 1 else np.concatenate(columns)
    if name == "shown":
        return smallest_places(whole)
    # The largest of the smallest types is the smallest of all, but for a type that holds numbers below 0 too.
    return smallest(whole) if name in WHOLE and not kinds <= {"u", "f"} else whole


def _whole(values: ArrayLike, kind: type[np.uint64] | None = None) -> NDArray[np.integer]:
    """Whole numbers, taken as of a kind, in the smallest type that holds them; a copy."""
    whole = np.asarray(values, dtype=kind)
    return smallest(whole) if whole.size else whole.astype(np.uint8)


def _fill(table: str, name: str, piece: Table, example: NDArray[np.generic]) -> NDArray[np.generic]:
    rows = len(next(iter(piece.values())))
    if rows and name not in FILLED:
        raise ValueError(f"{table}: column {name} is missing in some rounds of a part")
    if not rows:
        return np.empty((0, *example.shape[1:]), dtype=example.dtype)
    return np.full((rows, *example.shape[1:]), FILLED[name], dtype=example.dtype)
