"""The report of `audit --trace` as a table on a terminal, with the reason for each verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.coin_audit import CoinAuditReport, CoinAuditRow
from foltr_audit.report.results.fact_warnings import given_text
from foltr_audit.report.results.wording import delta_text
from foltr_audit.report.tables.measured_bound import bound_columns, print_verdict
from foltr_audit.report.tables.table import Column, make_table

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
        console.print()
        shown = f"{row.right} of {row.guesses} guesses are right, score {row.score}"
        print_verdict(row, shown, console)


_QUANTITY = "epsilon of one interaction: neighbours differ in the clicks on one list"


_COLUMNS: list[Column[CoinAuditRow]] = [
    Column("clicks", lambda row: row.click_model, "name"),
    Column("sees", lambda row: row.sees, "name"),
    Column("coins", lambda row: str(row.coins)),
    *bound_columns(),
]
