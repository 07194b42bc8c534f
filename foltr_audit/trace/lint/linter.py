"""All checks over one trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.trace import Trace
from foltr_audit.trace.header import NO_MODELS, TraceHeader
from foltr_audit.trace.lint.all_checks import CHECKS
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import LintFinding
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import LintCheckRow, LintOutcome
from foltr_audit.trace.lint.rounds import ServerView
from foltr_audit.utils.rows import ResultRow


@dataclass(frozen=True, kw_only=True)
class LintRow(ResultRow):
    """A trace in a report, see `LintResult`: every check, what it did not look at, and what was found."""

    rounds: int
    rounds_without_messages: int
    messages: int
    noise_declared: str | None
    clean: bool
    checks: tuple[LintCheckRow, ...]
    findings: tuple[LintFinding, ...]


@dataclass(frozen=True, kw_only=True)
class LintResult:
    """What was looked for in a trace, and what was found.

    Attributes:
        rounds: rounds with messages.
        rounds_without: rounds of which no message is recorded.
        messages: messages in them.
        declared: the noise law as the header declares it; None where it does not.
        findings: leaks first.
        outcomes: the outcome of each check.
    """

    rounds: int
    rounds_without: int
    messages: int
    declared: str | None
    findings: tuple[LintFinding, ...]
    outcomes: tuple[LintOutcome, ...]

    @property
    def leaks(self) -> int:
        """Number of findings that are leaks."""
        return sum(finding.severity == "leak" for finding in self.findings)

    @property
    def clean(self) -> bool:
        """No leak, and no check that applies left anything of the messages out."""
        return not self.leaks and not any(outcome.is_missing or outcome.in_part for outcome in self.outcomes)

    @property
    def row(self) -> LintRow:
        """The trace in a report."""
        return LintRow(
            rounds=self.rounds,
            rounds_without_messages=self.rounds_without,
            messages=self.messages,
            noise_declared=self.declared,
            clean=self.clean,
            checks=tuple(outcome.row for outcome in self.outcomes),
            findings=self.findings,
        )


def lint(folder: Path) -> LintResult:
    """What the messages of a trace leak; reads `observed/` alone, and holds one part at a time.

    Raises:
        UsageError: no such folder.
        TraceError: a trace that is damaged, or holds a number that is not finite.
    """
    trace = Trace.open(folder)
    checked = Linter(trace.header)
    for record in trace.rounds():
        checked.take(record)
    return checked.done()


@dataclass
class Linter:
    """The checks of a trace with some header, while its rounds are taken."""

    header: TraceHeader
    declared: NoiseDeclaration = field(init=False)
    checks: tuple[LintCheck, ...] = field(init=False)
    rounds: int = 0
    rounds_without: int = 0
    messages: int = 0

    def __post_init__(self) -> None:
        self.declared = NoiseDeclaration.of(self.header)
        self.checks = tuple(check(self.header, self.declared) for check in CHECKS)
        self._refused = [self._why_not(check) for check in self.checks]

    def take(self, record: RoundRecord) -> None:
        """Look at one more round.

        Raises:
            TraceError: it holds a number that is not finite.
        """
        if not record.n_messages:
            self.rounds_without += 1
            return
        seen = ServerView.of(record, self.header.kind)
        self.rounds, self.messages = self.rounds + 1, self.messages + record.n_messages
        for check in self._running:
            check.take(seen)

    def done(self) -> LintResult:
        """The result over all rounds taken."""
        found = {check.name: list(check.findings()) for check in self._running}
        findings = [finding for several in found.values() for finding in several]
        return LintResult(
            rounds=self.rounds,
            rounds_without=self.rounds_without,
            messages=self.messages,
            declared=self.declared.text,
            findings=tuple(sorted(findings, key=lambda finding: finding.severity != "leak")),
            outcomes=tuple(self._outcomes(found)),
        )

    @property
    def _running(self) -> list[LintCheck]:
        return [check for check, why in zip(self.checks, self._refused, strict=True) if why is None]

    def _why_not(self, check: LintCheck) -> str | None:
        kind = self.header.kind
        if check.not_applicable() is not None:
            return check.not_applicable()
        if kind == "masked" and not check.of_integers:
            return "masked messages hold integers"
        if kind in NO_MODELS and not check.of_anything:
            return f"messages of kind {kind} are no models"
        return check.why_not()

    def _outcomes(self, found: dict[str, list[LintFinding]]) -> Sequence[LintOutcome]:
        nothing = None if self.rounds else "no message is recorded"
        return [
            LintOutcome(
                name=check.name,
                tells=check.tells,
                found=bool(found.get(check.name)),
                applies=check.not_applicable() is None,
                reason=refused or nothing,
                gaps=() if refused or nothing else tuple(check.gaps()),
                power=None if refused or nothing else check.power(),
            )
            for check, refused in zip(self.checks, self._refused, strict=True)
        ]
