"""A table of a part, cut into rounds."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import TraceError
from foltr_audit.recorder.table_files import Columns, row_count
from foltr_audit.trace.marker import TracePart
from foltr_audit.utils.arrays import Bools, Floats, Ints, Words

EVERY = slice(None)
"""All rows."""


class PartTable:
    """A table of a part, whose columns have the types that `schema.columns` says.

    Attributes:
        columns: by name.
        path: the file that they came from.
        rows: their length.
    """

    def __init__(self, columns: Columns, part: TracePart, table: str, folder: Path) -> None:
        """Of a table such as `observed/rounds`.

        Raises:
            TraceError: rows of other rounds, or out of order.
        """
        self.columns = columns
        self.path = folder / part.file_name(table)
        self.rows = row_count(columns)
        number = self.whole("round")
        every = np.arange(part.first_round, part.last_round + 1)
        if table == "observed/rounds" and not np.array_equal(number, every):
            raise self.error(f"expected the rounds {part.first_round} to {part.last_round}, one row each")
        if np.any(np.diff(number) < 0) or (
            number.size and not every[0] <= number[0] <= number[-1] <= every[-1]
        ):
            raise self.error(f"rows must rise from round {part.first_round} to {part.last_round}")
        self._edges = np.searchsorted(number, np.append(every, part.last_round + 1))

    def error(self, problem: str) -> TraceError:
        """An error about this file."""
        return TraceError(f"trace: {self.path}: {problem}")

    def span(self, i: int) -> slice:
        """Rows of the i-th round of the part."""
        return slice(int(self._edges[i]), int(self._edges[i + 1]))

    def array(self, name: str) -> NDArray[np.generic]:
        """A column as it is stored."""
        return self.columns[name]

    def whole(self, name: str, rows: slice = EVERY) -> Ints:
        """Some rows of a column of whole numbers, int64.

        Raises:
            TraceError: a number beyond them.
        """
        values = self.columns[name][rows]
        if values.dtype.kind == "u" and values.size and int(values.max()) > np.iinfo(np.int64).max:
            raise self.error(f"column {name} holds {values.max()}, expected less than 2^63")
        return values.astype(np.int64, copy=False)

    def places(self, name: str) -> Ints:
        """A column of positions, int64; the largest number of an unsigned type is -1.

        Raises:
            TraceError: a number beyond them.
        """
        values = self.columns[name]
        if values.dtype.kind != "u":
            return self.whole(name)
        padded = values == (1 << 8 * values.dtype.itemsize) - 1
        most = int(values[~padded].max(initial=0))
        if most > np.iinfo(np.int64).max:
            raise self.error(f"column {name} holds {most}, expected less than 2^63")
        return np.where(padded, -1, values.astype(np.int64))

    def bits(self, name: str, rows: slice, count: int) -> Bools:
        """Some rows of a column of so many truth values, as such or packed into bytes, bool (rows, count)."""
        values = self.columns[name][rows]
        if values.dtype.kind == "b":
            return values.astype(np.bool_, copy=False)
        packed = values.astype(np.uint8, copy=False)
        return np.unpackbits(packed, axis=1, count=count).astype(np.bool_)

    def words(self, name: str, rows: slice) -> Words | None:
        """Some rows of a column of whole numbers from 0 on, uint64; None where the table lacks it.

        Raises:
            TraceError: a number below 0.
        """
        if name not in self.columns:
            return None
        values = self.columns[name][rows]
        if values.dtype.kind == "i" and values.size and int(values.min()) < 0:
            raise self.error(f"column {name} holds {values.min()}, expected 0 or more")
        return values.astype(np.uint64, copy=False)

    def floats(self, name: str, rows: slice) -> Floats | None:
        """Some rows of a column of numbers, float64; None where the table lacks it."""
        values = self.columns.get(name)
        return None if values is None else values[rows].astype(np.float64, copy=False)

    def texts(self, name: str, rows: slice) -> tuple[str, ...]:
        """Some rows of a column of text; "" where the table lacks it."""
        values: NDArray[np.generic] | None = self.columns.get(name)
        if values is None:
            return tuple("" for _ in range(rows.start, rows.stop))
        return tuple(cast("list[str]", values[rows].tolist()))

    def named_values(self, rows: slice) -> list[tuple[str, float]]:
        """The columns `name` and `value` of some rows."""
        return list(zip(self.texts("name", rows), self.columns["value"][rows].tolist(), strict=True))

    def expect_slots(self) -> None:
        """Refuse rows that are not slot 0, 1, 2 ... in each round."""
        sizes = np.diff(self._edges)
        expected = np.arange(self.rows) - np.repeat(self._edges[:-1], sizes)
        if not np.array_equal(self.whole("slot"), expected):
            raise self.error("the slots of a round must be 0, 1, 2 and so on")
