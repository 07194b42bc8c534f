"""The outcomes of a check as a rich table on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text

from foltr_audit.checking.outcomes import Outcome
from foltr_audit.checking.report import CheckReport
from foltr_audit.report.layout import print_warnings, table

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"holds": "green", "broken": "bold red", "not judged": "yellow"}
_LEAST = {"limit": 16, "": 10, "value": 5, "allowed": 12}
"""Of the columns that a narrow terminal must not squeeze."""


def print_check(report: CheckReport, console: Console) -> None:
    """A table per subject with what its rows are of, the warnings, and all of it in one line."""
    for subject in dict.fromkeys(one.subject for one in report.outcomes):
        found = table(None, space=2)
        for heading in ("limit", "", "value", "interval", "allowed"):
            numeric = heading in ("value", "interval")
            found.add_column(
                heading, justify="right" if numeric else "left", no_wrap=True, min_width=_LEAST.get(heading)
            )
        mine = [one for one in report.outcomes if one.subject == subject]
        for one in mine:
            found.add_row(*_cells(one))
        console.print(escape(subject), style="italic", highlight=False)
        console.print(found)
        for one in mine:
            console.print(f"  {escape(_behind(one))}", style="dim", highlight=False)
        console.print()
    print_warnings(report.warnings, console)
    console.print(report.summary, style="bold", highlight=False)


def _cells(one: Outcome) -> tuple[str | Text, ...]:
    status = Text(one.status, style=_STYLES[one.status])
    return one.limit, status, escape(one.value_text), one.interval_text(), one.allowed_text


def _behind(one: Outcome) -> str:
    """What a row of the table is of."""
    return f"{one.limit}: {one.missing if one.status == 'not judged' else one.about}"
