"""Rows of a report as comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from foltr_audit.report.results.base import Row
from foltr_audit.utils.formatting import json_ready

_ENDS = "_ci95"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with these a spreadsheet starts a formula


def csv_text(rows: Sequence[Row]) -> str:
    """One line per row below the names of all columns.

    An interval is two columns, `_low` and `_high`; names in a list are joined by `; `. Unknown values are
    empty. Texts that a spreadsheet would take for a formula begin with `'`.
    """
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    out = io.StringIO()
    # csv ends lines with CR LF by default; our other text files have LF.
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()


def _flat(row: Row) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if name.endswith(_ENDS):
            low, high = (None, None) if value is None else value
            yield f"{name}_low", _plain(low)
            yield f"{name}_high", _plain(high)
        elif isinstance(value, list):
            yield name, _text("; ".join(map(str, value)))
        else:
            yield name, _plain(value)


def _text(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # the csv module leaves a lone CR unquoted
    return f"'{lines}" if text.startswith(_FORMULA) else lines


def _plain(value: object) -> Any:
    if isinstance(value, str):
        return _text(value)
    ready = json_ready(value)
    return "" if ready is None else ready
