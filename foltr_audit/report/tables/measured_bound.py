"""Measured lower bounds next to claims: the cell of a verdict, columns and sentences that audits share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rich.markup import escape

from foltr_audit.report.render.terminal import STYLES
from foltr_audit.report.results.wording import verdict_mark, verdict_text
from foltr_audit.report.tables.table import Cell, Column
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from rich.console import Console


class MeasuredBound(Protocol):
    """A lower bound that was measured, and what it says of a claim."""

    @property
    def eps_claimed(self) -> float:
        """Infinite without a claim."""

    @property
    def eps_lower(self) -> float:
        """What is measured."""

    @property
    def eps_ceiling(self) -> float:
        """The most that so many trials can show."""

    @property
    def verdict(self) -> str:
        """The verdict on the claim."""

    @property
    def why(self) -> str:
        """The reason for the verdict."""

    @property
    def estimator(self) -> str:
        """Who measured."""

    @property
    def assumes(self) -> str:
        """What the estimator assumes; empty where it assumes nothing."""


def verdict_cell(claimed: float, verdict: str) -> Cell:
    """The verdict on a claimed epsilon."""
    return Cell(verdict_text(claimed, verdict), mark=verdict_mark(verdict))


def bound_columns() -> list[Column[MeasuredBound]]:
    """The claim, what is measured, the most that could be, and the verdict."""
    return [
        Column("claimed", lambda row: epsilon(row.eps_claimed)),
        Column("lower bound", lambda row: f"{row.eps_lower:.2f}"),
        Column("at most", lambda row: f"{row.eps_ceiling:.2f}"),
        Column("verdict", lambda row: verdict_cell(row.eps_claimed, row.verdict), "name"),
    ]


def print_verdict(row: MeasuredBound, shown: str, console: Console) -> None:
    """The verdict with its reason, and in a second line what was measured, `shown` by what."""
    cell = verdict_cell(row.eps_claimed, row.verdict)
    console.print(f"[{STYLES[cell.mark] or 'bold'}]{cell.text}[/]: {escape(row.why)}", highlight=False)
    assumed = f", which assumes {row.assumes}" if row.assumes else ""
    console.print(
        escape(f"lower bound {row.eps_lower:.2f}: {shown}, {row.estimator}{assumed}"), highlight=False
    )
