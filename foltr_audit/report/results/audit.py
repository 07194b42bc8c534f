"""What an audit found: one row per view, unit, canary and claimed epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from foltr_audit.auditing.audit import AuditResult
from foltr_audit.auditing.estimators import LowerBound
from foltr_audit.auditing.verdict import FALSE, is_proven, refuse_contradiction
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import RunResult
from foltr_audit.privacy.observer_views import sees
from foltr_audit.report.results.base import Report, Row, dataset_table, groups, utility_rows, warning_rows


@dataclass(frozen=True, kw_only=True)
class AuditReport(Report):
    """The result of `audit`.

    Attributes:
        results: one row per run, view, unit and canary.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/audit/1"

    results: list[Row]

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[RunResult]) -> AuditReport:
        """The report on the cells of a plan."""
        return cls(
            config=plan.table(),
            dataset=dataset_table([cell.data.plain() for cell in cells]),
            utility=utility_rows(cells),
            warnings=warning_rows(cells),
            results=[
                finding_row(finding, group.setting | {"run": cell.spec.repetition}, cell.spec.train.rounds)
                for group in groups(cells)
                for cell in group.cells
                for finding in cell.findings
            ],
        )

    def holds(self, *, require_proof: bool = False) -> bool:
        """Whether no claim is refuted or shown false, and each is proven if that is asked for.

        Raises:
            ContradictionError: a proof and what was found of the same claim cannot both be right.
        """
        refuse_contradiction(self.results)
        proven = all(is_proven(row["eps_claimed"], row["eps_upper"]) for row in self.results)
        return all(row["verdict"] not in FALSE for row in self.results) and (proven or not require_proof)


def finding_row(finding: AuditResult, setting: Row, rounds: int) -> Row:
    """One finding of a run of so many rounds as a plain row; infinities stand for what is not bounded."""
    return {
        **setting,
        "view": finding.view,
        "sees": sees(finding.view, finding.colluders),
        "unit": finding.unit,
        "canary": finding.canary,
        "pair": finding.about,
        "model": finding.model,
        "interactions": finding.interactions,
        "messages": finding.messages,
        "eps_claimed": finding.eps_claimed,
        "delta": finding.delta,
        "eps_upper": finding.upper.epsilon,
        "eps_exact": finding.exact,
        "eps_lower": finding.lower.epsilon,
        "eps_ceiling": finding.lower.ceiling,
        "confidence": finding.lower.confidence,
        "trials": finding.lower.trials,
        "verdict": finding.verdict,
        "why": finding.why,
        "declared": finding.declared,
        "declared_why": finding.declared_why,
        "upper_how": finding.upper.how,
        "eps_upper_run": finding.upper_run.epsilon,
        "rounds": rounds,
        "estimator": finding.lower.estimator,
        "assumes": finding.lower.assumes,
        "score": finding.score,
        "estimates": [_estimate(bound) for bound in finding.estimates],
    }


def _estimate(bound: LowerBound) -> Row:
    return {
        "estimator": bound.estimator,
        "eps_lower": bound.epsilon,
        "eps_ceiling": bound.ceiling,
        "confidence": bound.confidence,
        "trials": bound.trials,
        "assumes": bound.assumes,
    }
