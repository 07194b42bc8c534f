"""Whether the declared facts explain the messages, as rows, as lines and as warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.core.warning_kinds import coded
from foltr_audit.report.results.base import WarningRow
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.utils.formatting import JsonValue
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
    """The facts of a trace in a folder.

    Attributes:
        trace: the folder.
        known: facts that were given by hand, over those of its header.
        found: whether the facts explain the messages.
    """

    trace: str
    known: Mapping[str, JsonValue] | None = column(optional=True)
    found: CheckedFacts = column(embedded=True)


@dataclass(frozen=True, kw_only=True)
class FactsReport(PlainReport):
    """The result of `trace check-facts`, one row per trace."""

    SCHEMA: ClassVar[str] = "foltr-audit/trace-check-facts/1"

    facts: tuple[TraceFactRow, ...]

    def lines(self) -> Iterator[str]:
        """What was found, without style; warnings on lines of their own."""
        for row in self.facts:
            checked = row.found
            if row.known:
                yield f"{row.trace}: {given_text(row.known)}"
            lines = [] if checked.text in checked.warnings else [checked.text]
            for line in (*lines, *(f"warning {coded('facts', text)}" for text in checked.warnings)):
                yield f"{row.trace}: {line}"


def given_text(known: Mapping[str, JsonValue]) -> str:
    """Facts that were given by hand, in one line.

    >>> given_text({"learning_rate": 0.1, "pairs": "all"})
    'facts given by hand: learning_rate 0.1, pairs all'
    """
    return "facts given by hand: " + ", ".join(f"{name} {value}" for name, value in known.items())


def print_facts(
    rows: Sequence[FactRow], console: Console, known: Mapping[str, JsonValue] | None = None
) -> None:
    """The facts that were given by hand, and one line per trace; warnings repeat what matters."""
    if known:
        console.print(escape(given_text(known)), highlight=False)
    for row in rows:
        console.print(escape(_click_prefix(row, rows) + row.found.text), highlight=False)


def fact_warnings(rows: Sequence[FactRow]) -> list[WarningRow]:
    """What must not be overlooked about the facts, a row each."""
    return [
        WarningRow.of(coded("facts", _click_prefix(row, rows) + text))
        for row in rows
        for text in row.found.warnings
    ]


def _click_prefix(row: FactRow, rows: Sequence[FactRow]) -> str:
    return f"{row.click_model} clicks: " if len(rows) > 1 else ""
