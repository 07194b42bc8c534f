"""The report of `audit --trace` as a table on a terminal, with the reason for each verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.render.terminal import STYLES, print_table
from foltr_audit.report.results.coin_audit import CoinAuditReport, CoinAuditRow
from foltr_audit.report.results.fact_warnings import given_text
from foltr_audit.report.results.wording import delta_text, verdict_mark, verdict_text
from foltr_audit.report.tables.table import Cell, Column, make_table
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from rich.console import Console


def print_coin_audit(report: CoinAuditReport, console: Console) -> None:
    """The bound of each trace and view next to the claim, then the verdicts and their reasons."""
    known, first = report.config.get("known"), report.results[0]
    if isinstance(known, Mapping):
        console.print(escape(given_text(known)), highlight=False)
    delta = f", {delta_text(first.delta)}" if first.delta else ""
    print_table(
        make_table(
            f"{report.config['trace']}\n{_QUANTITY}{delta}",
            _COLUMNS,
            report.results,
            caption=f"measured: shown by right guesses of recorded coins, at {100 * first.confidence:g} % "
            "confidence; at most: the most that so many coins can show",
            space=2,
            narrow_space=1,
            spare=("at most", "claimed"),
        ),
        console,
    )
    for row in report.results:
        text = _verdict(row)
        style = STYLES[text.mark] or "bold"
        console.print()
        console.print(f"[{style}]{text.text}[/]: {escape(row.why)}", highlight=False)
        assumed = f", which assumes {row.assumes}" if row.assumes else ""
        console.print(
            escape(
                f"measured {row.eps_lower:.2f}: {row.right} of {row.guesses} guesses are right, score "
                f"{row.score}, {row.estimator}{assumed}"
            ),
            highlight=False,
        )


_QUANTITY = "epsilon of one interaction: neighbours differ in the clicks on one list"


def _verdict(row: CoinAuditRow) -> Cell:
    return Cell(verdict_text(row.eps_claimed, row.verdict), mark=verdict_mark(row.verdict))


_COLUMNS: list[Column[CoinAuditRow]] = [
    Column("clicks", lambda row: row.click_model, "name"),
    Column("sees", lambda row: row.sees, "name"),
    Column("coins", lambda row: str(row.coins)),
    Column("claimed", lambda row: epsilon(row.eps_claimed)),
    Column("measured", lambda row: f"{row.eps_lower:.2f}"),
    Column("at most", lambda row: f"{row.eps_ceiling:.2f}"),
    Column("verdict", _verdict, "name"),
]
