"""The model of a terminal table, and the cells and captions that several tables share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.markup import escape

from foltr_audit.privacy.observer_views import with_article
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.settings import heading, setting_text
from foltr_audit.utils.formatting import epsilon, short

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


def is_baseline(row: Row) -> bool:
    """Whether a row is of a guess without a message."""
    return bool(row.get("baseline"))


NAME_WIDTH = 19
"""Letters of a narrow column of defenses: those of the longest usual part, `secure-aggregation,`."""


def name_lines(name: str, *, narrow: bool) -> str:
    r"""A name with spaces around its `+`; if `narrow`, broken into lines after its parts.

    >>> name_lines("proven-skellam+secure-aggregation, eps 1.2", narrow=True)
    'proven-skellam +\nsecure-aggregation,\neps 1.2'
    """
    spaced = re.sub(r"\+(?=[A-Za-z])", " + ", name)
    if not narrow:
        return spaced
    lines = [""]
    for part in re.findall(r".+?(?:[+,:] |$)", spaced):
        pieces = [part] if len(part.rstrip()) <= NAME_WIDTH else re.findall(r"[^,]+,* ?", part)
        for piece in pieces:
            if len((lines[-1] + piece).rstrip()) > NAME_WIDTH:
                lines.append("")
            lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines if line)


def method_text(name: str, *, narrow: bool) -> str:
    r"""The name of a method; if `narrow`, broken into lines after its parameters.

    >>> method_text("higher-distance:compare=positions,more_than=4", narrow=True)
    'higher-distance:\ncompare=positions,\nmore_than=4'
    """
    if not narrow or len(name) <= NAME_WIDTH:
        return escape(name)
    return escape("\n".join(re.findall(r".+?(?:[:,]|$)", name)))


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


def epsilon_column() -> Column:
    """The claimed epsilon; empty where a row has None."""
    return Column("eps", lambda row: "" if row["eps_claimed"] is None else epsilon(row["eps_claimed"]))


def interval_column(header: str, name: str, align: Align = "number", *, beside: bool = False) -> Column:
    """A metric with its interval below it or `beside` it."""
    return Column(header, lambda row: with_interval(row, name, " " if beside else "\n"), align)


def interval_columns(
    metrics: dict[str, str], align: Align = "number", *, beside: bool = False
) -> list[Column]:
    """Several metrics with their intervals, their headers by their names."""
    return [interval_column(header, name, align, beside=beside) for name, header in metrics.items()]


def difference_interval_column(number: Callable[[float], str]) -> Column:
    """The interval of a difference, its ends written by `number`."""

    def cell(row: Row) -> str:
        ends = row["difference_ci95"]
        return "-" if ends is None else " to ".join(map(number, ends))

    return Column("95 %", cell)


def method_columns(*, narrow: bool = False) -> list[Column]:
    """The method and its claimed epsilon."""
    align: Align = "line" if narrow else "fold"
    return [Column("method", lambda row: method_text(row["method"], narrow=narrow), align), epsilon_column()]


def setting_columns(rows: Sequence[Row], names: Iterable[str]) -> list[Column]:
    """Settings by name, a column each."""
    return [Column(heading(name), partial(_setting_cell, name, rows), "fold") for name in names]


def _setting_cell(name: str, rows: Sequence[Row], row: Row) -> str:
    return escape(setting_text(row, name, rows))


# --- rows and cells -------------------------------------------------------------------------------


def reference_row(method: str, *, eps: float | None = None, **values: float | None) -> Row:
    """A row of something that reads no message: its metrics, which have no intervals."""
    ends = {f"{name}_ci95": None for name in values}
    return {"method": method, "baseline": True, "eps_claimed": eps, **values, **ends}


def in_method_order(rows: Sequence[Row]) -> list[Row]:
    """The rows with those of each method together, methods in the order in which they first appear."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    return sorted(rows, key=lambda row: names.index(row["method"]))


def describe_world(row: Row) -> str:
    """What the rows of a table share: click model, observer, and Spec fields without a column."""
    more = [f", {name}={row[name]}" for name in row if "." in name]
    return escape(f"{row['click_model']} clicks, the server sees {with_article(row['sees'])}{''.join(more)}")


def group_by_world(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each world, by its description."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(describe_world(row), []).append(row)
    return found


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
