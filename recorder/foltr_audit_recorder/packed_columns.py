"""Columns in fewer bytes: numbers that take few values are written as codes of a few bits.

A packed column NAME is two arrays in the file of its table: `NAME.type`, an array without rows that has the
column's type and axes, and `NAME.packed`, the bytes (uint8) of all its numbers, row after row:

    column  = a byte s, from 0 to 7; if s > 0, codes of s bits: each number below 2^s - 1 is its own code, and
              2^s - 1 says that the number is among the others; then the bytes of the others (of all numbers
              if s = 0): first the lowest byte of each as one list of bytes, then the second lowest ...
    list    = nothing for no bytes; else a byte b; if b = 8, the bytes as they are; if b is from 1 to 7,
              2^b - 1 bytes, whose codes are 0, 1, 2 ..., the codes of b bits of all bytes, of which 2^b - 1
              says that a byte is among the others, and the list of the others
    codes   = their lowest bits, eight in a byte as `numpy.packbits` makes them, then their second bits ...

Whole numbers and simple rules make the bytes, and no library for compression: every machine writes the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

TYPE, PACKED = ".type", ".packed"
"""What the names of the two arrays of a packed column end with."""

MOST_LISTS = 4
"""How many lists of bytes may lie in each other."""

_AS_THEY_ARE = 8  # in the place of a number of bits
_LEAST = 4096  # bytes of a column below which packing is not tried
_LOOK = 8192  # bytes of a list that tell whether it takes few values
_WORTH = 0.9  # a column stays as it is if packing keeps more than this share of it

Bytes = NDArray[np.uint8]


def pack_columns(columns: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """The arrays of a table's file: columns that packing makes smaller are packed, others stay."""
    stored: dict[str, NDArray[np.generic]] = {}
    for name, values in columns.items():
        packed = None
        if values.nbytes >= _LEAST and values.dtype.kind in "iufb":
            packed = _packed(values.astype(values.dtype.newbyteorder("<"), copy=False))
        if packed is None or packed.size > _WORTH * values.nbytes:
            stored[name] = values
        else:
            stored |= {name + TYPE: np.empty((0, *values.shape[1:]), values.dtype), name + PACKED: packed}
    return stored


def unpack_columns(stored: Mapping[str, NDArray[np.generic]], rows: int) -> dict[str, NDArray[np.generic]]:
    """The columns of a table with so many rows from the arrays of its file, read-only.

    Raises:
        ValueError: bytes that are no packed column of so many rows; it begins with the column's name.
    """
    columns: dict[str, NDArray[np.generic]] = {}
    for name, values in stored.items():
        column = name.removesuffix(PACKED)
        like = stored.get(column + TYPE)
        if name.endswith(TYPE) and name.removesuffix(TYPE) + PACKED in stored:
            continue
        if column == name or like is None:
            columns[name] = values
            continue
        if column in stored:
            raise ValueError(f"column {column} is there twice, packed and as it is")
        if like.ndim < 1 or len(like) or like.dtype.kind not in "iufb" or values.dtype != np.uint8:
            raise ValueError(f"column {column} is packed otherwise than as bytes of a type of numbers")
        try:
            columns[column] = _unpacked(values.reshape(-1).view(np.uint8), like, rows)
        except ValueError as error:
            raise ValueError(f"column {column}: {error}") from None
    return columns


def _packed(values: NDArray[np.generic]) -> Bytes:
    flat = np.ascontiguousarray(values).reshape(-1)
    width = _small_width(flat)
    pieces = [np.array([width], dtype=np.uint8)]
    if width:
        most = (1 << width) - 1
        codes = np.minimum(flat, most).astype(np.uint8)
        pieces += _bits(codes, width)
        flat = flat[codes == most]
    size = flat.dtype.itemsize
    every = flat.view(np.uint8).reshape(-1, size)
    for place in range(size):
        pieces += _list(np.ascontiguousarray(every[:, place]), MOST_LISTS)
    return np.concatenate(pieces)


def _small_width(flat: NDArray[np.generic]) -> int:
    """Bits of a code for small numbers, with which a column of whole numbers is smallest; 0 without codes."""
    size = flat.dtype.itemsize
    if flat.dtype.kind != "u" or size == 1:
        return 0
    counts = np.bincount(
        np.minimum(flat[:: 1 + flat.size // (4 * _LOOK)], 127).astype(np.uint8), minlength=128
    )
    below = np.cumsum(counts) / counts.sum()
    costs = [float(size), *(width / 8 + (1 - below[(1 << width) - 2]) * size for width in range(1, 8))]
    return int(np.argmin(costs))


def _list(values: Bytes, depth: int) -> Iterator[Bytes]:
    if not values.size:
        return
    width, order = _width(values) if depth > 1 else (_AS_THEY_ARE, values)
    yield np.array([width], dtype=np.uint8)
    if width == _AS_THEY_ARE:
        yield values
        return
    most = (1 << width) - 1
    table = np.full(256, most, dtype=np.uint8)
    table[order[:most]] = np.arange(most)
    codes = table.take(values)
    yield order[:most]
    yield from _bits(codes, width)
    yield from _list(values[codes == most], depth - 1)


def _width(values: Bytes) -> tuple[int, Bytes]:
    """Bits of a code with which a list is smallest, and all bytes, the most frequent first."""
    step = 1 + values.size // _LOOK
    if step > 1 and _cheapest(values[::step])[0] == _AS_THEY_ARE:
        return _AS_THEY_ARE, values  # as random bytes are, which nobody need count
    return _cheapest(values)


def _cheapest(values: Bytes) -> tuple[int, Bytes]:
    counts = np.bincount(values, minlength=256)
    order = np.argsort(-counts, kind="stable").astype(np.uint8)
    below = np.cumsum(counts[order])
    # Others may be packed again; that they stay as they are is what is counted on.
    costs = {_AS_THEY_ARE: values.size}
    for width in range(1, 8):
        most = (1 << width) - 1
        costs[width] = most + width * (values.size + 7 >> 3) + values.size - int(below[most - 1])
    return min(costs, key=lambda width: costs[width]), order


def _bits(codes: Bytes, width: int) -> Iterator[Bytes]:
    for bit in range(width):
        yield np.packbits(codes & np.uint8(1 << bit))


def _unpacked(packed: Bytes, like: NDArray[np.generic], rows: int) -> NDArray[np.generic]:
    kind = like.dtype.newbyteorder("<")
    count = rows * math.prod(like.shape[1:])
    reader = _PackedBytes(packed)
    width = reader.byte()
    if width > 7 or (width and kind.kind != "u"):
        raise ValueError(f"codes of {width} bits; expected at most 7, and of unsigned numbers only")
    codes = reader.codes(count, width) if width else None
    others = count if codes is None else int(np.count_nonzero(codes == (1 << width) - 1))
    reader.expect(others * kind.itemsize)
    every = np.empty((others, kind.itemsize), dtype=np.uint8)
    for place in range(kind.itemsize):
        every[:, place] = reader.list(others, MOST_LISTS)
    reader.end()
    flat = every.reshape(-1).view(kind)
    if kind.kind == "b" and every.size and int(every.max()) > 1:
        raise ValueError("a truth value that is neither 0 nor 1")
    if codes is not None:
        whole = codes.astype(kind)
        whole[codes == (1 << width) - 1] = flat
        flat = whole
    flat = flat.reshape((rows, *like.shape[1:]))
    flat.flags.writeable = False
    return flat


class _PackedBytes:
    """The bytes of a packed column, taken from the front."""

    def __init__(self, packed: Bytes) -> None:
        self._packed = packed
        self._at = 0

    def take(self, count: int) -> Bytes:
        """The next bytes.

        Raises:
            ValueError: there are fewer.
        """
        if count > self._packed.size - self._at:
            raise ValueError(f"{self._packed.size} packed bytes, which are too few")
        self._at += count
        return self._packed[self._at - count : self._at]

    def byte(self) -> int:
        """The next byte, as a number."""
        return int(self.take(1)[0])

    def expect(self, count: int) -> None:
        """Refuse so many bytes of a column before memory is taken: an eighth of them must be there.

        Raises:
            ValueError: there are fewer.
        """
        if count > 8 * (self._packed.size - self._at):
            raise ValueError(f"{self._packed.size} packed bytes, which are too few")

    def codes(self, count: int, width: int) -> Bytes:
        """The codes of some numbers."""
        planes = self.take(width * (count + 7 >> 3)).reshape(width, -1)
        codes = np.zeros(count, dtype=np.uint8)
        for bit in range(width):
            codes |= np.unpackbits(planes[bit], count=count) << np.uint8(bit)
        return codes

    def list(self, count: int, depth: int) -> Bytes:
        """A list of bytes.

        Raises:
            ValueError: another number of bits than 1 to 8, or lists in too many others.
        """
        if not count:
            return np.empty(0, dtype=np.uint8)
        width = self.byte()
        if width == _AS_THEY_ARE:
            return self.take(count)
        if not 1 <= width < _AS_THEY_ARE or depth <= 1:
            raise ValueError(f"codes of {width} bits, or lists in more than {MOST_LISTS} others")
        most = (1 << width) - 1
        values = np.append(self.take(most), np.uint8(0))
        codes = self.codes(count, width)
        others = codes == most
        found = values.take(codes)
        found[others] = self.list(int(np.count_nonzero(others)), depth - 1)
        return found

    def end(self) -> None:
        """Refuse bytes that are left.

        Raises:
            ValueError: there are some.
        """
        if self._at < self._packed.size:
            raise ValueError(f"{self._packed.size - self._at} packed bytes too many")
