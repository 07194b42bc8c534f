"""Whether the noise can be what the header declares."""

from __future__ import annotations

import numpy as np

from foltr_audit.trace.lint.base import Findings, Gaps, LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding, number
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import TOO_COARSE, ServerView
from foltr_audit.trace.lint.windows import WindowCounter, enough_trials, inside, too_many

HALF = 0.5
"""Noise with at most this share of the declared variance must be distinguished from it."""

_SHARES = (0.95, 0.9, 0.8, 0.7, 0.6, HALF)


class WeakNoiseCheck(LintCheck):
    """Too many small changes for the declared law: of single clients, of single coordinates, or of all.

    Whatever a client learns, its change plus the noise lies in a window around 0 no more often than the noise
    lies in the most probable window of that width (`concentration`), so that the count is at most binomial:
    one in a billion is refused. What clients learn can hide missing noise, never feign it.
    """

    name = "weak-noise"
    tells = "fields without noise, or with less of it than the header declares"
    of_noise = True

    def start(self) -> None:
        """Nothing has been counted yet."""
        windows = () if self.declared.why_not else self.declared.windows
        self.bare, self.columns = FindingTally(), WindowCounter(windows, self.header.parameters)
        self.first = self.judged = self.coarse = 0

    def why_not(self) -> str | None:
        """Only where the law of a whole message is known."""
        return self.declared.why_not

    def look(self, seen: ServerView) -> None:
        """Count the small changes of each message, and of each coordinate in the others."""
        windows = self.columns.windows
        self.first = seen.round if self.rounds == 1 else self.first
        if seen.is_too_coarse(windows[-1].half):
            self.coarse += 1
            return
        M, P = seen.messages.shape
        bare = too_many(windows, inside(windows, seen.residuals, 1, seen.resolution), P)
        self.bare.messages_of(seen.round, bare)
        # Bare messages have a finding of their own. Counted here too, they would make every coordinate look
        # weak.
        rest = seen.residuals[~bare]
        self.columns.add(inside(windows, rest, 0, seen.resolution), rest.shape[0])
        self.judged += M

    def findings(self) -> Findings:
        """Bare messages, bare coordinates, or weak noise everywhere else."""
        law = f"the declared law {self.declared.text}."
        if self.bare.hits:
            text = (
                f"{number(self.bare.hits, 'message')} hardly change too many of their coordinates to carry "
                f"independent noise of {law}"
            )
            yield self.leak(self.bare, text)
        bad = self.columns.too_many
        if self.columns.part(~bad).too_many.any() or (bad.size > 1 and bad.all()):
            yield self._finding(f"all in all, messages change too little to carry noise of {law}", 1.0)
        elif bad.any():
            which = np.flatnonzero(bad)
            named = ", ".join(str(column) for column in which[:5]) + (", ..." if which.size > 5 else "")
            text = f"coordinates {named} change too little to carry noise of {law}"
            yield self._finding(text, float(bad.mean()), f", coordinate {which[0]}")

    def gaps(self) -> Gaps:
        """Rounds with coarse numbers, and faults for which there are too few numbers."""
        if self.coarse:
            yield CoverageGap(part=f"{number(self.coarse, 'round')} of {self.rounds:,}", why=TOO_COARSE)
        if not self.judged:
            return
        windows, P = self.columns.windows, self.header.parameters
        rows = int(self.columns.trials.max())
        for what, count in (("message", P), ("coordinate", rows)):
            if not enough_trials(windows, count):
                yield CoverageGap(part=f"noise missing in one {what}", why=_too_few(count))
        if self._detectable() is None:
            why = f"{_too_few(rows * P)}, or clients change too much"
            yield CoverageGap(part="noise of half the declared variance", why=why)

    def power(self) -> str | None:
        """The weakest fault of all noise that would have been found."""
        share = self._detectable() if self.judged else None
        if share is None:
            return None
        return f"noise of {share:.0%} of the declared variance in all numbers would have been found"

    def _detectable(self) -> float | None:
        """The largest share of the variance that would have been found; None below a half."""
        pooled, ratios = self.columns.pooled(), self.declared.ratios_of_weaker
        return next((share for share in _SHARES if pooled.would_detect(ratios(share))), None)

    def _finding(self, text: str, share: float, more: str = "") -> LintFinding:
        return LintFinding(
            check=self.name,
            severity="leak",
            text=text,
            rounds=self.rounds - self.coarse,
            messages=self.judged,
            share=share,
            of="coordinates",
            example=f"round {self.first}{more}",
        )


def _too_few(count: int) -> str:
    return f"{number(count, 'number')} are too few for noise that is mostly so small"
