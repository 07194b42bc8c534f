"""The arrays of a message: names, shapes and types, and the vector of parameters that they make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import Payload
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.utils.reading import is_whole

FLOATS = ("float16", "bfloat16", "float32", "float64")
"""Types of arrays whose numbers are parameters."""

WHOLE = tuple(f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64))
BUFFERS = (*WHOLE, "bool")
"""Types of arrays that are stored and not attacked."""

WORDS = "uint64"
"""Type of masked messages."""

MOST_ARRAYS = 10_000
_MOST_NUMBERS = 2**31 - 1
_MOST_AXES = 7  # an array in a file has eight, one of them the messages


@dataclass(frozen=True)
class LayoutArray:
    """One array of a message.

    Attributes:
        name: its name, e.g. `layers.0.weight`.
        shape: its axes.
        dtype: a type of `FLOATS` or `BUFFERS`; bfloat16 is stored as uint16.

    Raises:
        TraceError: another type, or axes that are no sizes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        if not isinstance(self.name, str) or self.dtype not in FLOATS + BUFFERS:
            known = ", ".join(FLOATS + BUFFERS)
            raise TraceError(
                f"trace: header: layout: {self.name!r:.60} is {self.dtype!r:.60}, expected {known}"
            )
        sizes = len(self.shape) <= _MOST_AXES and all(is_whole(n, 0, _MOST_NUMBERS) for n in self.shape)
        if not sizes or self.size > _MOST_NUMBERS:
            raise TraceError(
                f"trace: header: layout: {self.name!r:.60} has shape {list(self.shape)!r:.60}, expected at "
                f"most {_MOST_AXES} axes and {_MOST_NUMBERS} numbers"
            )

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)

    @property
    def stored(self) -> np.dtype[np.generic]:
        """Type in which it is stored."""
        return np.dtype("uint16" if self.dtype == "bfloat16" else self.dtype)

    @property
    def is_buffer(self) -> bool:
        """Whether it holds no parameters."""
        return self.dtype not in FLOATS


def layout_from(entries: object) -> tuple[LayoutArray, ...]:
    """The layout from the field `layout` of a header.

    Raises:
        TraceError: no list of tables with a name, a shape and a dtype, two arrays of one name, or too many.
    """
    expected = "a list of tables {name, shape, dtype} with different names"
    if not isinstance(entries, list | tuple) or len(entries) > MOST_ARRAYS:
        raise TraceError(f"trace: header: layout is {entries!r:.60}, expected {expected}")
    made = []
    for entry in entries:
        good = isinstance(entry, Mapping) and set(entry) == {"name", "shape", "dtype"}
        if not good or not isinstance(entry["shape"], list):
            raise TraceError(f"trace: header: layout has {entry!r:.60}, expected {expected}")
        made.append(LayoutArray(entry["name"], tuple(entry["shape"]), entry["dtype"]))
    if len({array.name for array in made}) < len(made):
        raise TraceError(f"trace: header: layout has a name twice, expected {expected}")
    return tuple(made)


def joined(layout: Sequence[LayoutArray], arrays: Sequence[NDArray[np.generic]], dtype: str) -> Payload:
    """The messages as records hold them, (M, P): the floating arrays, one after the other.

    Args:
        layout: of the messages.
        arrays: one for each of the layout, (M, *shape).
        dtype: type of the result, which holds every value exactly.
    """
    pieces = [
        _widened(array, values).reshape(len(values), array.size)
        for array, values in zip(layout, arrays, strict=True)
        if not array.is_buffer or dtype == WORDS
    ]
    if len(pieces) == 1:
        return pieces[0].astype(dtype, copy=False)
    return np.concatenate(pieces, axis=1, dtype=dtype)


def _widened(array: LayoutArray, values: NDArray[np.generic]) -> NDArray[np.generic]:
    if array.dtype != "bfloat16":
        return values
    return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)


def split(
    layout: Sequence[LayoutArray], messages: Payload, buffers: Sequence[NDArray[np.generic]], where: str
) -> list[NDArray[np.generic]]:
    """The arrays of messages (M, P), each (M, *shape) in the type in which it is stored.

    Raises:
        UsageError: numbers that the type of their array does not hold, or other buffers than in the layout.
    """
    rows, found, at, left = len(messages), [], 0, list(buffers)
    for array in layout:
        if array.is_buffer and messages.dtype != np.uint64:
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
    if not np.array_equal(_widened(array, stored), numbers, equal_nan=True):
        raise UsageError(f"{where}: messages hold numbers in {array.name!r:.60} that {array.dtype} does not")
    return stored
