"""Whether clients draw their perturbations from seeds of their own."""

from __future__ import annotations

import numpy as np

from foltr_audit.trace.lint.base import Findings, LintCheck
from foltr_audit.trace.lint.findings import FindingTally
from foltr_audit.trace.lint.rounds import ServerView


class SeedReuseCheck(LintCheck):
    """Seeds that occur in several messages."""

    name = "reused-seeds"
    tells = "which messages come from the same client"
    of_anything = True

    def start(self) -> None:
        """No seed has been seen yet."""
        self.tally = FindingTally()
        self.met = np.empty(0, dtype=np.uint64)

    def not_applicable(self) -> str | None:
        """Only messages with seeds."""
        return None if self.header.kind == "es" else "messages have no seeds"

    def look(self, seen: ServerView) -> None:
        """Compare the seeds of a round with each other and with all before."""
        if seen.seeds is None:
            return
        different, place, counts = np.unique(seen.seeds, return_inverse=True, return_counts=True)
        self.tally.messages_of(seen.round, (counts[place] > 1) | np.isin(seen.seeds, self.met))
        self.met = np.union1d(self.met, different)

    def findings(self) -> Findings:
        """One where a seed came twice."""
        if self.tally.hits:
            text = (
                "seeds occur in several messages: they reveal which messages belong together, and the "
                "metrics of one perturbation add up."
            )
            yield self.leak(self.tally, text)
