"""Noise that is computed for less than the clip allows, as the header declares both."""

from __future__ import annotations

from foltr_audit.core.declared.checks import sensitivity
from foltr_audit.trace.declared_header import declared_by
from foltr_audit.trace.lint.base import Findings, LintCheck
from foltr_audit.trace.lint.findings import LintFinding
from foltr_audit.trace.lint.rounds import ServerView


class SensitivityCheck(LintCheck):
    """The fact `claimed_sensitivity` and the clip of the same header; `foltr-audit lint` has the rest.

    Flower's `LocalDpMod` takes a sensitivity and the norm of its clip as two parameters. Messages of two
    clients lie up to twice the norm apart.
    """

    name = "sensitivity"
    tells = "noise that is computed for a smaller distance than the clip allows"

    def not_applicable(self) -> str | None:
        """Only a header with a sensitivity of its own."""
        if "claimed_sensitivity" in self.header.knowledge:
            return None
        return "the header declares no sensitivity apart from a clip (fact claimed_sensitivity)"

    def why_not(self) -> str | None:
        """Without a clip there is nothing to compare it with."""
        if any(fact in self.header.knowledge for fact in ("local_dp_clip", "update_clip_norm", "events")):
            return None
        return "the header declares no clip (fact local_dp_clip)"

    def look(self, seen: ServerView) -> None:
        """The noise hides the distance of two messages: no message is compared."""

    def findings(self) -> Findings:
        """One for each noise that is too small."""
        for found in sensitivity(declared_by(self.header)):
            yield LintFinding(
                check=self.name,
                severity="leak" if found.severity == "error" else "note",
                text=f"{found.follows}; {found.mend}. This follows from the header; no message was compared.",
                rounds=self.rounds,
                messages=self.messages,
            )
