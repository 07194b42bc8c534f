"""The cell of a verdict on a claim, which tables of audits share."""

from __future__ import annotations

from foltr_audit.report.results.wording import verdict_mark, verdict_text
from foltr_audit.report.tables.table import Cell


def verdict_cell(claimed: float, verdict: str) -> Cell:
    """The verdict on a claimed epsilon."""
    return Cell(verdict_text(claimed, verdict), mark=verdict_mark(verdict))
