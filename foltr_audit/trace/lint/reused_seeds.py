"""Whether clients draw their perturbations from seeds of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.rounds import ServerView


class SeedReuseCheck(LintCheck):
    """Seeds that stand in several messages, of one round or of different ones."""

    name: ClassVar[str] = "reused-seeds"
    tells: ClassVar[str] = "which messages come from the same client, or from a weak generator"
    of_anything: ClassVar[bool] = True

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        super().__init__(header, declared)
        self.tally = FindingTally()
        self.met = np.empty(0, dtype=np.uint64)

    def not_applicable(self) -> str | None:
        """Nothing but of messages with seeds."""
        return None if self.header.kind == "es" else "messages have no seeds"

    def look(self, seen: ServerView) -> None:
        """Compare the seeds of a round with each other and with all before."""
        if seen.seeds is None:
            return
        different, place, counts = np.unique(seen.seeds, return_inverse=True, return_counts=True)
        again = (counts[place] > 1) | np.isin(seen.seeds, self.met)
        self.tally.messages_of(seen.round, again)
        self.met = np.union1d(self.met, different)

    def findings(self) -> Iterator[LintFinding]:
        """One where a seed came twice."""
        if not self.tally.hits:
            return
        text = (
            "seeds stand in several messages: they tell which messages belong together, and the metrics of "
            "one perturbation add up."
        )
        yield self.tally.finding(self.name, "leak", "messages", text)
