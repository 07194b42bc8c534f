"""Tables as files of NumPy arrays: the same columns give the same bytes on every machine."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from .atomic_files import Piece

# A packed column NAME is three arrays in the file of its table: `NAME.type`, an array without rows that has
# the column's type and axes, `NAME.blocks`, the number of rows in each block, which may be left out if there
# is one block, and `NAME.packed`, the bytes (uint8) of block after block:
#
#     block   = a byte s, from 0 to 7; if s > 0, codes of s bits: each number below 2^s - 1 is its own code,
#               and 2^s - 1 says that the number is among the others; then the others, less 2^s - 1, as a
#               block of their own; if s = 0, the lowest byte of each number as one list, the second lowest
#               as one ...
#     list    = nothing for no bytes; else a byte b; if b = 8, the bytes as they are; if b is from 1 to 7,
#               2^b - 1 bytes, whose codes are 0, 1, 2 ..., the codes of b bits of all bytes, of which 2^b - 1
#               says that a byte is among the others, and the list of the others
#     codes   = their lowest bits, eight in a byte as `numpy.packbits` makes them, then their second bits ...
#
# Whole numbers and simple rules make the bytes, and no library for compression: every machine writes the
# same.

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
        if self._at < self._packed.size:
            raise ValueError(f"{self._packed.size - self._at} packed bytes too many")


Columns = Mapping[str, NDArray[np.generic]]
"""A table: arrays of one length by name; a row is one index of the first axis."""

_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that the format knows, so that no file shows when it was made


class _PieceFile:
    """As much of a file as `zipfile` needs: what is written at a place takes the place of what was there."""

    def __init__(self) -> None:
        self._at = 0
        self._pieces: dict[int, Piece] = {}

    def write(self, piece: Piece) -> int:
        self._pieces[self._at] = piece
        self._at += len(piece)
        return len(piece)

    def seek(self, at: int) -> int:
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        pass

    @property
    def pieces(self) -> list[Piece]:
        return list(self._pieces.values())


def table_pieces(columns: Columns, packed: Mapping[str, PackedColumn] = MappingProxyType({})) -> list[Piece]:
    """The `.npz` file of a table, as `numpy.savez` writes it, with columns packed that are then smaller.

    `packed`: those of the same table that are packed already.

    Returns:
        The pieces of the file, which follow each other. Large ones are the memory of the columns.

    Raises:
        ValueError: columns of different lengths, or one of Python objects.
    """
    lengths = {name: len(values) for name, values in columns.items()}
    lengths |= {name: column.rows for name, column in packed.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of different lengths: {lengths}")
    stored = {name: [values] for name, values in pack_columns(columns).items()}
    for name, column in packed.items():
        stored |= column.arrays(name)
    file = _PieceFile()
    with zipfile.ZipFile(cast("IO[bytes]", file), "w", zipfile.ZIP_STORED) as archive:
        for name, pieces in stored.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _DATE)
            entry.create_system, entry.external_attr = 3, 0o600 << 16  # Python's own differ by system
            arrays = [
                np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
                for values in pieces
            ]
            if arrays[0].dtype.hasobject:
                raise ValueError(f"column {name} holds objects, expected numbers, truth values or text")
            large = sum(array.nbytes for array in arrays) >= 1 << 31
            with archive.open(entry, "w", force_zip64=large) as member:
                # As `numpy.lib.format.write_array`, which copies every array.
                header = np.lib.format.header_data_from_array_1_0(arrays[0])
                header["shape"] = (sum(map(len, arrays)), *arrays[0].shape[1:])
                np.lib.format.write_array_header_1_0(member, header)
                for array in arrays:
                    member.write(array.reshape(-1).view(np.uint8).data)
    return file.pieces


def row_count(columns: Columns) -> int:
    """Number of rows of a table; 0 without columns."""
    return next((len(values) for values in columns.values()), 0)


def smallest_places(values: NDArray[np.generic]) -> NDArray[np.integer]:
    """Positions from 0 and -1 in the smallest unsigned type, whose largest number stands for -1; a copy.

    Positions below -1 stay signed, so that readers refuse them.
    """
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if least < -1 or values.dtype.kind not in "iu":
        return smallest(values)
    kind = next(kind for kind in ("u1", "u2", "u4", "u8") if most < np.iinfo(kind).max)
    return values.astype(kind)  # -1 becomes the largest number


def smallest(values: NDArray[np.generic]) -> NDArray[np.integer]:
    """Whole numbers in the smallest type that holds them, unsigned where none is negative; a copy.

    Raises:
        ValueError: values that are no whole numbers, or that fit no type of 64 bits.
    """
    if values.dtype.kind not in "iu":
        raise ValueError(f"expected whole numbers, got values of type {values.dtype}")
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    # A signed type that holds -n holds n - 1.
    kind = np.min_scalar_type(most if least >= 0 else min(least, -1 - most))
    if kind.kind == "O":
        raise ValueError(f"whole numbers from {least} to {most} fit no type of 64 bits")
    return values.astype(kind)


# Most systems record the lists of every message, one after the other. What their rows are about then follows
# from the messages, and rows of truth are about the same messages and lists. Whoever writes a part leaves
# such columns out if they hold exactly what follows; whoever reads it puts them back.

_MESSAGES, _LISTS = "observed/messages", "observed/interactions"
_KEYS = {_MESSAGES: ("round", "slot"), _LISTS: ("round", "slot", "step")}

LEFT_OUT: Mapping[str, tuple[tuple[str, ...], ...]] = {
    _MESSAGES: (("slot",),),
    _LISTS: (_KEYS[_LISTS], ("part",)),
    "truth/messages": (_KEYS[_MESSAGES],),
    "truth/clicks": (_KEYS[_LISTS],),
}
"""Columns that a table may lack, those of a group together; each table follows those that it depends on."""

_SOURCE = {_LISTS: _MESSAGES, "truth/messages": _MESSAGES, "truth/clicks": _LISTS}
"""The table that the columns of another one follow from."""


def without_implied(tables: Mapping[str, Columns]) -> dict[str, Columns]:
    """The tables of a part without the columns that follow from others; no array is copied."""
    kept = dict(tables)
    for table, groups in LEFT_OUT.items():
        for group in groups if table in tables else ():
            try:
                implied = _implied(table, group, tables)
            except ValueError:
                continue
            if all(np.array_equal(tables[table][name], implied[name]) for name in group):
                kept[table] = {name: values for name, values in kept[table].items() if name not in group}
    return kept


def with_implied(tables: Mapping[str, Columns]) -> dict[str, Columns]:
    """The tables of a part with the columns that were left out.

    A table that lacks some is left out itself where the one is not there that they follow from.

    Raises:
        ValueError: rows that other tables do not have, or a part of the columns that are left out together.
    """
    whole = dict(tables)
    for table, group in list(_missing(tables)):
        if _SOURCE.get(table, table) in whole:
            whole[table] = {**_implied(table, group, whole), **whole[table]}
        else:
            whole.pop(table, None)
    return whole


def sources_of(tables: Mapping[str, Columns]) -> set[str]:
    """The tables that the columns follow from which these lack.

    Raises:
        ValueError: a part of the columns that are left out together.
    """
    return {_SOURCE[table] for table, _ in _missing(tables) if table in _SOURCE}


def _missing(tables: Mapping[str, Columns]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for table, groups in LEFT_OUT.items():
        for group in groups if table in tables else ():
            lacking = [name for name in group if name not in tables[table]]
            if lacking and len(lacking) < len(group):
                raise ValueError(
                    f"{table}: column {lacking[0]} is missing, but not all of {', '.join(group)}"
                )
            if lacking:
                yield table, group


def _implied(
    table: str, group: tuple[str, ...], tables: Mapping[str, Columns]
) -> dict[str, NDArray[np.generic]]:
    """What a group of columns holds that is left out."""
    if group == ("part",):
        return {"part": np.zeros(row_count(tables[table]), dtype=np.uint8)}
    if table == _MESSAGES:
        return {"slot": _places(tables[table]["round"])}
    if table == _LISTS:
        return _lists_of(tables[_MESSAGES], row_count(tables[table]))
    source = _SOURCE[table]
    if row_count(tables[table]) != row_count(tables[source]):
        raise ValueError(f"{table}: rows differ from those of {source}")
    return {name: tables[source][name] for name in group}


def _places(keys: NDArray[np.generic]) -> NDArray[np.int64]:
    """Number of each row among those of its key, whose rows follow each other."""
    begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: keys.size])
    lengths = np.diff(np.append(begins, keys.size))
    return np.arange(keys.size) - np.repeat(begins, lengths)


def _lists_of(messages: Columns, rows: int) -> dict[str, NDArray[np.generic]]:
    """Round, slot and step of as many lists as each message counts, one after the other."""
    counts = messages["count"]
    # Before they become int64, which a count of 2^63 would leave.
    fits = not counts.size or (
        counts.dtype.kind in "iu" and int(counts.min()) >= 0 and int(counts.max()) <= rows
    )
    times = counts.astype(np.int64) if fits else np.zeros(counts.size, dtype=np.int64)
    if not fits or int(times.sum()) != rows:
        raise ValueError(
            f"{_LISTS}: {rows} rows without round, slot and step, expected as many as the messages count"
        )
    first = np.cumsum(times) - times
    return {
        **{name: np.repeat(messages[name], times) for name in ("round", "slot")},
        "step": np.arange(rows) - np.repeat(first, times),
    }
