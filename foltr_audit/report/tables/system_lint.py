"""The report of `lint` on a terminal: a table of claims and one of findings for each system."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from foltr_audit.core.declared.checks import DeclarationFinding, digits
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.system_lint import ClaimBoundRow, SystemLintReport, SystemLintRow
from foltr_audit.report.tables.table import Cell, Column, Mark, Table, make_table

if TYPE_CHECKING:
    from rich.console import Console

_MARKS: Mapping[str, Mark] = {"error": "bad", "warning": "warn"}

_TOLERANCE = 1.0 + 1e-6
"""Declared numbers are rounded: a proven epsilon may be this much larger."""


def print_lint(report: SystemLintReport, console: Console) -> None:
    """Print the tables of all systems, and a summary."""
    from rich.markup import escape

    for system in report.systems:
        for table in lint_tables(system):
            print_table(table, console)
        if not system.findings:
            console.print(escape(f"{system.name}: nothing found"))
        console.print()
    console.print(_summary(report))


def lint_tables(system: SystemLintRow) -> Iterator[Table]:
    """The claims of a system, and what was found; no table without rows."""
    if system.claims:
        yield make_table(f"{system.name}: declared and proven", _CLAIMS, _alike(system), space=2)
    if system.findings:
        yield make_table(f"{system.name}: findings", _FINDINGS, system.findings, space=2)


def _alike(system: SystemLintRow) -> list[list[ClaimBoundRow]]:
    """The claims of a system; those that differ in their view only share a line."""
    lines: dict[tuple[object, ...], list[ClaimBoundRow]] = {}
    for row in system.claims:
        key = (row.claimed_by, row.epsilon, row.delta, row.unit, row.relation, row.proven)
        lines.setdefault(key, []).append(row)
    return list(lines.values())


def _summary(report: SystemLintReport) -> str:
    counts = [
        f"{number} {word}{'s' * (number != 1)}"
        for number, word in ((report.errors, "error"), (report.warnings, "warning"))
    ]
    return ", ".join(counts)


def _epsilon(value: float | None) -> str:
    if value is None:
        return "-"
    return "∞" if math.isinf(value) else digits(value)


def _proven(rows: list[ClaimBoundRow]) -> Cell:
    row = rows[0]
    if row.proven is None:
        return Cell("-")
    good = row.proven <= row.epsilon * _TOLERANCE
    return Cell(_epsilon(row.proven), mark="good" if good else "bad")


_CLAIMS: list[Column[list[ClaimBoundRow]]] = [
    Column("claimed by", lambda rows: rows[0].claimed_by, "name"),
    Column("for one", lambda rows: rows[0].unit or "?", "name"),
    Column("in a", lambda rows: rows[0].covers, "name"),
    Column("view", lambda rows: ", ".join(row.view or "?" for row in rows), "words"),
    Column("delta", lambda rows: f"{rows[0].delta:g}"),
    Column("declared", lambda rows: _epsilon(rows[0].epsilon)),
    Column("proven", _proven),
]

_FINDINGS: list[Column[DeclarationFinding]] = [
    Column("", lambda row: Cell(row.severity, mark=_MARKS[row.severity]), "name"),
    Column("code", lambda row: row.code, "name"),
    Column("check", lambda row: row.check, "words"),
    Column("what follows", lambda row: f"{row.field}: {row.follows}", "words"),
    Column("how to mend it", lambda row: row.mend, "words"),
]
