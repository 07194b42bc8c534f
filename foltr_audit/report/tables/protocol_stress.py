"""The report of `stress` on a terminal: a table of attempts and a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foltr_audit.auditing.protocol_stress.attempt_row import ProtocolAttempt, StressOutcome
from foltr_audit.auditing.protocol_stress.key_attempts import SHORT_BITS
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.protocol_stress import ProtocolStressReport
from foltr_audit.report.tables.table import Cell, Column, Table, make_table

if TYPE_CHECKING:
    from rich.console import Console


def print_stress(report: ProtocolStressReport, console: Console) -> None:
    """Print the table of all attempts, and what follows."""
    print_table(stress_table(report), console)
    console.print()
    hours = 2.0**SHORT_BITS / report.tries_per_second / 3600
    console.print(
        f"2^{SHORT_BITS} seeds at {report.tries_per_second:,.0f} tries per second, measured here on one "
        f"core: {hours:.2g} h"
    )
    broken = sum(row.outcome == "broken" for row in report.attempts)
    promise = "all that is promised held" if report.kept else "what is promised is broken"
    console.print(f"{broken} of {len(report.attempts)} attempts succeed; {promise}")


def stress_table(report: ProtocolStressReport) -> Table:
    """A line for each attempt; promises first."""
    return make_table(
        f"{report.defense}: {report.clients} clients, {report.neighbours} neighbours each, "
        f"{report.shares_needed} shares needed",
        _COLUMNS,
        report.attempts,
        caption="Promised: holds for a server that follows the protocol. Last column: the same attempt "
        "with the (first) answer.",
        section=lambda row: row.actor,
        space=2,
    )


def _marked(found: StressOutcome, *, promised: bool) -> Cell:
    return Cell(found, mark="good" if found == "held" else "bad" if promised else "warn")


def _with_answer(row: ProtocolAttempt) -> Cell:
    return Cell("-") if row.with_answer is None else _marked(row.with_answer, promised=True)


_COLUMNS: list[Column[ProtocolAttempt]] = [
    Column("row", lambda row: row.name, "words"),
    Column("what the server does", lambda row: row.does, "words"),
    Column("promised", lambda row: "yes" if row.promised else "no", "name"),
    Column("outcome", lambda row: _marked(row.outcome, promised=row.promised), "name"),
    Column("what it learnt", lambda row: f"{row.learnt}. Sent: {row.sent}", "words"),
    Column("answer", lambda row: f"{row.answer} ({row.source})" if row.answer else "-", "words"),
    Column("with it", _with_answer, "name"),
]
