"""What an audit found: one row per view, unit, canary and claimed epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.auditing.audit import AuditResult
from foltr_audit.auditing.estimators import LowerBound
from foltr_audit.auditing.verdict import FALSE, Verdict, is_proven, refuse_contradiction
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import RunResult
from foltr_audit.privacy.observer_views import sees
from foltr_audit.report.results.base import DatasetFacts, Report, Setting, groups, utility_rows, warning_rows
from foltr_audit.report.results.whole_run import RunBoundRow
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.report.tables.brief.short_answer import BriefAnswer


@dataclass(frozen=True, kw_only=True)
class EstimateRow(ResultRow):
    """What one estimator of epsilon shows."""

    estimator: str
    eps_lower: float
    eps_ceiling: float
    confidence: float
    trials: int
    assumes: str

    @classmethod
    def of(cls, bound: LowerBound) -> EstimateRow:
        """The columns of a lower bound."""
        return cls(
            estimator=bound.estimator,
            eps_lower=bound.epsilon,
            eps_ceiling=bound.ceiling,
            confidence=bound.confidence,
            trials=bound.trials,
            assumes=bound.assumes,
        )


@dataclass(frozen=True, kw_only=True)
class FindingRow(ResultRow):
    """One finding of a run; infinities stand for what is not bounded. See `AuditResult` and `LowerBound`.

    Attributes:
        setting: what was run; its `eps_claimed` is that of the finding.
        run: its repetition.
        whole_run: what is proven for all of its rounds together; columns begin with `run_`.
    """

    setting: Setting = column(embedded=True)
    run: int
    view: str
    sees: str
    unit: str
    canary: str
    pair: str
    model: str
    interactions: int
    messages: int
    delta: float
    eps_upper: float
    eps_exact: float | None
    eps_lower: float
    eps_ceiling: float
    confidence: float
    trials: int
    verdict: Verdict
    why: str
    declared: str
    declared_why: str
    upper_how: str
    whole_run: RunBoundRow = column("run_", embedded=True)
    estimator: str
    assumes: str
    score: str
    estimates: tuple[EstimateRow, ...]

    @property
    def defense(self) -> str:
        """The chain that claims."""
        return self.setting.defense

    @classmethod
    def of(cls, finding: AuditResult, setting: Setting, spec: Spec) -> FindingRow:
        """The columns of a finding of a run."""
        return cls(
            setting=replace(setting, eps_claimed=finding.eps_claimed),
            run=spec.repetition,
            view=finding.view,
            sees=sees(finding.view, finding.colluders),
            unit=finding.unit,
            canary=finding.canary,
            pair=finding.about,
            model=finding.model,
            interactions=finding.interactions,
            messages=finding.messages,
            delta=finding.delta,
            eps_upper=finding.upper.epsilon,
            eps_exact=finding.exact,
            eps_lower=finding.lower.epsilon,
            eps_ceiling=finding.lower.ceiling,
            confidence=finding.lower.confidence,
            trials=finding.lower.trials,
            verdict=finding.verdict,
            why=finding.why,
            declared=finding.declared,
            declared_why=finding.declared_why,
            upper_how=finding.upper.how,
            whole_run=RunBoundRow.of(finding.run),
            estimator=finding.lower.estimator,
            assumes=finding.lower.assumes,
            score=finding.score,
            estimates=tuple(map(EstimateRow.of, finding.estimates)),
        )


@dataclass(frozen=True, kw_only=True)
class AuditReport(Report):
    """The result of `audit`.

    Attributes:
        results: one row per run, view, unit and canary.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/audit/1"

    results: tuple[FindingRow, ...]

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        from foltr_audit.report.tables.audit import print_audit

        print_audit(self, console)

    def short_answer(self) -> BriefAnswer:
        """The conclusion with one table."""
        from foltr_audit.report.tables.brief.audit import brief_audit

        return brief_audit(self)

    def figure(self) -> Figure:
        """For each finding the claimed epsilon, what is proven, and what trials show."""
        from foltr_audit.report.pictures.report_figures import audit_figure

        return audit_figure(self)

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[RunResult]) -> AuditReport:
        """The report on the cells of a plan."""
        return cls(
            config=plan.public.table(),
            dataset=DatasetFacts.of([cell.data for cell in cells]),
            utility=utility_rows(cells),
            warnings=warning_rows(cells),
            results=tuple(
                FindingRow.of(finding, group.setting, cell.spec)
                for group in groups(cells)
                for cell in group.cells
                for finding in cell.findings
            ),
        )

    def holds(self, *, require_proof: bool = False) -> bool:
        """Whether no claim is refuted or shown false, and each is proven if that is asked for.

        Raises:
            ContradictionError: a proof and what was found of the same claim cannot both be right.
        """
        refuse_contradiction(self.results)
        proven = all(is_proven(row.setting.eps_claimed, row.eps_upper) for row in self.results)
        return all(row.verdict not in FALSE for row in self.results) and (proven or not require_proof)
