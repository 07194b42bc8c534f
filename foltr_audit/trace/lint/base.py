"""What every check of the lint has in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.findings import FindingTally, LintFinding
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView

Findings = Iterator[LintFinding]
Gaps = Iterator[CoverageGap]


class LintCheck:
    """Looks at the rounds of one trace one after the other, then says what it found.

    Attributes:
        name: name of the check.
        tells: what the server learns from it, in a few words.
        of_integers: whether it also reads masked messages.
        of_anything: whether it also reads messages that are no models.
        of_noise: whether it reads only messages whose header declares noise.
    """

    name: ClassVar[str]
    tells: ClassVar[str]
    of_integers: ClassVar[bool] = False
    of_anything: ClassVar[bool] = False
    of_noise: ClassVar[bool] = False

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        self.header = header
        self.declared = declared
        self.rounds = self.messages = 0
        self.start()

    def start(self) -> None:
        """Make the tallies of the check."""

    def not_applicable(self) -> str | None:
        """Why the trace with this header holds nothing to look at; None where it does."""
        return "the header declares no noise" if self.of_noise and self.declared.is_none else None

    def why_not(self) -> str | None:
        """Why this cannot be looked for in the trace with this header; None where it can."""
        return None

    def take(self, seen: ServerView) -> None:
        """Take one round that has messages."""
        self.rounds += 1
        self.messages += seen.messages.shape[0]
        self.look(seen)

    def look(self, seen: ServerView) -> None:
        """Look at one round, which `rounds` and `messages` count already."""
        raise NotImplementedError

    def findings(self) -> Findings:
        """What was found in all rounds."""
        raise NotImplementedError

    def gaps(self) -> Gaps:
        """What was not looked at in the rounds taken; nothing by default."""
        yield from ()

    def power(self) -> str | None:
        """The smallest fault that would have been found, in a few words; None where it is not known."""
        return None

    def leak(self, tally: FindingTally, text: str) -> LintFinding:
        """The finding of a tally, as a leak."""
        return tally.finding(self.name, "leak", text)

    def note(self, tally: FindingTally, text: str) -> LintFinding:
        """The finding of a tally, as something that reveals nothing about one client on its own."""
        return tally.finding(self.name, "note", text)
