"""Rows of records: pieces that are joined, some messages of a round, and a round in another order.

A simulated cohort is in the order of its clients' ids, from which groups follow. An attack on a client's
identity or properties must not find the answer in the number of a row, so a round is shuffled first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Ints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Record = TypeVar("Record", bound=DataclassInstance)

RowIndex = Ints | Bools | slice | tuple[Ints, Ints | int]
"""Some rows of an array, by their numbers, by a mask or by their places on two axes."""

SUMMED = {"summed": True}
"""Metadata of a field that counts something: the counts of several pieces are added."""


def find_refusals(pieces: Iterable[object]) -> dict[str, str]:
    """Why attacks could not run in any of several pieces of evidence, by label."""
    return {label: why for piece in pieces for label, why in getattr(piece, "refused", {}).items()}


def join_pieces(pieces: Sequence[Record], refused: Mapping[str, str] | None = None) -> Record:
    """Several pieces of evidence, or of what one attack answered, as one record, in their order.

    Arrays are concatenated, `SUMMED` counts are added, and other values are those of the first piece. Of
    values by label, those remain that every piece has and whose attack no piece refused, as the pieces say or
    `refused` does.
    """
    refused = find_refusals(pieces) if refused is None else refused
    whole: dict[str, object] = {}
    for each in fields(pieces[0]):
        values = [getattr(piece, each.name) for piece in pieces]
        whole[each.name] = sum(values) if "summed" in each.metadata else join(values, refused)
    if "refused" in whole:
        whole["refused"] = dict(refused)
    return type(pieces[0])(**whole)


def join(values: Sequence[object], refused: Mapping[str, str]) -> object:
    """Arrays, records of arrays, or tables of these by label as one; without the refused labels."""
    first = values[0]
    tables = [value for value in values if isinstance(value, dict)]
    if len(tables) == len(values):
        labels = [name for name in tables[0] if name not in refused and all(name in each for each in tables)]
        return {label: join([each[label] for each in tables], refused) for label in labels}
    if any(value is None for value in values):
        return None
    if isinstance(first, np.ndarray):
        return np.concatenate(cast("Sequence[NDArray[np.generic]]", values))
    if not hasattr(first, "__dataclass_fields__"):
        return first
    return join_pieces(cast("Sequence[DataclassInstance]", values), refused)


def with_rows(record: Record, *taken: tuple[Iterable[str], RowIndex], **others: object) -> Record:
    """A copy of a record with only some rows of the named arrays, and new values of other fields.

    Arrays that it lacks stay None.
    """
    values = dict(others)
    for names, rows in taken:
        for name in names:
            array = getattr(record, name)
            values[name] = None if array is None else array[rows]
    return replace(record, **values)


_PER_MESSAGE = ("survivors", "counts", "messages", "seeds", "senders", "sizes", "sent_at")
_PER_LIST = ("step", "part", "query", "shown", "features", "n_candidates")


def with_messages(record: RoundRecord, chosen: Ints) -> tuple[RoundRecord, Ints]:
    """The round whose i-th message is message chosen[i] of a round, and the numbers of its lists there."""
    place = np.full(record.n_messages, -1)
    place[chosen] = np.arange(chosen.size)
    slot = place[record.slot]
    # The stable sort keeps the steps of a message in order.
    rows = slot.argsort(kind="stable")
    rows = rows[slot[rows] >= 0]
    candidates = record.candidates
    if candidates is not None and record.n_candidates is not None:
        ends = np.cumsum(record.n_candidates)
        spans = [np.arange(ends[row] - record.n_candidates[row], ends[row]) for row in rows]
        candidates = candidates[np.concatenate(spans) if spans else np.empty(0, dtype=np.int64)]
    made = with_rows(
        record,
        (_PER_MESSAGE, chosen),
        (_PER_LIST, rows),
        slot=slot[rows],
        buffers=tuple(buffer[chosen] for buffer in record.buffers),
        clear={name: values[chosen] for name, values in record.clear.items()},
        candidates=candidates,
    )
    return made, rows


def shuffled(record: RoundRecord, truth: RoundTruth, streams: Streams) -> tuple[RoundRecord, RoundTruth]:
    """The same round with its M messages in an order drawn for its number; rows of both still match."""
    order = streams.generator(f"judge/order/{record.round}").permutation(record.n_messages)
    return reordered(record, truth, order)


def reordered(record: RoundRecord, truth: RoundTruth, order: Ints) -> tuple[RoundRecord, RoundTruth]:
    """The round whose i-th message is message order[i] of a round; its interactions go with it."""
    moved, rows = with_messages(record, order)
    lists = ("clicks", "intents", "known")
    return moved, with_rows(
        truth, (("clients", "updates"), order), ((*lists, "clipped") if truth.knows_clips else lists, rows)
    )
