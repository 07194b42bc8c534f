"""The leak lint: what the messages of a trace leak in addition to their payload, without truth or data set.

A check that could not look, or not at everything that it promises, says so: only what was compared is called
clean. Begin with: `checks.py`, then `noise_checks.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.trace import Trace
from foltr_audit.trace.declared_header import NoiseDeclaration
from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.checks import (
    ClearFieldCheck,
    ClearMetricCheck,
    CoverageGap,
    LintCheck,
    LintFinding,
    MaskSeedCheck,
    ServerView,
    ShareAnswerCheck,
    number,
)
from foltr_audit.trace.lint.noise_checks import NoiseReuseCheck, WeakNoiseCheck

CHECKS: Final[tuple[type[LintCheck], ...]] = (
    ClearMetricCheck,
    NoiseReuseCheck,
    WeakNoiseCheck,
    MaskSeedCheck,
    ShareAnswerCheck,
    ClearFieldCheck,
)
"""Every check, in the order of their findings."""

__all__ = ["CHECKS", "LintFinding", "LintOutcome", "LintResult", "Linter", "lint", "number"]


@dataclass(frozen=True, kw_only=True)
class LintOutcome:
    """The outcome of one check on one trace: `clean` only where all that it promises was looked at.

    `reason` says why it did not look at all, `applies` whether the trace holds anything of its kind, `power`
    the smallest fault that it would have found.
    """

    name: str
    tells: str
    state: Literal["found", "clean", "not looked"]
    reason: str | None
    applies: bool
    looked_in_part: bool
    not_looked_at: tuple[CoverageGap, ...]
    power: str | None

    @property
    def is_missing(self) -> bool:
        """Whether it should have looked and did not."""
        return self.applies and self.reason is not None


@dataclass(frozen=True, kw_only=True)
class LintResult:
    """What was looked for in a trace, and what was found, leaks first.

    `clean`: no leak, and no check that applies left anything of the messages out. `rounds` have messages.
    """

    rounds: int
    rounds_without_messages: int
    messages: int
    noise_declared: str | None
    clean: bool
    checks: tuple[LintOutcome, ...]
    findings: tuple[LintFinding, ...]

    @property
    def leaks(self) -> int:
        return sum(finding.severity == "leak" for finding in self.findings)


def lint(folder: Path) -> LintResult:
    """What the messages of a trace leak; reads `observed/` alone, and holds one part at a time.

    Raises:
        UsageError: no such folder.
        TraceError: a trace that is damaged, or holds a number that is not finite.
    """
    trace = Trace.open(folder)
    linter = Linter(trace.header)
    for record in trace.rounds():
        linter.take(record)
    return linter.done()


class Linter:
    """The checks of a trace, each with the reason why it does not look at it, while its rounds are taken."""

    def __init__(self, header: TraceHeader) -> None:
        self.header = header
        self.declared = NoiseDeclaration.of(header)
        checks = [check(header, self.declared) for check in CHECKS]
        self.checks = {check: check.not_applicable() or check.why_not() for check in checks}
        self.rounds = self.rounds_without = self.messages = 0

    def take(self, record: RoundRecord) -> None:
        if not record.n_messages:
            self.rounds_without += 1
            return
        seen = ServerView(record, self.header.kind)
        self.rounds, self.messages = self.rounds + 1, self.messages + record.n_messages
        for check, refusal in self.checks.items():
            if refusal is None:
                check.take(seen)

    def done(self) -> LintResult:
        outcomes, findings = [], []
        for check, refusal in self.checks.items():
            of_check = list(check.findings()) if refusal is None else []
            findings += of_check
            outcomes.append(self._outcome(check, refusal, found=bool(of_check)))
        leaks = any(finding.severity == "leak" for finding in findings)
        return LintResult(
            rounds=self.rounds,
            rounds_without_messages=self.rounds_without,
            messages=self.messages,
            noise_declared=self.declared.text,
            clean=not leaks and not any(outcome.is_missing or outcome.looked_in_part for outcome in outcomes),
            checks=tuple(outcomes),
            findings=tuple(sorted(findings, key=lambda finding: finding.severity != "leak")),
        )

    def _outcome(self, check: LintCheck, refusal: str | None, *, found: bool) -> LintOutcome:
        reason = refusal or (None if self.rounds else "no message is recorded")
        gaps = tuple(check.gaps()) if reason is None else ()
        return LintOutcome(
            name=check.name,
            tells=check.tells,
            state="found" if found else "not looked" if reason is not None or gaps else "clean",
            reason=reason,
            applies=check.not_applicable() is None,
            looked_in_part=bool(gaps),
            not_looked_at=gaps,
            power=check.power() if reason is None else None,
        )
