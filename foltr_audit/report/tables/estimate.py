"""What a comparison will take, as a table and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.experiments.comparison.estimate import CostEstimate
from foltr_audit.report.tables.layout import Column, rows_table
from foltr_audit.utils.formatting import json_text

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "foltr-audit/estimate/2"
_MIB = 2.0**20
_FIELDS = ("kind", "cells", "done", "to_run", "seconds", "disk")


def estimate_json(found: CostEstimate) -> str:
    """One JSON object; seconds and bytes."""
    return json_text(
        {
            "schema": SCHEMA,
            "kinds": [{name: getattr(kind, name) for name in _FIELDS} for kind in found.kinds],
            "workers": found.workers,
            "seconds": found.seconds,
            "memory_per_worker": found.memory,
            "memory_in_all": found.memory_in_all,
            "disk": found.disk,
            "rests_on": found.rests_on,
        }
    )


def print_estimate(found: CostEstimate, console: Console) -> None:
    """Cells by kind, and what all of them take."""
    counts = {"cells": "cells", "done": "done", "to run": "to_run"}
    columns = [
        Column("kind", lambda kind: kind.kind, "words"),
        *(_count_column(header, name) for header, name in counts.items()),
        Column("work", lambda kind: duration(kind.seconds)),
        Column("disk", lambda kind: _size(kind.disk)),
    ]
    caption = "work: of one worker; disk: what the cells are stored in"
    console.print(rows_table("what it will take", caption, columns, found.kinds))
    console.print(
        f"\nabout {duration(found.seconds)} with {found.workers} at once, "
        f"{_size(found.memory_in_all)} of memory ({_size(found.memory)} each), {_size(found.disk)} of disk",
        style="bold",
        highlight=False,
    )
    console.print(escape(found.rests_on), highlight=False)


def _count_column(header: str, name: str) -> Column:
    return Column(header, lambda kind: f"{getattr(kind, name):,}")


def duration(seconds: float) -> str:
    """Seconds as text.

    >>> duration(42.4), duration(312), duration(9000)
    ('42 s', '5 min', '2 h 30 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _size(count: float) -> str:
    mib = count / _MIB
    return f"{mib:,.1f} MiB" if mib < 10 else f"{mib:,.0f} MiB" if mib < 10_000 else f"{mib / 1024:,.0f} GiB"
