"""Tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from foltr_audit.report.tables.table import Align, Cell, Column, Mark, Table

if TYPE_CHECKING:
    from typing import Never

    import rich.table
    from rich.console import Console
    from rich.text import Text

_ALIGN: dict[Align, dict[str, Any]] = {
    "number": {"justify": "right", "no_wrap": True},
    "name": {"no_wrap": True},
    "fold": {"overflow": "fold"},
    "line": {"overflow": "fold", "no_wrap": True},
    "words": {},
}
STYLES: dict[Mark, str] = {"": "", "good": "green", "bad": "bold red", "warn": "yellow", "dim": "dim"}
"""The style of each mark on a terminal."""


def print_table(table: Table, console: Console) -> None:
    """Print a table; if it does not fit, its narrow form without some columns, which its caption names."""
    table = table.on("terminal")
    found, left_out = rich_table(table), []
    if table.spare is not None and not _fits(found, console):
        found = rich_table(table, narrow=True)
        for header in table.spare:
            if _fits(found, console):
                break
            left_out += [header] * any(column.header == header for column in found.columns)
            found.columns = [column for column in found.columns if column.header != header]
    if left_out:
        lost = f"no room for {', '.join(' '.join(header.split()) for header in left_out)}"
        found.caption = "; ".join([*([str(found.caption)] if found.caption else []), lost])
    console.print(found, crop=table.spare is None)


def rich_table(table: Table, *, narrow: bool = False) -> rich.table.Table:
    """The wide or the narrow form of a table, made to fit a terminal of 80 columns."""
    from rich import box
    from rich.table import Table as RichTable

    found = RichTable(
        title=escape(table.title) or None,
        caption=escape(table.caption) or None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, table.narrow_space if narrow else table.space, 0, 0),
        show_edge=False,
    )
    for column in table.columns:
        align: Align = (
            "line" if narrow and column.narrow is not None and column.align == "fold" else column.align
        )
        found.add_column(escape(column.header), **_ALIGN[align])
    section = None
    for line in table.lines:
        if found.rows and line.section != section:
            found.add_section()
        cells = zip(table.columns, line.cells, strict=True)
        found.add_row(
            *(_text(column, cell, narrow=narrow) for column, cell in cells), style="dim" if line.dim else None
        )
        section = line.section
    return found


def _text(column: Column[Never], cell: Cell, *, narrow: bool) -> Text:
    from rich.text import Text

    text = cell.text if column.narrow is None or not narrow else column.narrow(cell.text)
    below = f"{' ' if column.beside and not narrow else chr(10)}{cell.below}" if cell.below else ""
    return Text(text + below, style=STYLES[cell.mark])


def _fits(found: rich.table.Table, console: Console) -> bool:
    from rich.measure import Measurement

    # Rich measures at most as wide as its console is, so the table gets one without an end
    endless = console.options.update(width=10_000)
    return Measurement.get(console, endless, found).maximum <= console.width
