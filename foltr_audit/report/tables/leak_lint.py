"""The leak lint of a trace on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.tables.columns import percent
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.trace.lint import LintFinding, LintOutcome, LintResult, number


@dataclass(frozen=True, kw_only=True)
class LintReport(PlainReport):
    """The result of `trace lint`.

    Attributes:
        clean: whether nothing leaks from any trace, and every check looked at all that it promises.
        traces: the traces by their folders.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/trace-lint/2"

    clean: bool
    traces: Mapping[str, LintResult]

    @classmethod
    def of(cls, found: Mapping[str, LintResult]) -> LintReport:
        """The report on some traces."""
        return cls(clean=all(linted.clean for linted in found.values()), traces=found)


def lint_table(title: str, linted: LintResult) -> Table:
    """The findings of one trace, leaks first."""
    size = f"{number(linted.messages, 'message')} in {number(linted.rounds, 'round')}"
    return make_table(
        f"{title}: {size}", _COLUMNS, linted.findings, space=2, dim=lambda one: one.severity == "note"
    )


def _share(finding: LintFinding) -> Cell:
    """The share, and of what, on two lines."""
    if finding.share is None:
        return Cell("")
    amount = "all" if finding.share == 1.0 else "< .1 %" if finding.share < 0.001 else percent(finding.share)
    return Cell(f"{amount} of", finding.of or "")


def _text(finding: LintFinding) -> str:
    return finding.text if finding.example is None else f"{finding.text} First: {finding.example}."


_COLUMNS: list[Column[LintFinding]] = [
    Column("check", lambda finding: finding.check, "name"),
    Column("", lambda finding: finding.severity, "name"),
    Column("share", _share),
    Column("what it reveals", _text, "fold"),
]


def lint_lines(linted: LintResult) -> Iterator[str]:
    """The checks that found nothing or could not look, and a summary."""
    if not linted.rounds:
        yield "no round with messages is recorded: there is nothing to look at"
        return
    for outcome in linted.checks:
        if outcome.state == "clean":
            yield f"{outcome.name}: ok, nothing found of {outcome.tells}{_power(outcome)}"
    for outcome in linted.checks:
        if outcome.looked_in_part:
            yield _in_part(outcome)
    for outcome in sorted(linted.checks, key=lambda outcome: not outcome.applies):
        if outcome.reason is not None:
            begin = "could not look" if outcome.applies else "not applicable"
            yield f"{outcome.name}: {begin}, {outcome.reason}"
    if linted.rounds_without_messages:
        rounds = number(linted.rounds_without_messages, "round")
        yield f"{rounds} without recorded messages could not be looked at"
    yield _summary(linted)


def _in_part(outcome: LintOutcome) -> str:
    """One check that looked in part: what it left out, by the reason."""
    parts: dict[str, list[str]] = {}
    for gap in outcome.not_looked_at:
        parts.setdefault(gap.why, []).append(gap.part)
    left = "; ".join(f"not at {', nor at '.join(each)}: {why}" for why, each in parts.items())
    seen = "" if outcome.state == "found" else f"nothing found of {outcome.tells}{_power(outcome)}; "
    return f"{outcome.name}: looked in part, {seen}{left}"


def _power(outcome: LintOutcome) -> str:
    return f" ({outcome.power})" if outcome.power else ""


def _summary(linted: LintResult) -> str:
    """The closing line, e.g. `no leak found; 2 checks could not look, 1 looked in part`."""
    leaks = linted.leaks
    found = f"{number(leaks, 'leak')} found" if leaks else "no leak found"
    missing = sum(outcome.is_missing for outcome in linted.checks)
    in_part = sum(outcome.looked_in_part for outcome in linted.checks)
    left = [f"{number(missing, 'check')} could not look"] if missing else []
    if in_part:
        left.append(f"{in_part if missing else number(in_part, 'check')} looked in part")
    return f"{found}; {', '.join(left)}" if left else found
