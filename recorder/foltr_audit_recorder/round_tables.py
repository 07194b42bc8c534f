"""The tables of a trace from the arrays of its rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .messages import NodeOutcome
from .trace_format import OBSERVED, OBSERVED_TOO, TRUTH, Column, HeaderFields, table_columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Features = NDArray[np.float32] | NDArray[np.float64]

Table = dict[str, NDArray[np.generic]]
"""Columns of one length by name."""

Tables = dict[str, Table]
"""Tables by name, such as `observed/rounds`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundColumns:
    """What a server saw of one round: M messages, whose arrays are apart, and I shown lists.

    Attributes:
        round: number of the round, from 0.
        parameters: the model sent, float64 (P,): its floating arrays one after the other.
        aggregate: the model afterwards, float64 (P,); NaN where unknown.
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
        cohort: whom the server asked, who may be asked several times; empty where that was not recorded.
        facts: facts that hold in this round instead of those of the header.
        candidates: features of all candidates of each list, one list after the other, (C, d); None where not
            embedded.
        n_candidates: number of candidates of each list (I,), C in all; with `candidates` only.
    """

    round: int
    parameters: Floats
    aggregate: Floats
    shares: int = 0
    survivors: NDArray[np.bool_]
    counts: NDArray[np.int64] | Floats
    slot: Ints
    step: Ints
    part: Ints
    query: Ints
    shown: Ints
    features: Features | None = None
    total: Words | None = None
    aborted: str = ""
    seeds: Words | None = None
    state: Floats | None = None
    senders: Words | None = None
    sizes: Ints | None = None
    sent_at: Floats | None = None
    started: float | None = None
    ended: float | None = None
    clear: Mapping[str, Floats] = field(default_factory=dict)
    cohort: Sequence[NodeOutcome] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    candidates: Features | None = None
    n_candidates: Ints | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthColumns:
    """What nobody but the laboratory knows of a round; rows match those of its messages and lists.

    Attributes:
        clients: the real client behind each message, int64 (M,); uint64 where numbers need it.
        updates: each client's update before any defense, (M, P), a row of NaN where unknown; (M, 0), as
            without updates, where all are.
        clicks: bool (I, k); False where the shown list is padded.
        clipped: whether a local step was clipped, bool (I,); (0,), as without clipped, where unknown.
        metrics: utility of the round by name, such as `offline_ndcg@10`; NaN where undefined.
        intents: intent of each list, int64 (I,), from 0; None for a single one.
        known: whether the clicks of a list are known, bool (I,); None where all are. Unknown ones are never
            scored.
    """

    clients: Ints | Words
    updates: NDArray[np.floating] = field(default_factory=lambda: np.empty((0, 0)))
    clicks: NDArray[np.bool_]
    clipped: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    metrics: Mapping[str, float] = field(default_factory=dict)
    intents: Ints | None = None
    known: NDArray[np.bool_] | None = None

    @property
    def knows_clips(self) -> bool:
        """Whether it is known which steps were clipped."""
        return self.clipped.shape != (0,) or not len(self.clicks)

    @property
    def knows_updates(self) -> bool:
        """Whether an update is known."""
        # A look at the first row spares that at all others.
        return self.updates.size > 0 and not (
            np.isnan(self.updates[:1]).all() and np.isnan(self.updates).all()
        )


def round_tables(
    header: HeaderFields,
    seen: RoundColumns,
    arrays: Sequence[NDArray[np.generic]],
    truth: TruthColumns | None = None,
) -> Tables:
    """The rows of one round in every table that has some or must exist.

    Arrays of messages are the given ones, all others are copied.

    `arrays`: one array for each of `header.arrays`, (M, *shape), in the type in which it travelled (bfloat16
    as uint16; masked words as uint64). `truth`: what only the laboratory knows of it.
    """
    slots = np.arange(seen.counts.size)
    given: dict[str, dict[str, object]] = {
        "observed/rounds": _round(header, seen),
        "observed/messages": {
            "slot": slots,
            "count": seen.counts,
            "survived": seen.survivors,
            "seed": seen.seeds,
            "sender": seen.senders,
            "bytes": seen.sizes,
            "sent_at": seen.sent_at,
            **{f"array-{i}": values for i, values in enumerate(arrays)},
        },
        "observed/interactions": {
            **{name: getattr(seen, name) for name in ("slot", "step", "part", "query", "features")},
            "shown": seen.shown + 1,
            "candidates": seen.n_candidates,
        },
    }
    if seen.candidates is not None:
        given["observed/candidates"] = {"features": seen.candidates}
    if seen.cohort:
        given["observed/cohort"] = {
            name: [getattr(each, name) for each in seen.cohort]
            for name in ("node", "outcome", "reason", "stage")
        }
    if seen.clear:
        values = np.stack([*seen.clear.values()], axis=1)
        slot, number = np.nonzero(~np.isnan(values))
        name = np.array(list(seen.clear), dtype=np.str_)[number]
        given["observed/metrics"] = {"slot": slot, "name": name, "value": values[slot, number]}
    if truth is not None:
        names, figures = list(truth.metrics), list(truth.metrics.values())
        given["truth/rounds"] = {"name": names, "value": figures}
        updates = truth.updates if truth.knows_updates else None
        given["truth/messages"] = {"slot": slots, "client": truth.clients, "update": updates}
        given["truth/clicks"] = {
            "slot": seen.slot,
            "step": seen.step,
            "clicks": truth.clicks,
            "known": truth.known,
            "clipped": truth.clipped if truth.knows_clips else None,
            "intent": truth.intents,
        }
    return {table: _table(header, table, seen.round, columns) for table, columns in given.items()}


def _round(header: HeaderFields, seen: RoundColumns) -> dict[str, object]:
    facts = json.dumps(dict(seen.facts), sort_keys=True, ensure_ascii=False) if seen.facts else None
    row = {
        "parameters": seen.parameters,
        "shares": seen.shares,
        "facts": facts,
        "state": seen.state,
        "aggregate": seen.aggregate,
        "started": seen.started,
        "ended": seen.ended,
    }
    if header.kind == "masked":
        total = np.zeros(header.width, dtype=np.uint64) if seen.total is None else seen.total
        row |= {"total": total, "has_total": seen.total is not None, "aborted": seen.aborted}
    return {name: None if value is None else [value] for name, value in row.items()}


def _table(header: HeaderFields, table: str, number: int, given: Mapping[str, object]) -> Table:
    """The columns of a table as a file has them; what is None is left out."""
    found: Table = {}
    for name, column in table_columns(header, table).items():
        if (values := given.get(name)) is None:
            continue
        kinds = {"word": np.uint64, "text": np.str_, "float64": np.float64, "bool": np.bool_}
        with np.errstate(over="ignore"):  # an update beyond float32 is infinite, as in the message itself
            array: NDArray[Any] = column.stored(np.asarray(values, dtype=kinds.get(column.kind)))
        own = array is not values or name.startswith("array-")
        found[name] = array if own else array.copy()
    rows = len(next(iter(found.values())))
    return {"round": np.full(rows, number, np.min_scalar_type(number)), **found}


class OpenPart:
    """The rounds of a part that is not written yet."""

    def __init__(self, header: HeaderFields) -> None:
        self.header = header
        self._columns = {table: table_columns(header, table) for table in (*OBSERVED, *OBSERVED_TOO, *TRUTH)}
        self._rounds: list[Tables] = []
        self._axes: dict[str, dict[str, tuple[int, ...]]] = {}  # of columns that cannot be filled

    def __len__(self) -> int:
        return len(self._rounds)

    def clear(self) -> None:
        self._rounds.clear()
        self._axes.clear()

    def take(self, tables: Tables) -> None:
        """Add a round.

        Raises:
            ValueError: a column that only some rounds of the part have and that cannot be filled, or rows of
                other shapes.
        """
        axes = {
            table: {
                name: values.shape[1:]
                for name, values in columns.items()
                if self._columns[table][name].filled is None
            }
            for table, columns in tables.items()
            if len(columns["round"])
        }
        for table, found in axes.items():
            first = self._axes.get(table, found)
            for name in {**first, **found}:
                if first.get(name) != found.get(name):
                    what = "has other axes" if name in first and name in found else "is missing"
                    raise ValueError(f"{table}: column {name} {what} in some rounds of a part")
        self._axes = axes | self._axes
        self._rounds.append(tables)

    def tables(self) -> Tables:
        """The tables of the part, of one round without a copy."""
        joined: Tables = {}
        for table, columns in self._columns.items():
            pieces = [tables[table] for tables in self._rounds if table in tables]
            names = [name for name in columns if any(name in piece for piece in pieces)]
            joined[table] = {name: _joined(name, columns[name], pieces) for name in names}
        return {table: columns for table, columns in joined.items() if columns}


def _joined(name: str, column: Column, pieces: Sequence[Table]) -> NDArray[np.generic]:
    # The largest of the smallest types is the smallest for all.
    example = next(piece[name] for piece in pieces if name in piece)
    found = [
        piece[name]
        if name in piece
        else np.full((len(piece["round"]), *example.shape[1:]), column.filled, dtype=example.dtype)
        for piece in pieces
    ]
    return found[0] if len(found) == 1 else np.concatenate(found)
