"""The one model of a table: declared once, rendered to a terminal, HTML, Markdown and CSV.

>>> from fractions import Fraction
>>> found = make_table("parts", [Column[Fraction]("part", str, "name")], [Fraction(1, 2), Fraction(1, 3)])
>>> [line.cells[0].text for line in found.lines]
['1/2', '1/3']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Literal, NamedTuple, Never, TypeVar

Align = Literal["number", "name", "fold", "line", "words"]
Mark = Literal["", "good", "bad", "warn", "dim"]
Medium = Literal["terminal", "page"]
"""A terminal; or a document, HTML or Markdown."""

Shown = TypeVar("Shown", contravariant=True)
Item = TypeVar("Item")


class Cell(NamedTuple):
    """One cell of a table.

    Attributes:
        text: the value.
        below: smaller and below it, e.g. its interval.
        mark: how it is highlighted.
    """

    text: str
    below: str = ""
    mark: Mark = ""


@dataclass(frozen=True)
class Column(Generic[Shown]):
    """A column, which computes its cells from rows of one type.

    Attributes:
        header: the text above it.
        cell: the cell of a row, or its text. Every renderer escapes it.
        align: `number` at the right on one line, `name` at the left on one line, `fold` broken anywhere,
            `line` broken only where the text says so, `words` broken between words.
        group: what stands above its header and those of its neighbours of the same group.
        beside: whether the second text of a cell stands beside the first on a wide terminal.
        narrow: what the text becomes on a narrow terminal.
        only: the medium that shows it, if not every one does.
    """

    header: str
    cell: Callable[[Shown], Cell | str]
    align: Align = "number"
    group: str = ""
    beside: bool = False
    narrow: Callable[[str], str] | None = None
    only: Medium | None = None

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers."""
        return self.align == "number"

    @property
    def wraps(self) -> bool:
        """Whether a narrow terminal breaks its lines anywhere between words."""
        return self.align in ("words", "fold") and self.narrow is None


class Line(NamedTuple):
    """One line of a table.

    Attributes:
        cells: one for each column.
        dim: whether it is less important than the others.
        section: a rule separates lines whose sections differ.
    """

    cells: tuple[Cell, ...]
    dim: bool = False
    section: object = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        title: the text above it.
        columns: its columns.
        lines: its lines.
        caption: the text below it.
        space: blanks between columns on a terminal.
        narrow_space: blanks between them on a terminal that is too narrow for the table.
        spare: headers of columns that a narrow terminal leaves out first, the least important first.
    """

    kind: ClassVar[str] = "table"

    title: str
    columns: Sequence[Column[Never]]
    lines: Sequence[Line]
    caption: str = ""
    space: int = 1
    narrow_space: int = 0
    spare: Sequence[str] = ()

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Heads above the headers, and over how many columns each stands; empty where no column has one."""
        found: list[tuple[str, int]] = []
        for column in self.columns:
            if found and found[-1][0] == column.group and column.group:
                found[-1] = (column.group, found[-1][1] + 1)
            else:
                found.append((column.group, 1))
        return found if any(column.group for column in self.columns) else []

    def on(self, medium: Medium) -> Table:
        """The table with the columns that a medium shows."""
        return self._with([n for n, column in enumerate(self.columns) if column.only in (None, medium)])

    def without(self, header: str) -> Table:
        """The table without the columns of a header."""
        return self._with([n for n, column in enumerate(self.columns) if column.header != header])

    def _with(self, kept: Sequence[int]) -> Table:
        lines = [line._replace(cells=tuple(line.cells[n] for n in kept)) for line in self.lines]
        return replace(self, columns=[self.columns[n] for n in kept], lines=lines)


def make_table(
    title: str,
    columns: Sequence[Column[Item]],
    rows: Iterable[Item],
    *,
    caption: str = "",
    dim: Callable[[Item], bool] | None = None,
    section: Callable[[Item], object] | None = None,
    space: int = 1,
    narrow_space: int = 0,
    spare: Sequence[str] = (),
) -> Table:
    """A table with a line for each row; `dim` and `section` of a row as in `Line`, the rest as in `Table`."""
    lines = [
        Line(
            tuple(_cell(column.cell(row)) for column in columns),
            dim is not None and dim(row),
            None if section is None else section(row),
        )
        for row in rows
    ]
    return Table(
        title=title,
        columns=columns,
        lines=lines,
        caption=caption,
        space=space,
        narrow_space=narrow_space,
        spare=spare,
    )


def _cell(found: Cell | str) -> Cell:
    return Cell(found) if isinstance(found, str) else found
