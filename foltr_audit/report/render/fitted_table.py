"""Makes a table fit the width of a terminal: its narrow form, then without the columns it can spare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rich.cells import cell_len

from foltr_audit.report.tables.table import Cell, Column, Table

WORDS = 24
"""Letters that a column of words needs: it is as wide as there is room, and its words are wrapped."""

VERDICT = "verdict"
"""Header of a column that is never left out, as the first column is not."""


@dataclass(frozen=True, kw_only=True)
class FittedTable:
    """A table as a terminal shows it.

    Attributes:
        table: the columns that are shown.
        narrow: whether it has its narrow form.
        broken: whether names have to be broken, since even without other columns they are too long.
        left_out: headers of the columns that have no room.
    """

    table: Table
    narrow: bool = False
    broken: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def space(self) -> int:
        """Blanks after each column; the rule between two columns is one more."""
        return self.table.narrow_space if self.narrow else self.table.space

    @property
    def caption(self) -> str:
        """What stands below it, with the columns that have no room."""
        lost = f"no room for {', '.join(self.left_out)}" if self.left_out else ""
        return "; ".join(filter(None, (self.table.caption, lost)))

    def text(self, column: Column, cell: Cell) -> str:  # type: ignore[type-arg]
        """The text of a cell, with the second text below or beside the first."""
        text = column.narrow(cell.text) if self.narrow and column.narrow is not None else cell.text
        between = " " if column.beside and not self.narrow else "\n"
        return f"{text}{between}{cell.below}" if cell.below else text

    def needs(self) -> int:
        """The least width in which no name and no number is broken."""
        columns = self.table.columns
        widths = [self._width(place) for place in range(len(columns))]
        return sum(widths) + len(columns) * (self.space + 1) - 1

    def _width(self, place: int) -> int:
        column = self.table.columns[place]
        texts = [column.header, *(self.text(column, line.cells[place]) for line in self.table.lines)]
        widest = max(cell_len(line) for text in texts for line in text.split("\n"))
        return min(widest, WORDS) if place and column.wraps else widest


def fitted(table: Table, width: int) -> FittedTable:
    """The form of a table that fits a width, with as many of its columns as possible."""
    found = FittedTable(table=table)
    for found in _forms(table):
        if found.needs() <= width:
            return found
    return replace(found, broken=True)


def _forms(table: Table) -> Iterator[FittedTable]:
    yield FittedTable(table=table)
    found = FittedTable(table=table, narrow=True)
    yield found
    for header in _spared(table):
        if any(column.header == header for column in found.table.columns):
            found = replace(
                found, table=found.table.without(header), left_out=(*found.left_out, " ".join(header.split()))
            )
            yield found


def _spared(table: Table) -> Iterator[str]:
    """Headers of the columns that can be left out: those the table names, then numbers, then names."""
    yield from table.spare
    rest = [column for column in table.columns[1:] if column.header != VERDICT]
    if len(rest) == len(table.columns) - 1:  # no verdict: the first column beside the name is the one kept
        rest = [column for column in rest if column.header not in table.spare][1:]
    for kind in (("number",), ("name", "line")):
        yield from (column.header for column in reversed(rest) if column.align in kind)
