"""Clients that had nothing to send, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding, number
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView


class SilentClientCheck(LintCheck):
    """Messages without any change, and messages that are not there."""

    name: ClassVar[str] = "silent"
    tells: ClassVar[str] = "who had nothing to send, such as a client without clicks"
    of_integers: ClassVar[bool] = True

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        super().__init__(header, declared)
        self.whole, self.nearly = FindingTally(), FindingTally()
        self.missing = self.missing_rounds = self.expected = 0
        self.first_missing: str | None = None

    def look(self, seen: ServerView) -> None:
        """Count silent messages, and those that are missing."""
        if seen.is_real:
            self.whole.messages_of(seen.round, seen.silent)
            self.nearly.messages_of(seen.round, seen.nearly_silent)
        if seen.averaged:  # messages of an experiment that nothing averages are no cohort
            missing = max(0, seen.shares - seen.messages.shape[0])
            self.expected += max(seen.shares, seen.messages.shape[0])
            self.missing += missing
            self.missing_rounds += missing > 0
            if missing and self.first_missing is None:
                self.first_missing = f"round {seen.round}"

    def gaps(self) -> Iterator[CoverageGap]:
        """Messages without a change that do not look like it."""
        if self.header.kind == "masked":
            yield CoverageGap(part="messages without any change", why="masked messages hold integers")
        elif self.declared.rounding is not None:
            why = f"{self.declared.rounding.text} moves them away from the global model"
            yield CoverageGap(part="messages without any change", why=why)

    def findings(self) -> Iterator[LintFinding]:
        """Silent, nearly silent and missing messages."""
        if self.whole.hits:
            what = "are zero" if self.header.kind == "update" else "are the global model as it was"
            who = "these clients learnt nothing, and the server sees that"
            text = f"{number(self.whole.hits, 'message')} {what}, to twelve digits: {who}."
            yield self.whole.finding(self.name, "leak", "messages", text)
        if self.nearly.hits:
            text = (
                f"{number(self.nearly.hits, 'message')} leave most coordinates where they were while "
                "others of the round do not: the noise is too small to hide that these clients learnt "
                "next to nothing."
            )
            yield self.nearly.finding(self.name, "leak", "messages", text)
        if self.missing:
            yield LintFinding(
                check=self.name,
                severity="leak",
                text=f"{number(self.missing, 'message')} fewer than the clients that the round reckons with: "
                "if clients without clicks stay away, the server sees that; their noise is missing too.",
                rounds=self.missing_rounds,
                messages=self.missing,
                share=self.missing / self.expected,
                of="messages",
                example=self.first_missing,
            )
