"""What every check of the lint has in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from foltr_audit.lint.declared import DeclaredNoise
from foltr_audit.lint.finding import Finding
from foltr_audit.lint.seen import Seen
from foltr_audit.trace.header import TraceHeader


class Check:
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

    def __init__(self, header: TraceHeader, declared: DeclaredNoise) -> None:
        self.header = header
        self.declared = declared

    def why_not(self) -> str | None:
        """Why this cannot be looked for in the trace with this header; None where it can."""
        return None

    def look(self, seen: Seen) -> None:
        """Take one round that has messages."""
        raise NotImplementedError

    def findings(self) -> Iterator[Finding]:
        """What was found in all rounds."""
        raise NotImplementedError
