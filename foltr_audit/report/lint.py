"""The leak lint of a trace on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.lint import CHECKS, Finding, Linted
from foltr_audit.lint.finding import number
from foltr_audit.report.layout import percent, table

if TYPE_CHECKING:
    from rich.table import Table


def lint_table(title: str, linted: Linted) -> Table:
    """The findings of one trace, leaks first."""
    size = f"{number(linted.messages, 'message')} in {number(linted.rounds, 'round')}"
    found = table(f"{escape(title)}: {size}", space=2)
    found.add_column("check", no_wrap=True)
    found.add_column("", no_wrap=True)
    found.add_column("share", justify="right", no_wrap=True)
    found.add_column("what it gives away", overflow="fold")
    for finding in linted.findings:
        style = "dim" if finding.severity == "note" else None
        found.add_row(finding.check, finding.severity, _share(finding), escape(_told(finding)), style=style)
    return found


def _share(finding: Finding) -> str:
    """The share and what of, on two lines."""
    if finding.share is None:
        return ""
    amount = "all" if finding.share == 1.0 else "< .1 %" if finding.share < 0.001 else percent(finding.share)
    return f"{amount} of\n{finding.of}"


def _told(finding: Finding) -> str:
    return finding.text if finding.example is None else f"{finding.text} First: {finding.example}."


def lint_lines(linted: Linted) -> Iterator[str]:
    """What was looked for in vain, what could not be looked for, and the sum of it."""
    found = {finding.check for finding in linted.findings}
    if not linted.rounds:
        yield "no round with messages is recorded: there is nothing to look at"
        return
    for check in CHECKS:
        if check.name not in found and check.name not in linted.not_looked:
            yield escape(f"nothing found of {check.name}: {check.tells}")
    for name, why in linted.not_looked.items():
        yield escape(f"not looked for {name}: {why}")
    leaks = linted.leaks
    yield f"{leaks} {'leak' if leaks == 1 else 'leaks'} found" if leaks else "no leak found"
