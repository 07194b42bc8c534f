"""What every check of the lint has in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.findings import LintFinding
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView


class LintCheck:
    """Looks at the rounds of one trace one after the other, then says what it found.

    Attributes:
        name: name of the check.
        tells: what the server learns from it, in a few words.
        of_integers: whether it also reads masked messages.
        of_anything: whether it also reads messages that are no models.
    """

    name: ClassVar[str]
    tells: ClassVar[str]
    of_integers: ClassVar[bool] = False
    of_anything: ClassVar[bool] = False

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        self.header = header
        self.declared = declared

    def not_applicable(self) -> str | None:
        """Why the trace with this header holds nothing to look at; None where it does."""
        return None

    def why_not(self) -> str | None:
        """Why this cannot be looked for in the trace with this header; None where it can."""
        return None

    def look(self, seen: ServerView) -> None:
        """Take one round that has messages."""
        raise NotImplementedError

    def findings(self) -> Iterator[LintFinding]:
        """What was found in all rounds."""
        raise NotImplementedError

    def gaps(self) -> Iterator[CoverageGap]:
        """What was not looked at in the rounds taken; nothing by default."""
        yield from ()

    def power(self) -> str | None:
        """How small a fault would have been found, in a few words; None where that is not told."""
        return None
