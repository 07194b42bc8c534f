"""Tables as files of NumPy arrays: the same columns give the same bytes on every machine."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from .atomic_files import Piece
from .packed_columns import PackedColumn, pack_columns

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

    Args:
        columns: the columns.
        packed: those of the same table that are packed already.

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
            entry.create_system, entry.external_attr = (
                3,
                0o600 << 16,
            )  # what Python fills in differs by system
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

    Raises:
        ValueError: as `smallest`.
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
