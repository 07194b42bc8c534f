"""The report of `lint`: for each system what it declares, what follows from it, and what is proven."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.core.declared.checks import DeclarationFinding, findings, why_not
from foltr_audit.core.declared.declared_system import DeclaredClaim, DeclaredSystem
from foltr_audit.core.declared.figures import proven
from foltr_audit.experiments.lint_subjects import LintSubject, SubjectKind
from foltr_audit.report.results.plain_report import PlainReport
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
        """A claim of a system."""
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
    """The report of `lint`.

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
        from foltr_audit.report.tables.system_lint import print_lint

        print_lint(self, console)

    @classmethod
    def of(cls, subjects: Iterable[LintSubject]) -> SystemLintReport:
        """The report on some systems."""
        rows = tuple(map(SystemLintRow.of, subjects))
        severities = [finding.severity for row in rows for finding in row.findings]
        return cls(errors=severities.count("error"), warnings=severities.count("warning"), systems=rows)
