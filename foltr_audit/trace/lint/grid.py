"""Values on a few distinct numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding, number
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import LEAST_VALUES, ServerView

_LEAST_MOVES = 8
_LEAST_SHARE = 0.5  # of a round's messages; single ones have few values where documents look alike


class GridCheck(LintCheck):
    """Quantised messages or signs: no leak by themselves."""

    name: ClassVar[str] = "grid"
    tells: ClassVar[str] = "that values lie on few numbers, such as signs or steps"

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        super().__init__(header, declared)
        self.tally = FindingTally()
        self.rounds = self.small = 0

    def look(self, seen: ServerView) -> None:
        """Count messages that take few values, alone or all together."""
        moves = (~seen.still).sum(axis=1)
        self.rounds += 1
        self.small += bool(moves.max() < _LEAST_MOVES and moves.sum() < LEAST_VALUES)
        few = (moves >= _LEAST_MOVES) & (seen.levels > 1) & (4 * (seen.levels - 1) <= moves)
        few &= few.sum() >= _LEAST_SHARE * seen.active.sum()
        together = seen.active & (moves > 0) & seen.on_grid
        self.tally.messages_of(seen.round, few | np.asarray(together))

    def gaps(self) -> Iterator[CoverageGap]:
        """Rounds with too few numbers to judge."""
        if self.small:
            yield CoverageGap(
                part=f"{number(self.small, 'round')} of {self.rounds:,}",
                why=f"fewer than {LEAST_VALUES} numbers, and no message with {_LEAST_MOVES}, are changed",
            )

    def findings(self) -> Iterator[LintFinding]:
        """One where messages lie on a grid."""
        if self.tally.hits:
            text = (
                f"{number(self.tally.hits, 'message')} hold few distinct values, as after quantising or "
                "taking signs: no leak by itself, but continuous noise was not added after that."
            )
            yield self.tally.finding(self.name, "note", "messages", text)
