"""Whether declared facts explain messages, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.base import Row
from foltr_audit.report.layout import print_warnings

if TYPE_CHECKING:
    from rich.console import Console


def print_facts(rows: Sequence[Row], console: Console) -> None:
    """One line per trace; what must not be overlooked is a warning."""
    for row in rows:
        which = f"{row['click_model']} clicks: " if len(rows) > 1 else ""
        if row["text"] not in row["warnings"]:
            console.print(escape(which + row["text"]), highlight=False)
        print_warnings((which + text for text in row["warnings"]), console)


def facts_lines(rows: Sequence[Row]) -> Iterator[str]:
    """The same lines without style."""
    for row in rows:
        told = [] if row["text"] in row["warnings"] else [row["text"]]
        yield from (*told, *(f"warning: {text}" for text in row["warnings"]))
