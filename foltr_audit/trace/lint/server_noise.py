"""Noise that only the server adds, after it has read every message."""

from __future__ import annotations

import math

from foltr_audit.trace.lint.base import Findings, Gaps, LintCheck
from foltr_audit.trace.lint.findings import LintFinding, number
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView


class ServerNoiseCheck(LintCheck):
    """The average of the messages, compared with the model that the server continues with.

    The strategies of Flower for central differential privacy add noise to the average: it covers the
    published model, and no message.
    """

    name = "server-noise"
    tells = "noise that the server adds to the average and that covers no single message"

    def start(self) -> None:
        """No round differs so far."""
        self.apart: list[float] = []
        self.unknown = 0

    def not_applicable(self) -> str | None:
        """Only where a server averages messages that it can read."""
        if self.header.kind == "masked":
            return "messages are masked: the server reads their sum alone"
        return None if self.header.holds_models else "messages are no models"

    def look(self, seen: ServerView) -> None:
        """Take how far the next model is from the average of a round."""
        if not seen.averaged:
            return
        if seen.drift is None:
            self.unknown += 1
        elif seen.drift.any():
            self.apart.append(_root_mean_square(seen.drift.tolist()))

    def gaps(self) -> Gaps:
        """Rounds whose next model is not recorded."""
        if self.unknown:
            part = f"{number(self.unknown, 'round')} of {self.rounds:,}"
            yield CoverageGap(part=part, why="the model after them is not recorded")

    def findings(self) -> Findings:
        """A leak where only the server adds noise, as declared; a note where it seems to."""
        declared = [act.text for act in self.declared.acts or () if act.kind == "sum noise"]
        if not self.messages or self.declared.text is not None:
            return
        if declared:
            seen = ""
            if self.apart:
                seen = f", by {_root_mean_square(self.apart):.2g} a coordinate in this trace"
            yield self._finding(
                "leak",
                f"the server changes the average by noise ({'+'.join(declared)}){seen}, after it has read "
                "each message, and the header declares no noise on messages: it covers the published model, "
                "and leaves every single message bare.",
            )
        elif self.apart and "optimiser" not in self.header.knowledge:
            yield self._finding(
                "note",
                f"in {number(len(self.apart), 'round')} the next model is not the average of the messages, "
                f"by {_root_mean_square(self.apart):.2g} a coordinate: if the server adds noise there, it "
                "covers the published model, and no message.",
            )

    def _finding(self, severity: str, text: str) -> LintFinding:
        return LintFinding(
            check=self.name,
            severity="leak" if severity == "leak" else "note",
            text=text,
            rounds=self.rounds if severity == "leak" else len(self.apart),
            messages=self.messages,
        )


def _root_mean_square(values: list[float]) -> float:
    return math.hypot(*values) / math.sqrt(len(values))  # no square overflows
