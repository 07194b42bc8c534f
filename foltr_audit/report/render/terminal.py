"""Tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.text import Text

from foltr_audit.report.render.console import ResultConsole
from foltr_audit.report.render.fitted_table import FittedTable, fitted
from foltr_audit.report.tables.table import Align, Mark, Table

if TYPE_CHECKING:
    import rich.table
    from rich.console import Console

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
