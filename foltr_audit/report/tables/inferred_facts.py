"""The report of `trace infer` as tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.inferred_facts import InferredFactRow, InferredFactsReport
from foltr_audit.report.tables.table import Cell, Column, make_table

if TYPE_CHECKING:
    from rich.console import Console


def print_inferred_facts(report: InferredFactsReport, console: Console) -> None:
    """A table per trace, and the options that state what it found."""
    for folder, know in report.know.items():
        rows = [row for row in report.results if row.trace == folder]
        print_table(make_table(folder, _COLUMNS, rows, space=2, narrow_space=1), console)
        line = f"to state these: {know}" if know else "nothing to state that the header does not say"
        console.print(escape(line), highlight=False, soft_wrap=True)
        console.print()


def _estimate(row: InferredFactRow) -> Cell:
    text = "" if row.estimate is None else str(row.estimate)
    return Cell(text, mark="bad" if row.agrees is False else "")


_COLUMNS: list[Column[InferredFactRow]] = [
    Column("fact", lambda row: row.fact, "name"),
    Column("declared", lambda row: "" if row.declared is None else str(row.declared), "fold"),
    Column("estimate", _estimate, "fold"),
    Column("sure", lambda row: row.sure, "name"),
    Column("from", lambda row: row.source, "fold"),
]
