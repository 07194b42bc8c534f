"""Which coordinates a message changes at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView

LEAST_SHARE = 1e-3
"""Fewer coordinates than this share that stand still are no pattern."""


class SparsityCheck(LintCheck):
    """Coordinates that stand still in some messages of a round and not in others."""

    name: ClassVar[str] = "sparsity"
    tells: ClassVar[str] = "which coordinates a client changed"

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        super().__init__(header, declared)
        self.differ, self.lags = FindingTally(), FindingTally()

    def look(self, seen: ServerView) -> None:
        """Tell coordinates that nobody changes from those that some leave."""
        if not seen.active.any():
            return
        active = seen.active[:, np.newaxis]
        nobody = active & seen.still[seen.active].all(axis=0)
        self.lags.coordinates_of(seen.round, nobody, int(active.sum()) * nobody.shape[1])
        self.differ.coordinates_of(seen.round, seen.still & active & ~nobody, int((active & ~nobody).sum()))

    def gaps(self) -> Iterator[CoverageGap]:
        """Coordinates without a change that do not look like it, and patterns of unknown origin."""
        rounding, unknown = self.declared.rounding, self.declared.unknown
        if rounding is not None:
            why = f"{rounding.text} moves them away from the global model"
            yield CoverageGap(part="coordinates without any change", why=why)
        if unknown is not None and self.differ.share >= LEAST_SHARE:
            yield CoverageGap(
                part="whether the pattern tells of clicks", why=f"{unknown.text} is not known here"
            )

    def findings(self) -> Iterator[LintFinding]:
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
                "which coordinates stand still differs from message to message, among those that some "
                f"message of the round moves: {rest}"
            )
            leak = cause is None and unknown is None
            yield self.differ.finding(self.name, "leak" if leak else "note", "coordinates", text)
        if self.lags.share >= LEAST_SHARE:
            text = (
                "coordinates stand still in every message of the round that is not silent: the same for all, "
                "so it tells nothing about one of them."
            )
            yield self.lags.finding(self.name, "note", "coordinates", text)
