"""Messages as what differs from the model that was sent, and true updates as what differs from the messages.

Nobody who shares no coordinate with its queries moves it, and where nothing was clipped and little noise came
to a number, a client's update is its message minus the model, but for rounding. So a part may hold

    from-model-0   in the place of the array `array-0` of messages that are models: the steps (`Steps`)
                   from the model's numbers, rounded to the array's format
    scale          in the place of true updates: by what each message is divided first, since a clip scales
                   models or updates; else 1
    correction     the steps from the updates that the messages then tell to the true ones
    check          CRC-32 of the true updates of a round, at its first message (else 0), so that no others are
                   ever read

What is told is one division and one subtraction in float64, rounded once: every processor gets the same. No
random number and no seed is needed, and the observed tables hold nothing of the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import Payload
from foltr_audit.recorder.array_layout import FLOATING
from foltr_audit.recorder.round_tables import Table, Tables
from foltr_audit.recorder.table_files import LEAST_BYTES, Columns, PackedColumn, pack_block, row_count
from foltr_audit.trace.header import TraceHeader, joined
from foltr_audit.trace.parts import EVERY
from foltr_audit.utils.arrays import Floats

_ROUNDS, _MESSAGES, _TRUTH = "observed/rounds", "observed/messages", "truth/messages"
_CORRECTED = ("scale", "correction", "check")
_ROUNDING = {name: float(np.finfo(name).eps) for name in ("float32", "float64")}
_TRIED = 1 << 14  # numbers of the first messages that tell whether their differences are smaller

Steps = NDArray[np.unsignedinteger]
"""0, -1, 1, -2, 2 ... numbers upwards as 0, 1, 2, 3, 4 ..., of uint32 for float32 and uint64 for float64.

So many floating-point numbers lie between two: exact, whatever they are. `kernels.messages` counts them.
"""


class ModelArray(NamedTuple):
    """An array of a message, float32 or float64, that is a span of a model's parameters."""

    name: str
    kind: str
    shape: tuple[int, ...]
    span: slice

    @property
    def differs(self) -> str:
        """Name of the column that may stand for it."""
        return self.name.replace("array", "from-model")


def model_arrays(header: TraceHeader) -> list[ModelArray]:
    """The arrays of messages that may be written as what differs from the model."""
    found, at = [], 0
    for place, array in enumerate(header.arrays if header.kind == "model" else ()):
        if array.dtype in ("float32", "float64"):
            span = slice(at, at + array.size)
            found.append(ModelArray(f"array-{place}", array.dtype, array.shape, span))
        at += array.size * (array.dtype in FLOATING)
    return found


def sources_of_differences(tables: Mapping[str, Columns]) -> set[str]:
    """The tables that these differ from."""
    found = {_ROUNDS} if any(name.startswith("from-model") for name in tables.get(_MESSAGES, ())) else set()
    return found | {_ROUNDS, _MESSAGES} if "correction" in tables.get(_TRUTH, ()) else found


class PartDifferences:
    """Takes the large arrays of the rounds of a part: packed, as differences where these are smaller.

    The first round of the part that has messages tells, for each array. Rounds of few bytes stay as they are.
    """

    def __init__(self, header: TraceHeader) -> None:
        self._header = header
        self._models = {array.name: array for array in model_arrays(header)}
        self._names: dict[tuple[str, str], str] = {}  # what stands for a column of a table; "" if it stays
        self.packed: dict[str, dict[str, PackedColumn]] = {_MESSAGES: {}, _TRUTH: {}}

    def take(self, tables: Tables) -> Tables:
        """The tables of a round without the arrays that were taken, which the part has `packed`.

        No array of messages or updates is kept that the caller has given, and may change afterwards.
        """
        messages, truth = tables[_MESSAGES], tables.get(_TRUTH, {})
        if not row_count(messages):
            return tables
        model = np.asarray(tables[_ROUNDS]["parameters"][0], dtype=np.float64)
        rest = dict(messages)
        for place, array in enumerate(self._header.arrays):
            name = f"array-{place}"
            if array.dtype in FLOATING:
                self._take_array(name, rest, model)
            else:
                rest[name] = rest[name].copy()
        if truth and self._header.kind != "masked":
            truth = self._without_update(dict(truth), messages, model)
        return {**tables, _MESSAGES: rest, **({_TRUTH: truth} if truth else {})}

    def without_taken(self, tables: Tables) -> Tables:
        """The tables of a round that came before an array was first taken, which has no rows of it."""
        return {
            table: {name: values for name, values in columns.items() if not self._names.get((table, name))}
            for table, columns in tables.items()
        }

    def _take_array(self, name: str, messages: Table, model: Floats) -> None:
        from foltr_audit.kernels.messages import steps_between

        array, values = self._models.get(name), messages[name]
        if array is None or self._is_whole(_MESSAGES, name, values):
            self._take(_MESSAGES, name, messages)
        else:
            self._take(_MESSAGES, name, messages, array.differs, steps_between(_start(model, array), values))

    def _without_update(self, truth: Table, messages: Table, model: Floats) -> Table:
        from foltr_audit.kernels.messages import corrections

        if "update" not in truth:  # in a part that begins with unknown ones all stay, else these are NaN
            if not self._names.setdefault((_TRUTH, "update"), ""):
                return truth
            shape = (row_count(truth), self._header.update_width)
            truth["update"] = np.full(shape, np.nan, dtype=self._header.update_format)
        updates = truth["update"]
        if self._is_whole(_TRUTH, "update", updates):
            self._take(_TRUTH, "update", truth)
            return truth
        received, base = _messages(self._header, messages), _base(self._header, model)
        scale, steps = corrections(updates, received, base)
        if self._take(_TRUTH, "update", truth, "correction", steps) == "correction":
            truth |= {"scale": scale, "check": _check(updates)}
        return truth

    def _is_whole(self, table: str, name: str, values: NDArray[np.generic]) -> bool:
        """Whether a column is written as it is, whatever its differences are."""
        taken = self._names.get((table, name))
        return taken in ("", name) or (taken is None and values.nbytes < LEAST_BYTES)

    def _take(
        self, table: str, name: str, columns: Table, other: str = "", differences: Steps | None = None
    ) -> str:
        """Take a column, or its differences under the name `other`, as the part began; which was taken."""
        values, taken = columns[name], self._names.get((table, name))
        if taken is None and values.nbytes < LEAST_BYTES:
            taken = self._names[table, name] = ""
        if taken == "":
            columns[name] = values.copy()
            return taken
        del columns[name]
        given = {name: values} if differences is None else {name: values, other: differences}
        if taken is None:
            some = max(1, _TRIED * len(values) // values.size)
            taken = min(given, key=lambda each: pack_block(given[each][:some]).size)
            self._names[table, name] = taken
        kept, packed = given[taken].copy() if taken == name else given[taken], self.packed[table]
        if taken in packed:
            packed[taken].add(kept)
        else:
            packed[taken] = PackedColumn(kept)
        return taken


def from_differences(header: TraceHeader, tables: dict[str, Columns]) -> dict[str, Columns]:
    """The tables of a part with messages and true updates as such.

    A table is left out where one is not there that it differs from.

    Raises:
        ValueError: columns that are missing or do not go together, or corrections of other messages.
    """
    whole = dict(tables)
    if _MESSAGES in tables:
        messages = _with_arrays(header, tables)
        if messages is None:
            del whole[_MESSAGES]
        else:
            whole[_MESSAGES] = messages
    there = [name for name in _CORRECTED if name in tables.get(_TRUTH, ())]
    if there:
        if len(there) < len(_CORRECTED) or "update" in tables[_TRUTH] or header.kind == "masked":
            expected = f"either update, or all of {', '.join(_CORRECTED)}"
            raise ValueError(f"{_TRUTH}: columns {', '.join(there)} do not go together; expected {expected}")
        if _ROUNDS in whole and _MESSAGES in whole:
            whole[_TRUTH] = _with_updates(header, whole)
        else:
            del whole[_TRUTH]
    return whole


def _with_arrays(header: TraceHeader, tables: Mapping[str, Columns]) -> Columns | None:
    """The table of messages with all of its arrays; None if it differs from what is not there."""
    columns = dict(tables[_MESSAGES])
    for array in model_arrays(header):
        if (array.name in columns) == (array.differs in columns):
            raise ValueError(f"{_MESSAGES}: expected one of the columns {array.name} and {array.differs}")
        if array.differs not in columns:
            continue
        if _ROUNDS not in tables:
            return None
        steps = columns.pop(array.differs)
        values = np.empty(steps.shape, dtype=array.kind)
        for each in _rounds(tables):
            values[each.rows] = after_steps(_start(each.model, array), steps[each.rows])
        values.flags.writeable = False
        columns[array.name] = values
    return columns


def _start(model: Floats, array: ModelArray) -> NDArray[np.generic]:
    """The numbers of a model (P,) in the shape and format of an array of messages."""
    return rounded(model[array.span], array.kind).reshape(array.shape)


class _MessageRound(NamedTuple):
    """The rows of the messages of a round, and the model that was sent (P,)."""

    rows: slice
    model: Floats


def _rounds(tables: Mapping[str, Columns]) -> Iterator[_MessageRound]:
    """The rounds of a part that have messages."""
    rounds, number = tables[_ROUNDS], tables[_MESSAGES]["round"]
    edges = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1], [True]])).tolist()
    for begin, end in pairwise(edges if number.size else []):
        place = np.flatnonzero(rounds["round"] == number[begin])
        if not place.size:
            raise ValueError(f"{_MESSAGES}: messages of round {number[begin]}, which {_ROUNDS} lacks")
        yield _MessageRound(slice(begin, end), np.asarray(rounds["parameters"][place[0]], dtype=np.float64))


def _base(header: TraceHeader, model: Floats) -> Floats:
    """What messages are less an update, (P,): the model, or nothing."""
    return model if header.kind == "model" else np.zeros(header.update_width)


def _messages(header: TraceHeader, columns: Columns, rows: slice = EVERY) -> Payload:
    arrays = [columns[f"array-{place}"][rows] for place in range(len(header.arrays))]
    return joined(header.arrays, arrays, header.message_format)


def _with_updates(header: TraceHeader, tables: Mapping[str, Columns]) -> Columns:
    truth, messages = tables[_TRUTH], tables[_MESSAGES]
    if row_count(truth) != row_count(messages):
        raise ValueError(f"{_TRUTH}: rows differ from those of {_MESSAGES}")
    updates = np.empty((row_count(truth), header.update_width), dtype=header.update_format)
    for each in _rounds(tables):
        scale, steps, check = (truth[name][each.rows] for name in _CORRECTED)
        told = _told(_messages(header, messages, each.rows), _base(header, each.model), scale)
        updates[each.rows] = found = after_steps(told, steps)
        if not np.array_equal(_check(found), check):
            number = messages["round"][each.rows.start]
            raise ValueError(f"{_TRUTH}: updates of round {number} are not those that were written")
    updates.flags.writeable = False
    return {**{name: values for name, values in truth.items() if name not in _CORRECTED}, "update": updates}


def _told(messages: Payload, base: Floats, scale: NDArray[np.generic]) -> NDArray[np.generic]:
    """The updates (M, P) that messages of a scale (M,) tell, in the type of the scale."""
    with np.errstate(all="ignore"):
        scaled = messages if (scale == 1).all() else messages / scale.astype(np.float64)[:, np.newaxis]
        found = scaled - base
        # What is left of a model that did not move is rounding.
        still = np.abs(found) <= _ROUNDING[scale.dtype.name] * np.abs(base)
    np.copyto(found, 0.0, where=still)
    return rounded(found, scale.dtype.name)


def _check(updates: NDArray[np.generic]) -> NDArray[np.uint32]:
    found = np.zeros(len(updates), dtype=np.uint32)
    found[:1] = crc32(np.ascontiguousarray(updates, dtype=updates.dtype.newbyteorder("<")).data)
    return found


def step_type(kind: str) -> str:
    """Type of the steps between numbers of a type."""
    return f"uint{8 * np.dtype(kind).itemsize}"


def after_steps(start: NDArray[np.generic], steps: NDArray[np.generic]) -> NDArray[np.generic]:
    """The numbers that so many steps lead to, in the type of those that they begin at."""
    words: Steps = steps.astype(f"u{start.dtype.itemsize}", copy=False)
    forward = (words >> 1) ^ (~(words & 1) + 1)  # back from 0, 1, 2, 3 ... to 0, -1, 1, -2 ...
    place = _place(start) + forward
    return _place(place.view(start.dtype)).view(start.dtype)


def rounded(numbers: NDArray[np.float64], kind: str) -> NDArray[np.generic]:
    """Numbers in a type, 0 where they are none in it, whose bits differ from processor to processor."""
    with np.errstate(all="ignore"):
        found: NDArray[np.generic] = numbers.astype(kind)
    finite = np.isfinite(found)
    return found if finite.all() else np.where(finite, found, found.dtype.type(0))


def _place(values: NDArray[np.generic]) -> Steps:
    """The bits of numbers, in the order of the numbers modulo 2^32 or 2^64; twice gives the bits back."""
    bits = np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}")
    low = np.iinfo(bits.dtype).max
    return np.asarray((bits ^ ((bits >> (8 * bits.itemsize - 1)) & low)).view(f"u{bits.itemsize}"))
