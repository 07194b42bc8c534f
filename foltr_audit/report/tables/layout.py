"""What the terminal tables have in common: their frame, their cells, and which rows belong together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rich.markup import escape

from foltr_audit.privacy.observer_views import with_article
from foltr_audit.report.results.base import Row
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def table(title: str | None, caption: str | None = None, space: int = 1) -> Table:
    """A table that fits a terminal of 80 columns."""
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


NAME_WIDTH = 19
"""Of a column of defenses where it is narrow: its longest usual part, `secure-aggregation,`."""


def name_lines(name: str, *, narrow: bool) -> str:
    r"""A name with spaces about its `+`; where it is narrow, in lines that end after a part of it.

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
    r"""The name of a method; where it is narrow, in lines that end after a parameter.

    >>> method_text("higher-distance:compare=positions,more_than=4", narrow=True)
    'higher-distance:\ncompare=positions,\nmore_than=4'
    """
    if not narrow or len(name) <= NAME_WIDTH:
        return escape(name)
    return escape("\n".join(re.findall(r".+?(?:[:,]|$)", name)))


def print_fitting(build: Callable[[bool], Table], less: Sequence[str], console: Console) -> None:
    """Print a table as wide as it is; where it does not fit, narrower, and with what it leaves out named.

    Args:
        build: makes the table, given whether it shall be narrow.
        less: headings of columns that it can do without, the least important first.
        console: to print on.
    """
    from rich.measure import Measurement

    def fits(found: Table) -> bool:
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


def method_table(
    title: str | None,
    caption: str | None,
    headings: Iterable[str],
    *,
    justify: Literal["left", "right"] = "left",
    space: int = 1,
    narrow: bool = False,
) -> Table:
    """An empty table with a method, its claimed epsilon, and what is told of it under `headings`.

    Where it is narrow, methods are in lines of their own making, see `method_text`.
    """
    found = table(title, caption, 0 if narrow else space)
    found.add_column("method", overflow="fold", no_wrap=narrow)
    found.add_column("eps", justify="right", no_wrap=True)
    for heading in headings:
        found.add_column(heading, justify=justify, no_wrap=True)
    return found


def fewer_choices(row: Row) -> str:
    """That there was less to choose from than was asked for; else nothing."""
    fewer = row["choices"] < row["choices_asked"]
    return f", not {row['choices_asked']}: there are no more" if fewer else ""


def world(row: Row) -> str:
    """What a table's rows have in common: click model, observer, and Spec fields without a column."""
    more = [f", {name}={row[name]}" for name in row if "." in name]
    return escape(f"{row['click_model']} clicks, the server sees {with_article(row['sees'])}{''.join(more)}")


def of_world(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows of one world."""
    return [row for row in rows if world(row) == name]


def by_method(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The rows of each method, in the order of the methods."""
    for method in dict.fromkeys(row["method"] for row in rows):
        yield [row for row in rows if row["method"] == method]


def at_eps(row: Row, rows: Sequence[Row]) -> str:
    """`eps 1.2: ` where rows differ in the claimed epsilon, else nothing."""
    several = len({other["eps_claimed"] for other in rows}) > 1
    return f"eps {epsilon(row['eps_claimed'])}: " if several else ""


def below(row: Row, name: str) -> str:
    """A metric with its interval on a second line."""
    return _joined(row, name, "\n")


def beside(row: Row, name: str) -> str:
    """A metric with its interval beside it."""
    return _joined(row, name, " ")


def _joined(row: Row, name: str, between: str) -> str:
    value, interval = short(row[name]), row[f"{name}_ci95"]
    if interval is None:
        return value
    low, high = (short(end, 2).replace("1.00", "1.0") for end in interval)
    return f"{value}{between}{low} to {high}" if low.startswith("-") else f"{value}{between}{low}-{high}"


def percent(value: float | None) -> str:
    """A share as a percentage; `-` where there is none."""
    return "-" if value is None or math.isnan(value) else f"{100 * value:.1f} %"


def setting_of(row: Row) -> str:
    """What a sentence about a row begins with: click model, epsilon, and Spec fields without a column."""
    more = "".join(f", {name}={row[name]}" for name in row if "." in name)
    return f"{row['click_model']} clicks, eps {epsilon(row['eps_claimed'])}{more}"


def share_of(value: float | None) -> str:
    """A share in a sentence, in whole percent."""
    return "none" if value is None else f"{100 * value:.0f} %"
