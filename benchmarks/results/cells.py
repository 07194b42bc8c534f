"""Values of rows, and the cells of a Markdown table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.results.declarations import Row, TableColumn, TableExcerpt
from foltr_audit.errors import UsageError

MINUS = "\N{MINUS SIGN}"


def value_at(row: Row, key: str) -> Any:
    """The value of a key with dots for nested objects; None where it is absent."""
    found: Any = row
    for part in key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def interval_at(row: Row, key: str) -> tuple[float, float] | None:
    """The two ends of a key, or of two keys joined by a comma; None where one is absent."""
    found = [row.get(each.strip()) for each in key.split(",")]
    ends: Any = found if len(found) > 1 else found[0]
    return None if not ends or None in ends else (float(ends[0]), float(ends[1]))


def matches(row: Row, where: Row) -> bool:
    """Whether a row has all these values; a list stands for any of its values."""
    return all(
        row.get(key) in wanted if isinstance(wanted, list) else row.get(key) == wanted
        for key, wanted in where.items()
    )


def lines(excerpt: TableExcerpt, rows: Sequence[Row]) -> Iterator[str]:
    """The lines of an excerpt as a Markdown table."""
    yield f"| {' | '.join(column.head for column in excerpt.columns)} |"
    yield "|" + "---|" * len(excerpt.columns)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if matches(row, excerpt.where):
            groups.setdefault(repr([row.get(key) for key in excerpt.by]), []).append(row)
    for group in groups.values():
        yield f"| {' | '.join(cell(group, column) for column in excerpt.columns)} |"


def cell(group: Sequence[Row], column: TableColumn) -> str:
    """The cell of a column: empty where no row of the group fits.

    Raises:
        UsageError: several rows fit, with different values.
    """
    found = {_with_interval(row, column) for row in group if matches(row, column.where)}
    if len(found) > 1:
        raise UsageError(f"column {column.head}: {len(found)} values in one line; expected one: give where")
    return found.pop() if found else ""


def _with_interval(row: Row, column: TableColumn) -> str:
    value = row.get(column.value)
    if value is None:
        return ""
    text = shown(value, column)
    ends = interval_at(row, column.interval) if column.interval else None
    return f"{text} ({shown(ends[0], column)} to {shown(ends[1], column)})" if ends else text


def shown(value: object, column: TableColumn) -> str:
    """A value in the format of a column."""
    if isinstance(value, bool) or not isinstance(value, int | float) or column.format == "text":
        return _plain(value)
    if column.format == "percent":
        return f"{_signed(100 * value, column.digits)} %"
    text = _signed(float(value), column.digits)
    if column.format == "share" and abs(value) < 1:
        return text.replace("0.", ".", 1)
    return text


def _signed(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}".replace("-", MINUS)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value).replace("|", "\\|")
