"""Tables as comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.utils.formatting import json_ready
from foltr_audit.utils.rows import CI95

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with these a spreadsheet starts a formula


def csv_text(table: Table) -> str:
    """One line per row below the headers.

    Texts that a spreadsheet would take for a formula begin with `'`; numbers stay as they are.
    """
    out = io.StringIO()
    # csv ends lines with CR LF by default; our other text files have LF.
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.header for column in table.columns])
    writer.writerows([_safe(cell) for cell in line.cells] for line in table.lines)
    return out.getvalue()


def every_column(rows: Sequence[Mapping[str, object]]) -> Table:
    """All columns of some plain rows as a table.

    An interval is two columns, `_low` and `_high`; names in a list are joined by `; `. Unknown values are
    empty.
    """
    flat = [dict(_flat(row)) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    return make_table("", [_column(name) for name in names], flat)


def _column(name: str) -> Column[Mapping[str, str]]:
    return Column(name, lambda row: row.get(name, ""), "words")


def _flat(row: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in row.items():
        if name.endswith(CI95):
            low, high = value if isinstance(value, list | tuple) else (None, None)
            yield f"{name}_low", _text(low)
            yield f"{name}_high", _text(high)
        else:
            yield name, "; ".join(map(str, value)) if isinstance(value, list | tuple) else _text(value)


def _text(value: object) -> str:
    ready = json_ready(value)
    return "" if ready is None else str(ready)


def _safe(cell: Cell) -> str:
    """The text of a cell, which no spreadsheet takes for a formula."""
    text = f"{cell.text} ({cell.below})" if cell.below else cell.text
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # the csv module leaves a lone CR unquoted
    return f"'{lines}" if text.startswith(_FORMULA) and not _is_negative(text) else lines


def _is_negative(text: str) -> bool:
    try:
        return text[0] == "-" and float(text) < 0
    except ValueError:
        return False
