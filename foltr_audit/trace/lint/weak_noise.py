"""Whether the noise can be what the header declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding, number
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView
from foltr_audit.trace.lint.windows import WindowCounter, enough_trials, inside, too_many

HALF = 0.5
"""Noise with at most this share of the declared variance must be told from it."""

_SHARES = (0.95, 0.9, 0.8, 0.7, 0.6, HALF)


class WeakNoiseCheck(LintCheck):
    """Too many small changes for the declared law: of single clients, of single coordinates, or of all.

    Whatever a client learns, its change plus the noise lies in a window around 0 no more often than the noise
    lies in the most probable window of that width (`concentration`), so that the count is at most binomial:
    one in a billion is refused. What clients learn can hide missing noise, never feign it.
    """

    name: ClassVar[str] = "weak-noise"
    tells: ClassVar[str] = "fields without noise, or with less of it than the header declares"

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        super().__init__(header, declared)
        windows = () if declared.why_not else declared.windows
        self.bare, self.columns = FindingTally(), WindowCounter(windows, header.parameters)
        self.first = self.rounds = self.messages = self.coarse = 0

    def not_applicable(self) -> str | None:
        """Nothing without noise."""
        return "the header declares no noise" if self.declared.is_none else None

    def why_not(self) -> str | None:
        """Only where the law of a whole message is known."""
        return self.declared.why_not

    def look(self, seen: ServerView) -> None:
        """Count the small changes of each message, and of each coordinate in the others."""
        windows = self.columns.windows
        self.first = self.first if self.rounds else seen.round
        self.rounds += 1
        if seen.is_too_coarse(windows[-1].half):
            self.coarse += 1
            return
        M, P = seen.messages.shape
        bare = too_many(windows, inside(windows, seen.residuals, 1, seen.resolution), P)
        self.bare.messages_of(seen.round, bare)
        rest = seen.residuals[~bare]
        self.columns.add(inside(windows, rest, 0, seen.resolution), rest.shape[0])
        self.messages += M

    def findings(self) -> Iterator[LintFinding]:
        """Bare messages, bare coordinates, or weak noise everywhere else."""
        law = self.declared.text
        if self.bare.hits:
            text = (
                f"{number(self.bare.hits, 'message')} hardly change too many of their coordinates to carry "
                f"independent noise of the declared law {law}."
            )
            yield self.bare.finding(self.name, "leak", "messages", text)
        bad = self.columns.too_many
        if self.columns.part(~bad).too_many.any() or (bad.size > 1 and bad.all()):
            yield self._finding(
                f"all in all, messages change too little to carry noise of the declared law {law}.", 1.0
            )
        elif bad.any():
            which = np.flatnonzero(bad)
            named = ", ".join(str(column) for column in which[:5]) + (", ..." if which.size > 5 else "")
            text = f"coordinates {named} change too little to carry noise of the declared law {law}."
            yield self._finding(text, float(bad.mean()), f", coordinate {which[0]}")

    def gaps(self) -> Iterator[CoverageGap]:
        """Rounds with coarse numbers, and what too few numbers cannot tell."""
        if self.coarse:
            some = f"{number(self.coarse, 'round')} of {self.rounds:,}"
            yield CoverageGap(part=some, why="numbers are rounded more coarsely than the noise is wide")
        if not self.messages:
            return
        windows, P = self.columns.windows, self.header.parameters
        if not enough_trials(windows, P):
            yield CoverageGap(part="noise missing in one message", why=_too_few(P))
        rows = int(self.columns.trials.max())
        if not enough_trials(windows, rows):
            yield CoverageGap(part="noise missing in one coordinate", why=_too_few(rows))
        if self._told() is None:
            why = f"{_too_few(rows * P)}, or clients change too much"
            yield CoverageGap(part="noise of half the declared variance", why=why)

    def power(self) -> str | None:
        """The weakest fault of all noise that would have been found."""
        share = self._told() if self.messages else None
        if share is None:
            return None
        return f"noise of {share:.0%} of the declared variance in all numbers would have been found"

    def _told(self) -> float | None:
        """The largest share of the variance that would have been told from the whole; None below a half."""
        pooled, ratios = self.columns.pooled(), self.declared.ratios_of_weaker
        return next((share for share in _SHARES if pooled.would_detect(ratios(share))), None)

    def _finding(self, text: str, share: float, more: str = "") -> LintFinding:
        return LintFinding(
            check=self.name,
            severity="leak",
            text=text,
            rounds=self.rounds - self.coarse,
            messages=self.messages,
            share=share,
            of="coordinates",
            example=f"round {self.first}{more}",
        )


def _too_few(count: int) -> str:
    return f"{number(count, 'number')} are too few for noise that is mostly so small"
