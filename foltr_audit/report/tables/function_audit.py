"""The report of `audit-function` as a table on a terminal, with the reason for its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.render.terminal import STYLES, print_table
from foltr_audit.report.results.function_audit import FunctionAuditReport, FunctionAuditRow
from foltr_audit.report.results.wording import delta_text
from foltr_audit.report.tables.measured_bound import verdict_cell
from foltr_audit.report.tables.table import Column, make_table
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from rich.console import Console


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
