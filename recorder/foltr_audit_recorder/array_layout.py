"""The arrays of a message: their names, shapes and number formats, which are the same in every message."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

FLOATING = ("float16", "bfloat16", "float32", "float64")
"""Formats of parameters. Arrays of other formats are buffers, such as counters of batches."""

BUFFERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""Formats of buffers."""

ONE_ARRAY = "parameters"
"""Name of the array of a message that is one array."""


@dataclass(frozen=True)
class LayoutArray:
    """One array of every message.

    Attributes:
        name: its name, as in a state dict.
        shape: its shape.
        dtype: its number format, such as `float32`; `bfloat16` is stored as uint16.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def stored(self) -> np.dtype[np.generic]:
        return np.dtype("uint16" if self.dtype == "bfloat16" else self.dtype)

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{list(self.shape)}"


@dataclass(frozen=True, eq=False, slots=True)
class NamedArray:
    """An array with its place in the layout."""

    place: LayoutArray
    values: NDArray[np.generic]

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The numbers of a floating array as float64, which holds all of them exactly, in its shape."""
        return np.asarray(widened(self.values, self.place.dtype), dtype=np.float64)


def named_arrays(arrays: object) -> list[NamedArray]:
    """The arrays of a message or model, in their order.

    Args:
        arrays: one array, a mapping from names to arrays (a state dict), or a sequence of arrays, which get
            the names `0`, `1`... Tensors of PyTorch are copied to the CPU. Named arrays stay as they are.

    Raises:
        ValueError: no array, or one of another format than floating, whole numbers or bool.
    """
    if isinstance(arrays, list) and arrays and isinstance(arrays[0], NamedArray):
        return arrays
    named = [_named(name, value) for name, value in _items(arrays)]
    if not named:
        raise ValueError("a message without arrays; expected one array or more")
    return named


def _items(arrays: object) -> Iterator[tuple[str, object]]:
    if isinstance(arrays, Mapping):
        yield from ((str(name), value) for name, value in arrays.items())
    elif isinstance(arrays, list | tuple) and not all(isinstance(value, int | float) for value in arrays):
        yield from ((str(place), value) for place, value in enumerate(arrays))
    else:
        yield ONE_ARRAY, arrays


def _named(name: str, value: object) -> NamedArray:
    values, dtype = _from_tensor(value) if hasattr(value, "detach") else _from_array(value)
    if dtype not in FLOATING and dtype not in BUFFERS:
        raise ValueError(f"array {name} is {dtype}; expected one of {', '.join((*FLOATING, *BUFFERS))}")
    return NamedArray(LayoutArray(name, values.shape, dtype), values)


def _from_array(value: object) -> tuple[NDArray[np.generic], str]:
    values = np.asarray(value)
    dtype = values.dtype.name
    return (values.view(np.uint16), dtype) if dtype == "bfloat16" else (values, dtype)


def _from_tensor(value: object) -> tuple[NDArray[np.generic], str]:
    """A tensor of PyTorch, which has no NumPy form of bfloat16."""
    tensor = value.detach().cpu()  # type: ignore[attr-defined]
    if not str(tensor.dtype).endswith("bfloat16"):
        return _from_array(tensor.numpy())
    bits = tensor.contiguous().view(sys.modules["torch"].int16)
    return bits.numpy().view(np.uint16), "bfloat16"


class _Header(NamedTuple):
    end: int
    place: LayoutArray
    dtype: np.dtype[np.generic]
    by_columns: bool


_HEADERS: dict[tuple[str, bytes], _Header] = {}
_MOST_HEADERS, _MOST_KEPT = 10_000, 1000


def npy_array(name: str, data: bytes) -> NamedArray:
    """The array of an `.npy` file, read-only. Thousands of messages share a header, which is parsed once.

    Raises:
        ValueError: other bytes, or an array of something else than numbers.
    """
    start = 10 if data[6:7] == b"\x01" else 12
    key = name, data[: start + int.from_bytes(data[8:start], "little")]
    header = _HEADERS.get(key)
    if header is None:
        if len(_HEADERS) >= _MOST_HEADERS:
            _HEADERS.clear()
        header = _parsed(*key)
        if len(name) + len(key[1]) <= _MOST_KEPT:  # a client may choose names of any length
            _HEADERS[key] = header
    values = np.frombuffer(data, header.dtype, math.prod(header.place.shape), header.end)
    order: Literal["F", "C"] = "F" if header.by_columns else "C"
    return NamedArray(header.place, values.reshape(header.place.shape, order=order))


def _parsed(name: str, header: bytes) -> _Header:
    stream = BytesIO(header)
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, by_columns, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"array {name} has version {version} of NumPy's format; expected 1.0 or 2.0")
    place = LayoutArray(name, shape, dtype.name)
    if dtype.hasobject or place.dtype not in (*FLOATING, *BUFFERS):
        raise ValueError(f"array {name} is {dtype}; expected numbers")
    return _Header(len(header), place, dtype, by_columns)


def in_layout(
    arrays: Sequence[NamedArray], layout: Sequence[LayoutArray], who: str
) -> list[NDArray[np.generic]]:
    """The values of arrays in the order of a layout.

    Raises:
        ValueError: an array that is missing, has another name, shape or format, or numbers that the format
            cannot hold; it begins with `who`.
    """
    given = {array.place.name: array for array in arrays}
    ordered = []
    for place in layout:
        found = given.pop(place.name, None)
        if found is None:
            raise ValueError(f"{who} lacks array {place}, which the first message has")
        if found.place == place:
            ordered.append(found.values)
        elif place.dtype in BUFFERS and found.place.shape == place.shape:
            # Means and noise make floating numbers of buffers.
            rounded = np.rint(found.values.astype(np.float64))
            with np.errstate(invalid="ignore"):
                stored = rounded.astype(place.dtype)
            if not np.array_equal(stored, rounded):
                raise ValueError(f"{who} has array {found.place} with numbers that {place} cannot hold")
            ordered.append(stored)
        else:
            raise ValueError(f"{who} has array {found.place}, expected {place} as in the first message")
    if given:
        raise ValueError(f"{who} has array {next(iter(given.values())).place}, which the first message lacks")
    return ordered


def n_parameters(layout: Sequence[LayoutArray]) -> int:
    """Number P of parameters: the numbers of floating arrays."""
    return sum(place.size for place in layout if place.dtype in FLOATING)


def vector(arrays: Sequence[NamedArray]) -> NDArray[np.float64]:
    """The numbers of arrays, one after the other."""
    return np.concatenate([np.empty(0), *(array.numbers.reshape(-1) for array in arrays)])


def widened(values: NDArray[np.generic], dtype: str) -> NDArray[np.generic]:
    """Stored numbers in a type of NumPy: bfloat16 is the upper half of float32, other formats stay."""
    if dtype != "bfloat16":
        return values
    return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
