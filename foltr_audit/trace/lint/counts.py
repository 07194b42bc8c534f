"""How many interactions stand behind each message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.rounds import ServerView


class CountCheck(LintCheck):
    """Counts n_c that differ between clients of one round."""

    name: ClassVar[str] = "counts"
    tells: ClassVar[str] = "how active each client was"
    of_integers: ClassVar[bool] = True
    of_anything: ClassVar[bool] = True

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        super().__init__(header, declared)
        self.tally = FindingTally()
        self.range: tuple[int, int] | None = None

    def look(self, seen: ServerView) -> None:
        """Compare the counts of a round with the first of them."""
        differ = seen.counts != seen.counts[0]
        self.tally.messages_of(seen.round, np.broadcast_to(differ.any(), differ.shape))
        if differ.any():
            low, high = int(seen.counts.min()), int(seen.counts.max())
            self.range = (low, high) if self.range is None else self.range
            self.range = (min(low, self.range[0]), max(high, self.range[1]))

    def findings(self) -> Iterator[LintFinding]:
        """One where counts differ in some round."""
        if self.range is None:
            return
        low, high = self.range
        text = (
            f"the counts of interactions travel in clear and differ within a round, from {low} to {high}: "
            "they tell how active each client was."
        )
        yield self.tally.finding(self.name, "leak", "messages", text)
