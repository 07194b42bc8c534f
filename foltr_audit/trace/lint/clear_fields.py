"""What travels in clear beside the payload, and whether anything covers the payload itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import LintFinding, number
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.rounds import ServerView


class ClearFieldCheck(LintCheck):
    """Queries, shown lists, features and drop-outs; a header that declares no noise."""

    name: ClassVar[str] = "clear-fields"
    tells: ClassVar[str] = "what is not covered at all: queries, lists, drop-outs, messages without noise"
    of_integers: ClassVar[bool] = True
    of_anything: ClassVar[bool] = True

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        super().__init__(header, declared)
        self.rounds = self.messages = self.listed_rounds = self.interactions = self.lost = 0
        self.lost_rounds = 0
        self.features = False
        self.first_lost: str | None = None

    def look(self, seen: ServerView) -> None:
        """Count what is recorded beside the payload."""
        self.rounds += 1
        self.messages += seen.messages.shape[0]
        self.interactions += seen.interactions
        self.listed_rounds += seen.interactions > 0
        self.features |= seen.features and seen.interactions > 0
        lost = int((~seen.survivors).sum())
        self.lost += lost
        self.lost_rounds += lost > 0
        if lost and self.first_lost is None:
            self.first_lost = f"round {seen.round}, message {int(seen.survivors.argmin())}"

    def findings(self) -> Iterator[LintFinding]:
        """One for each kind of field."""
        if not self.rounds:
            return
        if self.header.kind != "masked":
            yield from self._noise()
        if self.interactions:
            what = "query, shown list and order of display"
            what += ", with the documents' features," if self.features else ""
            yield LintFinding(
                check=self.name,
                severity="note",
                text=f"{what} of {number(self.interactions, 'interaction')} are recorded as known to the "
                "server: with them it can look for the clicks that explain a message.",
                rounds=self.listed_rounds,
                messages=self.messages,
            )
        if self.lost:
            yield LintFinding(
                check=self.name,
                severity="note",
                text=f"{number(self.lost, 'message')} did not enter the average, and the server knows which"
                + ("." if self.declared.text is None else "; the noise in them is missing from the sum."),
                rounds=self.lost_rounds,
                messages=self.lost,
                share=self.lost / self.messages,
                of="messages",
                example=self.first_lost,
            )

    def _noise(self) -> Iterator[LintFinding]:
        declared = self.declared
        chain = declared.chain or "not told"
        if declared.text is not None:
            return
        text = "the header says nothing about noise: what covers the payload is unknown."
        if declared.in_clear:
            text = f"the payload itself travels in clear, without any noise (defenses: {chain})."
        elif declared.is_none:
            text = f"the header declares no noise law; whether {chain} hides enough, this lint cannot tell."
        yield LintFinding(
            check=self.name,
            severity="leak" if declared.in_clear else "note",
            text=text,
            rounds=self.rounds,
            messages=self.messages,
            share=1.0,
            of="messages",
        )
