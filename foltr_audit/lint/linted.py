"""All checks over one trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foltr_audit.lint.check import Check
from foltr_audit.lint.checks import CHECKS
from foltr_audit.lint.declared import DeclaredNoise
from foltr_audit.lint.finding import Finding
from foltr_audit.lint.seen import Seen
from foltr_audit.trace import Trace
from foltr_audit.trace.header import NO_MODELS


@dataclass(frozen=True, kw_only=True)
class Linted:
    """What was looked for in a trace, and what was found.

    Attributes:
        rounds: rounds with messages.
        messages: messages in them.
        declared: the noise law as the header declares it; None where it does not.
        findings: leaks first.
        not_looked: name of each check that could not run, and why.
    """

    rounds: int
    messages: int
    declared: str | None
    findings: tuple[Finding, ...]
    not_looked: dict[str, str]

    @property
    def leaks(self) -> int:
        """Number of findings that are leaks."""
        return sum(finding.severity == "leak" for finding in self.findings)

    def table(self) -> dict[str, Any]:
        """Everything as one plain table, with every check and why it did not run."""
        return {
            "rounds": self.rounds,
            "messages": self.messages,
            "noise_declared": self.declared,
            "clean": not self.leaks,
            "checks": [
                {"name": check.name, "tells": check.tells, "not_looked": self.not_looked.get(check.name)}
                for check in CHECKS
            ],
            "findings": [vars(finding) for finding in self.findings],
        }


def lint(folder: Path) -> Linted:
    """What the messages of a trace give away; reads `observed/` alone, and holds one part at a time.

    Raises:
        UsageError: no such folder.
        TraceError: a trace that is damaged, or holds a number that is not finite.
    """
    trace = Trace.open(folder)
    header = trace.header
    declared = DeclaredNoise.of(header)
    checks = [check(header, declared) for check in CHECKS]
    refused = {check.name: why for check in checks if (why := _why_not(check, header.kind)) is not None}
    running = [check for check in checks if check.name not in refused]
    rounds = messages = 0
    for record in trace.rounds():
        if not record.n_messages:
            continue
        seen = Seen.of(record, header.kind)
        rounds, messages = rounds + 1, messages + record.n_messages
        for check in running:
            check.look(seen)
    found = [finding for check in running for finding in check.findings()]
    return Linted(
        rounds=rounds,
        messages=messages,
        declared=declared.text,
        findings=tuple(sorted(found, key=lambda finding: finding.severity != "leak")),
        not_looked=refused,
    )


def _why_not(check: Check, kind: str) -> str | None:
    if kind == "masked" and not check.of_integers:
        return "masked messages hold integers"
    if kind in NO_MODELS and not check.of_anything:
        return f"messages of kind {kind} are no models"
    return check.why_not()
