"""Whether the declared facts explain the messages, as rows, as lines and as warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.report.results.base import WarningRow
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class CheckedFacts(ResultRow):
    """Whether the declared facts of a trace explain its messages; see `FactCheck`."""

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


@dataclass(frozen=True, kw_only=True)
class FactRow(ResultRow):
    """The facts of a trace of an attack report.

    Attributes:
        click_model: how the attacked users click.
        found: whether the facts explain the messages.
    """

    click_model: str
    found: CheckedFacts = column(embedded=True)


@dataclass(frozen=True, kw_only=True)
class TraceFactRow(ResultRow):
    """The facts of a trace in a folder."""

    trace: str
    found: CheckedFacts = column(embedded=True)


@dataclass(frozen=True, kw_only=True)
class FactsReport(PlainReport):
    """The result of `trace check-facts`, one row per trace."""

    SCHEMA: ClassVar[str] = "foltr-audit/trace-check-facts/1"

    facts: tuple[TraceFactRow, ...]

    def lines(self) -> Iterator[str]:
        """What was found, without style; warnings on lines of their own."""
        for row in self.facts:
            found = row.found
            said = [] if found.text in found.warnings else [found.text]
            for line in (*said, *(f"warning: {text}" for text in found.warnings)):
                yield f"{row.trace}: {line}"


def print_facts(rows: Sequence[FactRow], console: Console) -> None:
    """One line per trace; what must not be overlooked is repeated as a warning."""
    for row in rows:
        console.print(escape(_click_prefix(row, rows) + row.found.text), highlight=False)


def fact_warnings(rows: Sequence[FactRow]) -> list[WarningRow]:
    """What must not be overlooked about the facts, a row each."""
    return [
        WarningRow(warning=_click_prefix(row, rows) + text) for row in rows for text in row.found.warnings
    ]


def _click_prefix(row: FactRow, rows: Sequence[FactRow]) -> str:
    return f"{row.click_model} clicks: " if len(rows) > 1 else ""
