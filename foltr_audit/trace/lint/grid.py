"""Values on a few distinct numbers."""

from __future__ import annotations

import numpy as np

from foltr_audit.trace.lint.base import Findings, Gaps, LintCheck
from foltr_audit.trace.lint.findings import FindingTally, number
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import LEAST_VALUES, ServerView

_LEAST_MOVES = 8
_LEAST_SHARE = 0.5  # of a round's messages; single ones have few values where documents look alike


class GridCheck(LintCheck):
    """Quantised messages or signs: no leak on their own."""

    name = "grid"
    tells = "that values lie on few numbers, such as signs or steps"

    def start(self) -> None:
        """No message lies on a grid so far."""
        self.tally = FindingTally()
        self.small = 0

    def look(self, seen: ServerView) -> None:
        """Count messages that take few values, alone or all together."""
        moves = (~seen.still).sum(axis=1)
        self.small += bool(moves.max() < _LEAST_MOVES and moves.sum() < LEAST_VALUES)
        few = (moves >= _LEAST_MOVES) & (seen.levels > 1) & (4 * (seen.levels - 1) <= moves)
        few &= few.sum() >= _LEAST_SHARE * seen.active.sum()
        together = seen.active & (moves > 0) & seen.on_grid
        self.tally.messages_of(seen.round, few | np.asarray(together))

    def gaps(self) -> Gaps:
        """Rounds with too few numbers to judge."""
        if self.small:
            why = f"fewer than {LEAST_VALUES} numbers, and no message with {_LEAST_MOVES}, are changed"
            yield CoverageGap(part=f"{number(self.small, 'round')} of {self.rounds:,}", why=why)

    def findings(self) -> Findings:
        """One where messages lie on a grid."""
        if self.tally.hits:
            text = (
                f"{number(self.tally.hits, 'message')} hold few distinct values, as after quantising or "
                "taking signs: no leak on its own, but continuous noise was not added after that."
            )
            yield self.note(self.tally, text)
