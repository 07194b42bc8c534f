"""Results on a terminal: the console, tables that fit its width, and short answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from foltr_audit.report.tables.table import Align, Cell, Column, Mark, Table
from foltr_audit.report.terminal import ResultConsole

if TYPE_CHECKING:
    import rich.table

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


_ALIGN: dict[Align, dict[str, Any]] = {
    "number": {"justify": "right", "no_wrap": True},
    "name": {"no_wrap": True},
    "fold": {"overflow": "fold"},
    "line": {"overflow": "fold", "no_wrap": True},
    "words": {"overflow": "fold"},
}
STYLES: dict[Mark, str] = {"": "", "good": "green", "bad": "bold red", "warn": "yellow", "dim": "dim"}
"""The style of each mark on a terminal."""


def print_table(table: Table, console: Console) -> None:
    """Print a table; if it does not fit, its narrow form without some columns, which its caption names."""
    found = fitted(table.on("terminal"), console.width)
    label = console.label if isinstance(console, ResultConsole) else ""
    if table.title:
        console.print(Text(f"{table.title} ({label})" if label else table.title, style="table.title"))
    console.print(_rich_table(found), crop=False)
    if found.caption:
        console.print(Text(found.caption, style="table.caption"))


def _rich_table(found: FittedTable) -> rich.table.Table:
    from rich import box
    from rich.table import Table as RichTable

    table, narrow = found.table, found.narrow
    shown = RichTable(box=box.SIMPLE_HEAD, padding=(0, found.space, 0, 0), show_edge=False)
    for place, column in enumerate(table.columns):
        by_parts = narrow and column.narrow is not None
        align: Align = "line" if column.align == "fold" and (by_parts or not place) else column.align
        options = _ALIGN[align] | ({"no_wrap": False, "overflow": "fold"} if found.broken else {})
        if column.wraps:
            options["min_width"] = max(map(len, column.header.split()), default=0)
        shown.add_column(escape(column.header), **options)
    section = None
    for line in table.lines:
        if shown.rows and line.section != section:
            shown.add_section()
        cells = zip(table.columns, line.cells, strict=True)
        shown.add_row(
            *(Text(found.text(column, cell), style=STYLES[cell.mark]) for column, cell in cells),
            style="dim" if line.dim else None,
        )
        section = line.section
    return shown


MOST_ROWS = 12
"""Rows of the table of a short answer."""

Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class BriefAnswer:
    """A short answer.

    Attributes:
        conclusion: what the results mean, in one sentence or a few, each on a line of its own.
        table: the rows that the conclusion is about; at most `MOST_ROWS`.
        about: the data and how they were prepared.
        notes: lines below the table.
        left_out: what `--full` also shows, as the end of a sentence that begins with "--full also shows".
    """

    conclusion: tuple[str, ...]
    about: str
    table: Table | None = None
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def print(self, console: Console, *, quiet: bool = False, how: str = "--full") -> None:
        """Print the answer; only the conclusion if `quiet`. `how` one sees the rest is said below it."""
        for line in self.conclusion:
            console.print(escape(line), style=None if quiet else "bold", highlight=False, soft_wrap=quiet)
        if quiet:
            return
        if self.table is not None:
            console.print()
            print_table(self.table, console)
        for line in self.notes:
            console.print(escape(line), highlight=False)
        console.print(self.about, style="dim", highlight=False)
        if self.left_out:
            *first, last = self.left_out
            rest = f"{', '.join(first)} and {last}" if first else last
            console.print(escape(f"{how} also shows {rest}."), style="dim", highlight=False)


def first_rows(rows: Sequence[Row], noun: str) -> tuple[Sequence[Row], tuple[str, ...]]:
    """As many rows as a short answer shows, and what is left out, in words.

    >>> first_rows(["a"] * 14, "rounds")[1]
    ('2 more rounds',)
    """
    more = len(rows) - MOST_ROWS
    return (rows[:MOST_ROWS], (f"{more} more {noun}",)) if more > 0 else (rows, ())
