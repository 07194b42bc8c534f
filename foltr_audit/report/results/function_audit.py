"""The report of `audit FILE.py:FUNCTION`: its row and its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.auditing.function_audit import FunctionFinding
from foltr_audit.auditing.verdict import FALSE
from foltr_audit.core.results import Verdict
from foltr_audit.core.settings.audit import FunctionAuditSpec
from foltr_audit.report.render.terminal import STYLES, print_table
from foltr_audit.report.results.audit import EstimateRow
from foltr_audit.report.results.base import WarningRow
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.results.wording import delta_text
from foltr_audit.report.tables.measured_bound import verdict_cell
from foltr_audit.report.tables.table import Column, make_table
from foltr_audit.utils.formatting import JsonValue, epsilon
from foltr_audit.utils.rows import ResultRow

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class FunctionAuditRow(ResultRow):
    """What trials show of a function on one pair of inputs; see `FunctionFinding` and `LowerBound`.

    Attributes:
        function: its name.
        eps_claimed: infinite without a claim.
        trials: evaluated trials with each input.
        repeats: why its noise repeats, in words; None where nothing says so.
    """

    function: str
    eps_claimed: float
    delta: float
    eps_lower: float
    eps_ceiling: float
    confidence: float
    trials: int
    verdict: Verdict
    why: str
    repeats: str | None
    estimator: str
    assumes: str
    score: str
    estimates: tuple[EstimateRow, ...]

    @classmethod
    def of(cls, finding: FunctionFinding, function: str) -> FunctionAuditRow:
        lower = finding.lower
        return cls(
            function=function,
            eps_claimed=finding.eps_claimed,
            delta=lower.delta,
            eps_lower=lower.epsilon,
            eps_ceiling=lower.ceiling,
            confidence=lower.confidence,
            trials=lower.trials,
            verdict=finding.verdict,
            why=finding.why,
            repeats=finding.repeats or None,
            estimator=lower.estimator,
            assumes=lower.assumes,
            score=finding.score,
            estimates=tuple(map(EstimateRow.of, finding.estimates)),
        )


@dataclass(frozen=True, kw_only=True)
class FunctionAuditReport(PlainReport):
    """The result of `audit FILE.py:FUNCTION`.

    Attributes:
        config: the settings.
        warnings: what a reader should know apart from the verdict.
        results: one row.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/audit-function/2"

    config: Mapping[str, JsonValue]
    warnings: tuple[WarningRow, ...]
    results: tuple[FunctionAuditRow, ...]

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        print_function_audit(self, console)

    @classmethod
    def of(cls, finding: FunctionFinding, function: str, spec: FunctionAuditSpec) -> FunctionAuditReport:
        return cls(
            config=spec.model_dump(mode="json", exclude_none=True),
            warnings=tuple(map(WarningRow.of, finding.notes)),
            results=(FunctionAuditRow.of(finding, function),),
        )

    @property
    def holds(self) -> bool:
        """Whether nothing was found: no claim is refuted, and no noise repeats."""
        return all(row.verdict not in FALSE and row.repeats is None for row in self.results)


_COLUMNS: list[Column[FunctionAuditRow]] = [
    Column("claimed", lambda row: epsilon(row.eps_claimed)),
    Column("lower bound", lambda row: f"{row.eps_lower:.2f}"),
    Column("at most", lambda row: f"{row.eps_ceiling:.2f}"),
    Column("verdict", lambda row: verdict_cell(row.eps_claimed, row.verdict), "name"),
]


def print_function_audit(report: FunctionAuditReport, console: Console) -> None:
    """The bound next to the claim, then the verdict and its reason."""
    (row,) = report.results
    delta = f", {delta_text(row.delta)}" if row.delta else ""
    print_table(
        make_table(
            f"{row.function}\nepsilon of one output{delta}",
            _COLUMNS,
            report.results,
            caption=f"measured: shown by {row.trials} trials with each input, at {100 * row.confidence:g} % "
            "confidence; at most: the most that so many can show",
            space=2,
            narrow_space=1,
            spare=("at most", "claimed"),
        ),
        console,
    )
    console.print()
    if row.repeats is not None:
        console.print(f"[{STYLES['bad']}]noise repeats[/]: {escape(row.repeats)}", highlight=False)
    cell = verdict_cell(row.eps_claimed, row.verdict)
    console.print(f"[{STYLES[cell.mark] or 'bold'}]{cell.text}[/]: {escape(row.why)}", highlight=False)
    assumed = f", which assumes {row.assumes}" if row.assumes else ""
    shown = f"lower bound {row.eps_lower:.2f}: score {row.score}, {row.estimator}{assumed}"
    console.print(escape(shown), highlight=False)
