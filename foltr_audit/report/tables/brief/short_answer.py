"""What a short answer consists of, and how it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rich.markup import escape

from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.tables.table import Table

if TYPE_CHECKING:
    from rich.console import Console

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
