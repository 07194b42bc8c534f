"""Clients that had nothing to send, and show it."""

from __future__ import annotations

from foltr_audit.trace.lint.base import Findings, Gaps, LintCheck
from foltr_audit.trace.lint.findings import FindingTally, number
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView


class SilentClientCheck(LintCheck):
    """Messages without any change, missing messages, and clients that failed for lack of a change."""

    name = "silent"
    tells = "who had nothing to send, such as a client without clicks"
    of_integers = True

    def start(self) -> None:
        """No message is silent so far."""
        self.whole, self.nearly, self.missing = FindingTally(), FindingTally(), FindingTally()
        self.divided = FindingTally()

    def look(self, seen: ServerView) -> None:
        """Count silent messages, and those that are missing."""
        if seen.is_real:
            self.whole.messages_of(seen.round, seen.silent)
            self.nearly.messages_of(seen.round, seen.nearly_silent)
        if seen.averaged:  # messages of an experiment that nothing averages are no cohort
            sent = seen.messages.shape[0]
            missing = max(0, seen.shares - sent)
            self.missing.add(missing, max(seen.shares, sent), missing, f"round {seen.round}")
        if seen.cohort is not None:
            reasons = zip(seen.cohort.node.tolist(), seen.cohort.reason, strict=True)
            nodes = [node for node, reason in reasons if "division by zero" in reason]
            place = f"round {seen.round}, node {nodes[0] if nodes else ''}"
            self.divided.add(len(nodes), len(seen.cohort), len(nodes), place)

    def gaps(self) -> Gaps:
        """Messages without a change that do not look like it."""
        why = "masked messages hold integers" if self.header.kind == "masked" else self.declared.why_moved
        if why is not None:
            yield CoverageGap(part="messages without any change", why=why)

    def findings(self) -> Findings:
        """Silent, nearly silent and missing messages."""
        what = "are zero" if self.header.kind == "update" else "equal the global model"
        texts = (
            (
                self.whole,
                f"{what}, to twelve digits: these clients learnt nothing, and the server sees that.",
            ),
            (
                self.nearly,
                "leave most coordinates where they were while others of the round do not: the noise is too "
                "small to hide that these clients learnt next to nothing.",
            ),
            (
                self.missing,
                "fewer than the clients that the round expects: if clients without clicks stay away, the "
                "server sees that; their noise is missing too.",
            ),
        )
        for tally, text in texts:
            if tally.hits:
                yield self.leak(tally, f"{number(tally.hits, 'message')} {text}")
        if self.divided.hits:
            text = (
                f"{number(self.divided.hits, 'client')} failed with a division by zero, and the server was "
                "told so: a clip that divides by the norm of an update, as Flower's fixedclipping_mod and "
                "LocalDpMod do, fails where a client learnt nothing."
            )
            yield self.leak(self.divided, text)
