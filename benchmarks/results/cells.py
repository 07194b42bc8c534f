"""Rows of stored JSON, and their values as cells of a Markdown table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.results.declarations import Row, TableColumn
from benchmarks.results.stored import StoredResult
from foltr_audit.errors import UsageError

MINUS = "\N{MINUS SIGN}"
RUN, DATA_TITLE = "run", "data"


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
    found = [value_at(row, each.strip()) for each in key.split(",")]
    ends = found if len(found) > 1 else found[0]
    return None if not ends or None in ends else (float(ends[0]), float(ends[1]))


def rows_of(stored: StoredResult, key: str, title: str) -> list[Row]:
    """The rows of a stored result, each with the name of its run and the title of its data.

    Raises:
        UsageError: nothing has this key.
    """
    found = value_at(stored.result, key) if key else [stored.result]
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise UsageError(
            f"{stored.name}: no rows {key!r} in its JSON; expected one of {sorted(stored.result)}"
        )
    return [{**row, RUN: stored.name, DATA_TITLE: title} for row in found]


def matches(row: Row, where: Row) -> bool:
    """Whether a row has all these values; a list stands for any of its values."""
    return all(
        value_at(row, key) in wanted if isinstance(wanted, list) else value_at(row, key) == wanted
        for key, wanted in where.items()
    )


def groups(rows: Sequence[Row], by: Sequence[str]) -> Iterator[list[Row]]:
    """Rows that agree in these keys, in the order of their first rows."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(repr([value_at(row, key) for key in by]), []).append(row)
    yield from found.values()


def cell(group: Sequence[Row], column: TableColumn) -> str:
    """The cell of a column: empty where no row of the group fits.

    Raises:
        UsageError: several rows fit, with different values.
    """
    fitting = [row for row in group if matches(row, column.where)]
    found = {_with_interval(row, column) for row in fitting}
    if len(found) > 1:
        raise UsageError(f"column {column.head}: {len(found)} values in one line; expected one: give where")
    return found.pop() if found else ""


def _with_interval(row: Row, column: TableColumn) -> str:
    value = value_at(row, column.value)
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
