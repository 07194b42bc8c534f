"""Parquet files, whose claimed size is checked before a single value is unpacked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from foltr_audit.errors import FoltrAuditError
from foltr_audit.utils.reading.thrift import ThriftReader

if TYPE_CHECKING:
    import polars as pl

MOST_CELLS = 1 << 26
"""Values that any file may hold: half a GiB."""

CELLS_PER_BYTE = 300
"""Values that a file may hold for each of its bytes, where these are more."""

_CELL_BYTES = 8
_MAGIC = b"PAR1"

# Numbers of fields in the structs of `parquet.thrift` (Apache Parquet, format 2.10).
_ROWS, _GROUPS = 3, 4
_COLUMNS, _FACTS = 1, 3
_VALUES, _PACKED, _FIRST_PAGE, _DICTIONARY = 5, 7, 9, 11
_PAGE_UNPACKED, _PAGE_PACKED, _PAGE_KINDS, _PAGE_VALUES = 2, 3, (5, 7, 8), 1


def parquet_schema(data: bytes, where: str, error: type[FoltrAuditError]) -> dict[str, pl.DataType]:
    """Names and types of the columns of a Parquet file.

    Raises:
        FoltrAuditError: of the given kind: it is none.
    """
    import polars as pl

    with _parsing(data, where, error):
        return dict(pl.read_parquet_schema(io.BytesIO(data)))


def parquet_frame(data: bytes, where: str, error: type[FoltrAuditError]) -> pl.DataFrame:
    """The table of a Parquet file.

    Raises:
        FoltrAuditError: of the given kind: it is none, or holds far more values than its size explains.
    """
    import polars as pl

    with _parsing(data, where, error):
        return pl.read_parquet(io.BytesIO(data))


@contextmanager
def _parsing(data: bytes, where: str, error: type[FoltrAuditError]) -> Iterator[None]:
    from polars.exceptions import PanicException, PolarsError

    try:
        _refuse_bomb(data)
        yield
    # A panic of the Rust code inside Polars is a BaseException: it must be named to be caught.
    except (PolarsError, PanicException, OSError, ValueError) as problem:
        raise error(f"{where}: cannot be read as Parquet: {_reason(problem)}") from None


def _refuse_bomb(data: bytes) -> None:
    """Refuse a file that claims more values, or bytes, than a file of its size holds.

    A zip bomb for columns: a few bytes of run lengths may unpack to any number of values.

    Raises:
        ValueError: it does, or its metadata are damaged.
    """
    try:
        cells = _claimed(data)
    except (LookupError, TypeError, AttributeError) as problem:
        raise ValueError("its metadata are damaged") from problem
    most = max(MOST_CELLS, CELLS_PER_BYTE * len(data))
    if not 0 <= cells <= most:
        raise ValueError(f"{cells} values in {len(data)} bytes; expected {most} at most")


def _claimed(data: bytes) -> int:
    """Rows, values, or what pages unpack to, whichever is most, as the file and its pages claim."""
    length = int.from_bytes(data[-8:-4], "little")
    if data[:4] != _MAGIC or data[-4:] != _MAGIC or length > len(data) - 12:
        raise ValueError("other bytes at its ends than a Parquet file has")
    footer = ThriftReader(data[-8 - length : -8]).struct()
    values = unpacked = 0
    for group in footer.get(_GROUPS, []):
        for column in group[_COLUMNS]:
            facts = column[_FACTS]
            of_pages, size = _pages(data, facts)
            # The footer and the pages state the number of values separately, and a forged file may lie in
            # either.
            values += max(of_pages, facts[_VALUES])
            unpacked += size
    return int(max(values, unpacked // _CELL_BYTES, footer[_ROWS]))


def _pages(data: bytes, facts: dict[int, Any]) -> tuple[int, int]:
    """Values in the pages of a column, and the bytes that these unpack to."""
    start = min(place for place in (facts[_FIRST_PAGE], facts.get(_DICTIONARY, 0)) if place > 0)
    reader, end = ThriftReader(data, start), start + facts[_PACKED]
    values = unpacked = 0
    while reader.at < min(end, len(data)):
        page = reader.struct()
        counts = [page[kind][_PAGE_VALUES] for kind in _PAGE_KINDS if kind in page]
        # A negative size would lead back to an earlier page, and this loop would never end. Polars takes a
        # negative number of values for a very large one, and the process ends for want of memory.
        if min(page[_PAGE_PACKED], page[_PAGE_UNPACKED], *counts) < 0:
            raise ValueError("a page of less than no bytes or values")
        values += sum(counts)
        unpacked += page[_PAGE_UNPACKED]
        reader.at += page[_PAGE_PACKED]
    return values, unpacked


def _reason(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:120]
