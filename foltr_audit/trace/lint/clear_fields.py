"""What travels in clear next to the payload, and whether anything covers the payload itself."""

from __future__ import annotations

from foltr_audit.trace.lint.base import Findings, LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding, number
from foltr_audit.trace.lint.rounds import ServerView


class ClearFieldCheck(LintCheck):
    """Queries, shown lists, features and drop-outs; a header that declares no noise."""

    name = "clear-fields"
    tells = "what is not covered at all: queries, lists, drop-outs, messages without noise"
    of_integers = True
    of_anything = True

    def start(self) -> None:
        """Nothing is recorded so far."""
        self.lost, self.failed = FindingTally(), FindingTally()
        self.listed_rounds = self.interactions = 0
        self.features = False

    def look(self, seen: ServerView) -> None:
        """Count what is recorded next to the payload."""
        self.interactions += seen.interactions
        self.listed_rounds += seen.interactions > 0
        self.features |= seen.features and seen.interactions > 0
        self.lost.messages_of(seen.round, ~seen.survivors)
        if seen.cohort is not None:
            failed = sum(outcome != "arrived" for outcome in seen.cohort.outcome)
            self.failed.add(failed, len(seen.cohort), failed, f"round {seen.round}")

    def findings(self) -> Findings:
        """One for each kind of field."""
        if not self.rounds:
            return
        if self.header.kind != "masked" and self.declared.text is None:
            yield self._payload()
        if self.interactions:
            what = "query, shown list and order of display"
            what += ", with the documents' features," if self.features else ""
            yield LintFinding(
                check=self.name,
                severity="note",
                text=f"{what} of {number(self.interactions, 'interaction')} {self._who_knows}.",
                rounds=self.listed_rounds,
                messages=self.messages,
            )
        if self.lost.hits:
            noise = "" if self.declared.text is None else "; the noise in them is missing from the sum"
            text = (
                f"{number(self.lost.hits, 'message')} did not enter the average, and the server knows which"
            )
            yield self.note(self.lost, f"{text}{noise}.")
        if self.failed.hits:
            text = (
                f"{number(self.failed.hits, 'request')} to clients, of {self.failed.looked:,}, had no "
                "answer: the server knows whose, and of those that failed why."
            )
            yield self.note(self.failed, text)

    @property
    def _who_knows(self) -> str:
        if self.header.knowledge.get("lists_known") == "auditor":
            return "are recorded for the auditor, and this server does not have them"
        return (
            "are recorded as known to the server: with them it can look for the clicks that explain a message"
        )

    def _payload(self) -> LintFinding:
        """What covers the payload where the header declares no noise law."""
        declared = self.declared
        chain = declared.chain or "not stated"
        text = "the header says nothing about noise: what covers the payload is unknown."
        if declared.in_clear:
            text = f"the payload itself travels in clear, without any noise (defenses: {chain})."
        elif declared.is_none:
            text = f"the header declares no noise law; this lint cannot judge whether {chain} hides enough."
        return LintFinding(
            check=self.name,
            severity="leak" if declared.in_clear else "note",
            text=text,
            rounds=self.rounds,
            messages=self.messages,
            share=1.0,
            of="messages",
        )
