"""The model of a terminal table, and the cells and captions that several tables share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.markup import escape

from foltr_audit.report.results.base import Row
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

Align = Literal["number", "name", "fold", "line", "words"]

_ALIGN: dict[Align, dict[str, Any]] = {
    "number": {"justify": "right", "no_wrap": True},
    "name": {"no_wrap": True},
    "fold": {"overflow": "fold"},
    "line": {"overflow": "fold", "no_wrap": True},
    "words": {},
}


class Column(NamedTuple):
    """A column of a terminal table.

    Attributes:
        header: the text above it.
        cell: the text of a row in it. Rich reads markup in it, so names from files must be escaped.
        align: `number` at the right on one line, `name` at the left on one line, `fold` broken anywhere,
            `line` broken only where the text says so, `words` broken between words.
    """

    header: str
    cell: Callable[[Any], str | Text]
    align: Align = "number"


def table(title: str | None, caption: str | None = None, space: int = 1) -> Table:
    """An empty table that fits a terminal of 80 columns."""
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        caption=caption,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, space, 0, 0),
        show_edge=False,
    )


def rows_table(
    title: str | None,
    caption: str | None,
    columns: Sequence[Column],
    rows: Iterable[Any],
    *,
    space: int = 1,
    dim: Callable[[Any], bool] | None = None,
    section: Callable[[Any], object] | None = None,
) -> Table:
    """A table with one line per row.

    Args:
        title: the text above the table.
        caption: the text below it.
        columns: its columns.
        rows: what the cells of the columns are computed from.
        space: blanks between columns.
        dim: whether a row is less important than the others.
        section: a key of a row; a rule separates rows whose keys differ.
    """
    found, last = table(title, caption, space), None
    for column in columns:
        found.add_column(column.header, **_ALIGN[column.align])
    for row in rows:
        key = section(row) if section is not None else None
        if found.rows and key != last:
            found.add_section()
        style = "dim" if dim is not None and dim(row) else None
        found.add_row(*(column.cell(row) for column in columns), style=style)
        last = key
    return found


def print_fitting(build: Callable[[bool], Table], less: Sequence[str], console: Console) -> None:
    """Print a table; if it does not fit, print its narrow form without some columns and name those.

    Args:
        build: makes the table; its argument says whether in its narrow form.
        less: headers of columns that may be left out, the least important first.
        console: where to print.
    """
    from rich.measure import Measurement

    def fits(found: Table) -> bool:
        # Rich measures at most as wide as its console is, so the table gets one without an end
        endless = console.options.update(width=10_000)
        return Measurement.get(console, endless, found).maximum <= console.width

    found, left_out = build(False), []
    if not fits(found):
        found = build(True)
        for heading in less:
            if fits(found):
                break
            left_out += [heading] * any(column.header == heading for column in found.columns)
            found.columns = [column for column in found.columns if column.header != heading]
    if left_out:
        lost = f"no room for {', '.join(' '.join(heading.split()) for heading in left_out)}"
        found.caption = "; ".join([*([str(found.caption)] if found.caption else []), lost])
    console.print(found, crop=False)


# --- columns --------------------------------------------------------------------------------------


def text_column(header: str, name: str, align: Align = "fold") -> Column:
    """A field as text."""
    return Column(header, lambda row: escape(str(row[name])), align)


def short_column(header: str, name: str, digits: int = 3) -> Column:
    """A field as a number without its leading zero."""
    return Column(header, lambda row: short(row[name], digits))


def short_columns(names: dict[str, str], digits: int = 3) -> list[Column]:
    """Several fields as numbers, by their headers."""
    return [short_column(header, name, digits) for header, name in names.items()]


def percent_column(header: str, name: str) -> Column:
    """A field that is a share, as a percentage."""
    return Column(header, lambda row: percent(row[name]))


def interval_column(header: str, name: str, align: Align = "number", *, beside: bool = False) -> Column:
    """A metric with its interval below it or `beside` it."""
    return Column(header, lambda row: with_interval(row, name, " " if beside else "\n"), align)


def interval_columns(
    metrics: dict[str, str], align: Align = "number", *, beside: bool = False
) -> list[Column]:
    """Several metrics with their intervals, their headers by their names."""
    return [interval_column(header, name, align, beside=beside) for name, header in metrics.items()]


def with_interval(row: Row, name: str, between: str = "\n") -> str:
    """A metric and its interval, which stands on a second line unless `between` is a blank."""
    value, interval = short(row[name]), row[f"{name}_ci95"]
    if interval is None:
        return value
    low, high = (short(end, 2).replace("1.00", "1.0") for end in interval)
    return f"{value}{between}{low} to {high}" if low.startswith("-") else f"{value}{between}{low}-{high}"


def percent(value: float | None) -> str:
    """A share as a percentage; `-` where there is none."""
    return "-" if value is None or math.isnan(value) else f"{100 * value:.1f} %"


def bytes_text(row: Row) -> str:
    """The bytes that a client of a row's setting sends in a round; `-` where they are not known."""
    return "-" if row["bytes_per_client"] is None else f"{row['bytes_per_client']:,.0f}"


def loss_text(row: Row) -> str:
    """The offline nDCG@10 that a row's setting loses against no defense; `-` where it is not known."""
    difference = row["ndcg@10_difference"]
    return "-" if difference is None else short(0.0 - round(difference, 3))
