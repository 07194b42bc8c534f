"""How many interactions stand behind each message."""

from __future__ import annotations

import numpy as np

from foltr_audit.trace.lint.base import Findings, LintCheck
from foltr_audit.trace.lint.findings import FindingTally
from foltr_audit.trace.lint.rounds import ServerView


class CountCheck(LintCheck):
    """Counts n_c that differ between clients of one round."""

    name = "counts"
    tells = "how active each client was"
    of_integers = True
    of_anything = True

    def start(self) -> None:
        """Nothing differs so far."""
        self.tally = FindingTally()
        self.ends: list[int] = []

    def look(self, seen: ServerView) -> None:
        """Compare the counts of a round with the first of them."""
        differ = seen.counts != seen.counts[0]
        self.tally.messages_of(seen.round, np.broadcast_to(differ.any(), differ.shape))
        if differ.any():
            ends = [*self.ends, int(seen.counts.min()), int(seen.counts.max())]
            self.ends = [min(ends), max(ends)]

    def findings(self) -> Findings:
        """One where counts differ in some round."""
        if self.tally.hits:
            low, high = self.ends
            text = (
                "the counts of interactions travel in clear and differ within a round, "
                f"from {low} to {high}: they reveal how active each client was."
            )
            yield self.leak(self.tally, text)
