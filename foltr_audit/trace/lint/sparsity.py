"""Which coordinates a message changes at all."""

from __future__ import annotations

import numpy as np

from foltr_audit.trace.lint.base import Findings, Gaps, LintCheck
from foltr_audit.trace.lint.findings import FindingTally
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView

LEAST_SHARE = 1e-3
"""Fewer coordinates than this share that stay unchanged are no pattern."""


class SparsityCheck(LintCheck):
    """Coordinates that stay unchanged in some messages of a round and not in others."""

    name = "sparsity"
    tells = "which coordinates a client changed"

    def start(self) -> None:
        """No pattern has been seen yet."""
        self.differ, self.common = FindingTally("coordinates"), FindingTally("coordinates")

    def look(self, seen: ServerView) -> None:
        """Separate coordinates that nobody changes from those that only some messages leave."""
        if not seen.active.any():
            return
        active = seen.active[:, np.newaxis]
        nobody = active & seen.still[seen.active].all(axis=0)
        self.common.coordinates_of(seen.round, nobody, int(active.sum()) * nobody.shape[1])
        self.differ.coordinates_of(seen.round, seen.still & active & ~nobody, int((active & ~nobody).sum()))

    def gaps(self) -> Gaps:
        """Coordinates without a change that do not look like it, and patterns of unknown origin."""
        unknown = self.declared.unknown
        if self.declared.why_moved is not None:
            yield CoverageGap(part="coordinates without any change", why=self.declared.why_moved)
        if unknown is not None and self.differ.share >= LEAST_SHARE:
            why = f"{unknown.text} is not known here"
            yield CoverageGap(part="whether the pattern depends on clicks", why=why)

    def findings(self) -> Findings:
        """A pattern of each message's own, and one that all share."""
        if self.differ.share >= LEAST_SHARE:
            cause, unknown = self.declared.after_noise, self.declared.unknown
            noised = "" if self.declared.is_none else ", whatever noise the rest has"
            random = "unless it is drawn at random, " if self.declared.may_thin_out else ""
            rest = f"{random}the pattern depends on a client's lists and clicks{noised}."
            if cause is not None:
                rest = f"{cause.text}, as declared, makes such a pattern from noised numbers only."
            elif unknown is not None:
                rest = f"{unknown.text} may have made the pattern, and is not known here."
            text = (
                "the unchanged coordinates differ from message to message, among those that some message of "
                f"the round changes: {rest}"
            )
            leaks = cause is None and unknown is None
            yield self.leak(self.differ, text) if leaks else self.note(self.differ, text)
        if self.common.share >= LEAST_SHARE:
            text = (
                "coordinates stay unchanged in every message of the round that is not silent: the same for "
                "all, so it reveals nothing about one of them."
            )
            yield self.note(self.common, text)
