"""The arrays of a message: names, shapes and types, and the vector of parameters that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import Payload
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.recorder.array_layout import BUFFERS, FLOATING, LayoutArray, widened
from foltr_audit.utils.reading import is_whole

WORDS = "uint64"
"""Format of masked messages."""

MOST_ARRAYS = 10_000
_MOST_NUMBERS = 2**31 - 1
_MOST_AXES = 7  # an array in a file has eight, one of them the messages


def check_layout(layout: Sequence[LayoutArray]) -> None:
    """Refuse arrays that no message has."""
    formats = (*FLOATING, *BUFFERS)
    for array in layout:
        who = f"trace: header: layout: {array.name!r:.60}"
        if not isinstance(array.name, str) or array.dtype not in formats:
            raise TraceError(f"{who} is {array.dtype!r:.60}, expected {', '.join(formats)}")
        sizes = len(array.shape) <= _MOST_AXES and all(is_whole(n, 0, _MOST_NUMBERS) for n in array.shape)
        if not sizes or array.size > _MOST_NUMBERS:
            raise TraceError(
                f"{who} has shape {list(array.shape)!r:.60}, expected at most {_MOST_AXES} axes and "
                f"{_MOST_NUMBERS} numbers"
            )
    if len({array.name for array in layout}) < len(layout):
        raise TraceError("trace: header: layout has a name twice, expected different names")


def layout_from(entries: object) -> tuple[LayoutArray, ...]:
    """The layout from the field `layout` of a header; `check_layout` checks its arrays.

    Raises:
        TraceError: no list of tables with a name, a shape and a dtype, or too many.
    """
    expected = "a list of tables {name, shape, dtype}"
    if not isinstance(entries, list) or len(entries) > MOST_ARRAYS:
        raise TraceError(f"trace: header: layout is {entries!r:.60}, expected {expected}")
    made = []
    for entry in entries:
        good = isinstance(entry, Mapping) and set(entry) == {"name", "shape", "dtype"}
        if not good or not isinstance(entry["shape"], list):
            raise TraceError(f"trace: header: layout has {entry!r:.60}, expected {expected}")
        made.append(LayoutArray(entry["name"], tuple(entry["shape"]), entry["dtype"]))
    return tuple(made)


def joined(layout: Sequence[LayoutArray], arrays: Sequence[NDArray[np.generic]], dtype: str) -> Payload:
    """The messages as records hold them, (M, P): the floating arrays, one after the other.

    Args:
        layout: of the messages.
        arrays: one for each of the layout, (M, *shape).
        dtype: type of the result, which holds every value exactly.
    """
    pieces = [
        widened(values, array.dtype).reshape(len(values), array.size)
        for array, values in zip(layout, arrays, strict=True)
        if array.dtype in FLOATING or dtype == WORDS
    ]
    if len(pieces) == 1:
        return pieces[0].astype(dtype, copy=False)
    return np.concatenate(pieces, axis=1, dtype=dtype)


def split(
    layout: Sequence[LayoutArray], messages: Payload, buffers: Sequence[NDArray[np.generic]], where: str
) -> list[NDArray[np.generic]]:
    """The arrays of messages (M, P), each (M, *shape) in the type in which it is stored.

    Raises:
        UsageError: numbers that the type of their array does not hold, or other buffers than in the layout.
    """
    rows, found, at, left = len(messages), [], 0, list(buffers)
    for array in layout:
        if array.dtype not in FLOATING and messages.dtype != np.uint64:
            if not left:
                raise UsageError(f"{where}: no buffer {array.name!r:.60}, which the layout has")
            values = left.pop(0)
            if values.shape != (rows, *array.shape) or values.dtype != array.stored:
                raise UsageError(
                    f"{where}: buffer {array.name!r:.60} is {values.dtype} of shape {values.shape}, expected "
                    f"{array.dtype} of shape {(rows, *array.shape)}"
                )
            found.append(values)
            continue
        numbers = messages[:, at : at + array.size]
        found.append(_narrowed(array, numbers, where).reshape(rows, *array.shape))
        at += array.size
    if left:
        raise UsageError(f"{where}: {len(left)} buffers more than the layout has")
    return found


def _narrowed(array: LayoutArray, numbers: Payload, where: str) -> NDArray[np.generic]:
    if numbers.dtype == array.stored:
        return numbers
    with np.errstate(over="ignore"):
        if array.dtype == "bfloat16":
            bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32) >> np.uint32(16)
            stored: NDArray[np.generic] = bits.astype(np.uint16)
        else:
            stored = numbers.astype(array.stored)
    if not np.array_equal(widened(stored, array.dtype), numbers, equal_nan=True):
        raise UsageError(f"{where}: messages hold numbers in {array.name!r:.60} that {array.dtype} does not")
    return stored
