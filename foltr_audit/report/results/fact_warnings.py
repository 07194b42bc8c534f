"""Whether the declared facts explain the messages, as rows, as lines and as warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.base import WarningRow
from foltr_audit.utils.rows import ResultRow

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class FactRow(ResultRow):
    """Whether the declared facts of a trace explain its messages; see `FactCheck`.

    Attributes:
        click_model: how the attacked users click.
    """

    click_model: str
    state: str
    wrong: bool
    reason: str | None
    messages: int
    explained: float | None
    better: Mapping[str, object]
    better_explains: float | None
    contradictions: tuple[str, ...]
    text: str
    warnings: tuple[str, ...]


def print_facts(rows: Sequence[FactRow], console: Console) -> None:
    """One line per trace; what must not be overlooked is repeated as a warning."""
    for row in rows:
        console.print(escape(_click_prefix(row, rows) + row.text), highlight=False)


def fact_warnings(rows: Sequence[FactRow]) -> list[WarningRow]:
    """What must not be overlooked about the facts, a row each."""
    return [WarningRow(warning=_click_prefix(row, rows) + text) for row in rows for text in row.warnings]


def facts_lines(rows: Sequence[FactRow]) -> Iterator[str]:
    """The lines and the warnings without style."""
    for row in rows:
        facts = [] if row.text in row.warnings else [row.text]
        yield from (*facts, *(f"warning: {text}" for text in row.warnings))


def _click_prefix(row: FactRow, rows: Sequence[FactRow]) -> str:
    return f"{row.click_model} clicks: " if len(rows) > 1 else ""
