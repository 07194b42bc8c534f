"""Results on a terminal: the console, tables that fit its width, and short answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from foltr_audit.report.table import Align, Cell, Column, Mark, Table
from foltr_audit.utils.formatting import join_names, visible

if TYPE_CHECKING:
    import rich.table

UNLIMITED = 10_000  # a width where nothing is wrapped, for a pipe or a file
WORDS = 24  # letters that a column needs whose words are wrapped where there is no more room
VERDICT = "verdict"  # a column that is never left out, as the first column is not
MOST_ROWS = 12  # of the table of a short answer


class ResultConsole(Console):
    """A console whose lines end without blanks, and whose texts cannot control a terminal."""

    def __init__(self, label: str = "", *, width: int | None = None, file: TextIO | None = None) -> None:
        """Print on stdout, or into a file without colours; a label is added to the title of every table."""
        plain: Any = {} if file is None else {"color_system": None, "force_terminal": False}
        super().__init__(width=width, file=file, **plain)
        self.label = label

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render, without blanks at the end of lines, and without what a terminal would obey in texts."""
        line: list[Segment] = []
        for piece in super().render(renderable, options):
            texts = [] if piece.control else visible(piece.text).split("\n")
            for number, text in enumerate(texts):
                if number:
                    yield from (*_stripped(line), Segment.line())
                    line = []
                line += [Segment(text, piece.style)] if text else []
            line += [piece] if piece.control else []
        yield from line


def _stripped(line: list[Segment]) -> list[Segment]:
    while line and not line[-1].control:
        last = line.pop()
        if text := last.text.rstrip(" "):
            return [*line, Segment(text, last.style)]
    return line


@dataclass(frozen=True, kw_only=True)
class FittedTable:
    """A table as a terminal shows it.

    Attributes:
        table: the columns that are shown.
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

    def text(self, column: Column, cell: Cell) -> str:
        """The text of a cell, with the second text below or beside the first."""
        text = column.narrow(cell.text) if self.narrow and column.narrow is not None else cell.text
        between = " " if column.beside and not self.narrow else "\n"
        return f"{text}{between}{cell.below}" if cell.below else text

    def needs(self) -> int:
        """The least width in which no name and no number is broken."""
        total = -1
        for number, column in enumerate(self.table.columns):
            texts = [column.header, *(self.text(column, line.cells[number]) for line in self.table.lines)]
            widest = max(cell_len(line) for text in texts for line in text.split("\n"))
            total += (min(widest, WORDS) if number and column.wraps else widest) + self.space + 1
        return total


def fitted(table: Table, width: int) -> FittedTable:
    """The form of a table that fits a width, with as many of its columns as possible."""
    shown = FittedTable(table=table)
    if shown.needs() <= width:
        return shown
    shown = replace(shown, narrow=True)
    for header in _spared(table):
        if shown.needs() <= width:
            return shown
        if any(column.header == header for column in shown.table.columns):
            left_out = (*shown.left_out, " ".join(header.replace("-\n", "").split()))
            shown = replace(shown, table=shown.table.without(header), left_out=left_out)
    return replace(shown, broken=shown.needs() > width)


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


def print_table(table: Table, console: Console) -> None:
    """Print a table; if it does not fit, its narrow form without some columns, which its caption names."""
    shown = fitted(table.on("terminal"), console.width)
    label = console.label if isinstance(console, ResultConsole) else ""
    if table.title:
        console.print(Text(f"{table.title} ({label})" if label else table.title, style="table.title"))
    console.print(_rich_table(shown), crop=False)
    lost = f"left out for lack of width: {', '.join(shown.left_out)}" if shown.left_out else ""
    explained = "; ".join(filter(None, (shown.table.explained, lost)))
    if explained:
        console.print(Text(explained, style="table.caption"))


def print_lines(lines: Iterable[str], console: Console, style: str | None = None) -> None:
    """Print texts as they are, a line for each."""
    for line in lines:
        console.print(line, markup=False, highlight=False, style=style)


def _rich_table(fit: FittedTable) -> rich.table.Table:
    from rich import box
    from rich.table import Table as RichTable

    columns, lines = fit.table.columns, fit.table.lines
    shown = RichTable(box=box.SIMPLE_HEAD, padding=(0, fit.space, 0, 0), show_edge=False)
    for number, column in enumerate(columns):
        by_parts = fit.narrow and column.narrow is not None
        align: Align = "line" if column.align == "fold" and (by_parts or not number) else column.align
        options = _ALIGN[align] | ({"no_wrap": False, "overflow": "fold"} if fit.broken else {})
        if column.wraps:
            options["min_width"] = max(map(len, column.header.split()), default=0)
        shown.add_column(escape(column.header), **options)
    for before, line in zip([None, *lines], lines, strict=False):
        if before is not None and line.section != before.section:
            shown.add_section()
        cells = zip(columns, line.cells, strict=True)
        texts = [Text(fit.text(column, cell), style=STYLES[cell.mark]) for column, cell in cells]
        shown.add_row(*texts, style="dim" if line.dim else None)
    return shown


Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class BriefAnswer:
    """A short answer: what the results mean, a line each, the rows that this is about, and the data.

    Attributes:
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
        print_lines(self.notes, console)
        console.print(self.about, style="dim", highlight=False)
        if self.left_out:
            print_lines([f"{how} also shows {join_names(self.left_out)}."], console, "dim")


def first_rows(rows: Sequence[Row], noun: str) -> tuple[Sequence[Row], tuple[str, ...]]:
    """As many rows as a short answer shows, and what is left out, in words.

    >>> first_rows(["a"] * 14, "rounds")[1]
    ('2 more rounds',)
    """
    more = len(rows) - MOST_ROWS
    return (rows[:MOST_ROWS], (f"{more} more {noun}",)) if more > 0 else (rows, ())
