"""Whether the declared facts explain the messages, as lines and as warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.base import Row

if TYPE_CHECKING:
    from rich.console import Console


def print_facts(rows: Sequence[Row], console: Console) -> None:
    """One line per trace; what must not be overlooked is repeated as a warning."""
    for row in rows:
        console.print(escape(_click_prefix(row, rows) + row["text"]), highlight=False)


def fact_warnings(rows: Sequence[Row]) -> list[Row]:
    """What must not be overlooked about the facts, a row each."""
    return [{"warning": _click_prefix(row, rows) + text} for row in rows for text in row["warnings"]]


def facts_lines(rows: Sequence[Row]) -> Iterator[str]:
    """The lines and the warnings without style."""
    for row in rows:
        facts = [] if row["text"] in row["warnings"] else [row["text"]]
        yield from (*facts, *(f"warning: {text}" for text in row["warnings"]))


def _click_prefix(row: Row, rows: Sequence[Row]) -> str:
    return f"{row['click_model']} clicks: " if len(rows) > 1 else ""
