"""The report of `audit --no-trials`: its rows and its table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.core.declared.checks import DeclarationFinding, digits, findings, why_not
from foltr_audit.core.declared.declared_system import DeclaredClaim, DeclaredSystem, proven
from foltr_audit.experiments.lint_subjects import LintSubject, SubjectKind
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.tables.table import Cell, Column, Mark, Table, make_table
from foltr_audit.utils.rows import ResultRow

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class ClaimBoundRow(ResultRow):
    """A claim next to what accounting proves of it.

    Attributes:
        claimed_by: a defense, or a fact of a header.
        epsilon, delta, unit, relation, view: the claim; null where it does not say.
        covers: what it is about, always one `round`.
        proven: the proven epsilon, infinite where none is; null where too little is declared.
        how: how it is proven, or what would have to be declared.
    """

    claimed_by: str
    epsilon: float
    delta: float
    unit: str | None
    relation: str | None
    view: str | None
    covers: str
    proven: float | None
    how: str

    @classmethod
    def of(cls, system: DeclaredSystem, claim: DeclaredClaim) -> ClaimBoundRow:
        bound = proven(system, claim)
        missing = why_not(system, claim)
        return cls(
            claimed_by=claim.name,
            epsilon=claim.epsilon,
            delta=claim.delta,
            unit=claim.unit,
            relation=claim.relation,
            view=claim.view,
            covers="round",
            proven=None if bound is None else bound.epsilon,
            how=f"not declared: {missing}" if bound is None else bound.how,
        )


@dataclass(frozen=True, kw_only=True)
class SystemLintRow(ResultRow):
    """What was found in one system.

    Attributes:
        name: its name.
        kind: where its declarations come from: `Spec` or `trace`.
        claims: its claims, each next to what is proven.
        findings: what does not agree, errors first.
    """

    name: str
    kind: SubjectKind
    claims: tuple[ClaimBoundRow, ...]
    findings: tuple[DeclarationFinding, ...]

    @classmethod
    def of(cls, subject: LintSubject) -> SystemLintRow:
        """The row of a system, after all checks."""
        return cls(
            name=subject.name,
            kind=subject.kind,
            claims=tuple(ClaimBoundRow.of(subject.system, claim) for claim in subject.system.claims),
            findings=findings(subject.system),
        )


@dataclass(frozen=True, kw_only=True)
class SystemLintReport(PlainReport):
    """The report of `audit --no-trials`.

    Attributes:
        errors, warnings: number of findings of either severity.
        systems: the systems, in order.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/lint/1"

    errors: int
    warnings: int
    systems: tuple[SystemLintRow, ...]

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        print_lint(self, console)

    @classmethod
    def of(cls, subjects: Iterable[LintSubject]) -> SystemLintReport:
        rows = tuple(map(SystemLintRow.of, subjects))
        severities = [finding.severity for row in rows for finding in row.findings]
        return cls(errors=severities.count("error"), warnings=severities.count("warning"), systems=rows)


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
