"""Prints the outcomes of a check on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text

from foltr_audit.evidence.check.limit_check import LimitOutcome
from foltr_audit.evidence.check.report import CheckReport
from foltr_audit.report.tables.layout import Column, print_fitting, rows_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_STYLES = {"holds": "green", "broken": "bold red", "not judged": "yellow"}


def print_check(report: CheckReport, console: Console) -> None:
    """Print a table for each subject with the details of its rows, and a summary line."""
    for subject in dict.fromkeys(one.subject for one in report.outcomes):
        mine = [one for one in report.outcomes if one.subject == subject]
        console.print(escape(subject), style="italic", highlight=False)
        print_fitting(partial(_outcomes, mine), ("interval",), console)
        for one in mine:
            console.print(f"  {escape(_details(one))}", style="dim", highlight=False)
        console.print()
    console.print(report.summary, style="bold", highlight=False)


def _outcomes(several: Sequence[LimitOutcome], narrow: bool) -> Table:
    def value(one: LimitOutcome) -> str:
        return escape(one.value_text.replace("by ", "by\n") if narrow else one.value_text)

    columns = [
        Column("limit", lambda one: one.limit, "name"),
        Column("", lambda one: Text(one.status, style=_STYLES[one.status]), "name"),
        Column("value", value),
        Column("interval", lambda one: one.interval_text()),
        Column("allowed", lambda one: one.allowed_text, "name"),
    ]
    return rows_table(None, None, columns, several, space=0 if narrow else 2)


def _details(one: LimitOutcome) -> str:
    """The details of a row of the table."""
    return f"{one.limit}: {one.missing if one.status == 'not judged' else one.about}"
