"""Columns in fewer bytes: numbers that take few values are written as codes of a few bits.

A packed column NAME is three arrays in the file of its table: `NAME.type`, an array without rows that has the
column's type and axes, `NAME.blocks`, the number of rows in each block, which may be left out if there is one
block, and `NAME.packed`, the bytes (uint8) of block after block:

    block   = a byte s, from 0 to 7; if s > 0, codes of s bits: each number below 2^s - 1 is its own code, and
              2^s - 1 says that the number is among the others; then the others, less 2^s - 1, as a block of
              their own; if s = 0, the lowest byte of each number as one list, the second lowest as one ...
    list    = nothing for no bytes; else a byte b; if b = 8, the bytes as they are; if b is from 1 to 7,
              2^b - 1 bytes, whose codes are 0, 1, 2 ..., the codes of b bits of all bytes, of which 2^b - 1
              says that a byte is among the others, and the list of the others
    codes   = their lowest bits, eight in a byte as `numpy.packbits` makes them, then their second bits ...

Whole numbers and simple rules make the bytes, and no library for compression: every machine writes the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPE, BLOCKS, PACKED = ".type", ".blocks", ".packed"
"""What the names of the arrays of a packed column end with."""

MOST_LEVELS = 4
"""How many blocks of others, or lists of others, may lie in each other."""

LEAST_BYTES = 4096
"""Bytes of a column below which packing is not tried."""

_AS_THEY_ARE = 8  # in the place of a number of bits
_LOOK = 1024  # numbers that tell whether small ones are worth codes
_LOOK_LONG = 4096  # bytes of a list that tell which of them are frequent
_RUNS = 8  # so many runs of numbers among these
_CODES = (1 << np.arange(1, 8)) - 1  # bytes that have codes of 1 to 7 bits
_BYTES = np.arange(1, 8) / 8  # of these codes
_MOST_SMALL = 4  # bits of codes for small numbers that are tried
_BLOCK = 1 << 18  # numbers of a block of a column that comes row by row
_WORTH = 0.9  # a column stays as it is if packing keeps more than this share of it

Bytes = NDArray[np.uint8]


class PackedColumn:
    """A column that is packed block by block, as its rows come.

    Attributes:
        like: an array without rows, of the column's type and axes.
    """

    def __init__(self, values: NDArray[np.generic]) -> None:
        """The column with its first rows."""
        self.like = values[:0]
        self._waiting = [values]
        self._rows: list[int] = []
        self._blocks: list[Bytes] = []

    def add(self, values: NDArray[np.generic]) -> None:
        """Take the next rows, which may be packed now or later."""
        self._waiting.append(values)
        if sum(each.size for each in self._waiting) >= _BLOCK:
            self._pack()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self._rows) + sum(len(each) for each in self._waiting)

    def arrays(self, name: str) -> dict[str, list[NDArray[Any]]]:
        """The arrays in the file of a table that stand for the column, each in pieces."""
        self._pack()
        rows = {} if len(self._rows) == 1 else {name + BLOCKS: [np.array(self._rows, dtype=np.uint32)]}
        return {name + TYPE: [self.like], **rows, name + PACKED: [*self._blocks]}

    def _pack(self) -> None:
        if self._waiting:
            values = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
            self._waiting.clear()
            self._rows.append(len(values))
            self._blocks.append(pack_block(values))


def pack_columns(columns: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """The arrays of a table's file: columns that packing makes smaller are packed, others stay."""
    stored: dict[str, NDArray[np.generic]] = {}
    for name, values in columns.items():
        tried = values.nbytes >= LEAST_BYTES and values.dtype.kind in "iufb"
        packed = pack_block(values) if tried else None
        if packed is None or packed.size > _WORTH * values.nbytes:
            stored[name] = values
        else:
            stored |= {name + TYPE: values[:0], name + PACKED: packed}
    return stored


def unpack_columns(stored: Mapping[str, NDArray[np.generic]], rows: int) -> dict[str, NDArray[np.generic]]:
    """The columns of a table with so many rows from the arrays of its file, read-only.

    Raises:
        ValueError: bytes that are no packed column of so many rows; it begins with the column's name.
    """
    packed = [name.removesuffix(PACKED) for name in stored if name.endswith(PACKED)]
    packed = [name for name in packed if name + TYPE in stored]
    parts = {name + end for name in packed for end in (TYPE, BLOCKS, PACKED)}
    columns = {name: values for name, values in stored.items() if name not in parts}
    for name in packed:
        if name in columns:
            raise ValueError(f"column {name} is there twice, packed and as it is")
        like, values = stored[name + TYPE], stored[name + PACKED]
        blocks = stored.get(name + BLOCKS, np.array([rows]))
        if like.ndim < 1 or len(like) or like.dtype.kind not in "iufb" or values.dtype != np.uint8:
            raise ValueError(f"column {name} is packed otherwise than as bytes of a type of numbers")
        try:
            columns[name] = _unpacked(values.reshape(-1).view(np.uint8), like, blocks.reshape(-1), rows)
        except ValueError as error:
            raise ValueError(f"column {name}: {error}") from None
    return columns


def pack_block(values: NDArray[np.generic]) -> Bytes:
    """The bytes of a block of numbers."""
    flat = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).reshape(-1)
    pieces: list[Bytes] = []
    for level in range(MOST_LEVELS):
        width = _small_width(flat) if level < MOST_LEVELS - 1 else 0
        pieces.append(np.array([width], dtype=np.uint8))
        if not width:
            break
        most = flat.dtype.type((1 << width) - 1)
        others = flat >= most
        codes = flat.astype(np.uint8) | np.negative(others.view(np.uint8))  # all bits of others are 1
        pieces += _bits(codes, width)
        flat = flat.compress(others)  # where few are, in a fifth of the time of an index
        flat -= most
    whole = flat.view(f"<u{flat.itemsize}")
    for place in range(flat.itemsize):  # in half the time of copying every so many bytes
        pieces += _list((whole >> whole.dtype.type(8 * place)).astype(np.uint8), MOST_LEVELS)
    return np.concatenate(pieces)


def _small_width(flat: NDArray[np.generic]) -> int:
    """Bits of a code for small numbers, with which a column of whole numbers is smallest; 0 without codes."""
    if flat.dtype.kind != "u" or flat.dtype.itemsize == 1 or not flat.size:
        return 0
    some = _some(flat, _LOOK)
    least, best = _least_size(some), 0
    for width in range(1, _MOST_SMALL + 1):
        size = _least_size(some[some >= (1 << width) - 1]) + width * some.size / 8
        if size >= least:
            break
        least, best = size, width
    return best


def _least_size(flat: NDArray[np.generic]) -> float:
    """About how many bytes numbers take as a list of each of their bytes."""
    size = flat.itemsize
    places = np.arange(0, 256 * size, 256, dtype=np.uint16)
    numbered = flat.view(np.uint8).reshape(-1, size) + places
    counts = np.bincount(numbered.reshape(-1), minlength=256 * size).reshape(size, 256)
    return float(_costs(counts).min(axis=1).sum())


def _list(values: Bytes, depth: int) -> Iterator[Bytes]:
    if not values.size:
        return
    counts = np.bincount(_some(values, _LOOK_LONG), minlength=256)
    width = 1 + int(_costs(counts).argmin()) if depth > 1 else _AS_THEY_ARE
    yield np.array([width], dtype=np.uint8)
    if width == _AS_THEY_ARE:
        yield values
        return
    most = (1 << width) - 1
    frequent = (-counts).argsort(kind="stable")[:most].astype(np.uint8)
    table = np.full(256, most, dtype=np.uint8)
    table[frequent] = np.arange(most)
    codes = _translated(values, table)
    yield frequent
    yield from _bits(codes, width)
    yield from _list(values.compress(codes == most), depth - 1)


def _costs(counts: NDArray[np.intp]) -> NDArray[np.float64]:
    """How many bytes lists take with codes of 1 to 7 bits, and as they are, (..., 8).

    Args:
        counts: how often each byte occurs in each list, (..., 256).
    """
    ordered = -counts
    ordered.sort()
    frequent = -ordered.cumsum(axis=-1)
    total = frequent[..., -1:]
    costs = np.empty((*counts.shape[:-1], 8))
    costs[..., 7:] = total
    # Others may be packed again; that they stay as they are is what is counted on.
    costs[..., :7] = _CODES + total * _BYTES + (total - frequent[..., _CODES - 1])
    return costs


def _some(values: NDArray[Any], count: int) -> NDArray[Any]:
    """About so many numbers that tell of all: some runs, as every n-th could come from a few coordinates."""
    if values.size <= count:
        return values
    runs = values[: values.size // _RUNS * _RUNS].reshape(_RUNS, -1)
    return runs[:, : count // _RUNS].reshape(-1)


def _translated(values: Bytes, table: Bytes) -> Bytes:
    """What a table (256,) has for each byte, read-only; four times as fast as `take`."""
    return np.frombuffer(values.tobytes().translate(table.tobytes()), dtype=np.uint8)


def _bits(codes: Bytes, width: int) -> Iterator[Bytes]:
    for bit in range(width):
        yield np.packbits(codes & np.uint8(1 << bit))


def _unpacked(
    packed: Bytes, like: NDArray[np.generic], blocks: NDArray[np.generic], rows: int
) -> NDArray[np.generic]:
    if blocks.dtype.kind not in "iu" or blocks.size > max(1, packed.size):
        raise ValueError(f"{blocks.size} blocks of type {blocks.dtype}; expected the rows of each")
    lengths = [int(length) for length in blocks]
    if min(lengths, default=0) < 0 or sum(lengths) != rows:
        raise ValueError(f"blocks of {sum(lengths)} rows; expected {rows}")
    reader = _PackedBytes(packed)
    width = math.prod(like.shape[1:])
    found = [reader.block(length * width, like.dtype.newbyteorder("<")) for length in lengths]
    reader.end()
    flat = found[0] if len(found) == 1 else np.concatenate([np.empty(0, like.dtype), *found])
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

    def block(self, count: int, kind: np.dtype[np.generic]) -> NDArray[np.generic]:
        """A block of numbers.

        Raises:
            ValueError: codes of too many bits, or of numbers that have none.
        """
        small: list[tuple[Bytes, int]] = []  # codes of each level, and the one that says that others follow
        while width := self.byte():
            if width > 7 or kind.kind != "u" or len(small) == MOST_LEVELS - 1:
                raise ValueError(f"codes of {width} bits of {kind.name} in {len(small)} blocks of others")
            codes, most = self.codes(count, width), (1 << width) - 1
            small.append((codes, most))
            count = int(np.count_nonzero(codes == most))
        flat = self.numbers(count, kind)
        for codes, most in reversed(small):
            whole = codes.astype(kind)
            whole[np.flatnonzero(codes == most)] += flat
            flat = whole
        return flat

    def numbers(self, count: int, kind: np.dtype[np.generic]) -> NDArray[np.generic]:
        """Numbers as a list of each of their bytes.

        Raises:
            ValueError: there are fewer, or they are no truth values where these are expected.
        """
        # Before memory is taken: a byte stands for eight at most.
        if count * kind.itemsize > 8 * (self._packed.size - self._at):
            raise ValueError(f"{self._packed.size} packed bytes, which are too few")
        every = np.empty((count, kind.itemsize), dtype=np.uint8)
        for place in range(kind.itemsize):
            every[:, place] = self.list(count, MOST_LEVELS)
        if kind.kind == "b" and every.size and int(every.max()) > 1:
            raise ValueError("a truth value that is neither 0 nor 1")
        return every.reshape(-1).view(kind)

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
            raise ValueError(f"codes of {width} bits, or lists in more than {MOST_LEVELS} others")
        most = (1 << width) - 1
        values = np.zeros(256, dtype=np.uint8)
        values[:most] = self.take(most)
        codes = self.codes(count, width)
        others = np.flatnonzero(codes == most)
        found = _translated(codes, values).copy()
        found[others] = self.list(others.size, depth - 1)
        return found

    def end(self) -> None:
        """Refuse bytes that are left.

        Raises:
            ValueError: there are some.
        """
        if self._at < self._packed.size:
            raise ValueError(f"{self._packed.size - self._at} packed bytes too many")
