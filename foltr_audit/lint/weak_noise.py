"""Whether the noise can be what the header declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from foltr_audit.lint.check import Check
from foltr_audit.lint.declared import Crowding, DeclaredNoise, inside, too_many
from foltr_audit.lint.finding import Finding, Tally, number
from foltr_audit.lint.seen import Seen
from foltr_audit.trace.header import TraceHeader


class WeakNoise(Check):
    """Too many small changes for the declared law: of single clients, of single coordinates, or of all.

    Whatever a client learns, its change plus symmetric unimodal noise lies in a window around 0 no more often
    than the noise alone (Anderson 1955), so that the count is at most binomial: one in a billion is refused.
    """

    name: ClassVar[str] = "weak-noise"
    tells: ClassVar[str] = "fields without noise, or with less of it than the header declares"

    def __init__(self, header: TraceHeader, declared: DeclaredNoise) -> None:
        super().__init__(header, declared)
        windows = declared.windows
        self.bare, self.columns = Tally(), Crowding(windows, header.parameters)
        self.first = self.rounds = self.messages = 0

    def why_not(self) -> str | None:
        """Only where the law of a whole message is known."""
        return why_not_by_law(self.declared)

    def look(self, seen: Seen) -> None:
        """Count the small changes of each message, and of each coordinate in the others."""
        windows = self.declared.windows
        if seen.resolution > 0.01 * windows[0].half:
            return
        M, P = seen.messages.shape
        bare = too_many(windows, inside(windows, seen.residuals, axis=1), P)
        self.bare.messages_of(seen.round, bare)
        rest = seen.residuals[~bare]
        self.columns.add(inside(windows, rest, axis=0), rest.shape[0])
        self.first = seen.round if not self.rounds else self.first
        self.rounds += 1
        self.messages += M

    def findings(self) -> Iterator[Finding]:
        """Bare messages, bare coordinates, or weak noise everywhere else."""
        law = self.declared.text
        if self.bare.hits:
            text = (
                f"{number(self.bare.hits, 'message')} hardly change too many of their coordinates to carry "
                f"independent noise of the declared law {law}."
            )
            yield self.bare.finding(self.name, "leak", "messages", text)
        bad = self.columns.too_many
        rest = Crowding(self.columns.windows)
        rest.add(self.columns.hits[:, ~bad].sum(axis=1, keepdims=True), int(self.columns.trials[~bad].sum()))
        if rest.too_many.any() or (bad.size > 1 and bad.all()):
            yield self._finding(
                f"all in all, messages change too little to carry noise of the declared law {law}.", 1.0
            )
        elif bad.any():
            which = np.flatnonzero(bad)
            named = ", ".join(str(column) for column in which[:5]) + (", ..." if which.size > 5 else "")
            text = f"coordinates {named} change too little to carry noise of the declared law {law}."
            yield self._finding(text, float(bad.mean()), f", coordinate {which[0]}")

    def _finding(self, text: str, share: float, more: str = "") -> Finding:
        return Finding(
            check=self.name,
            severity="leak",
            text=text,
            rounds=self.rounds,
            messages=self.messages,
            share=share,
            of="coordinates",
            example=f"round {self.first}{more}",
        )


def why_not_by_law(declared: DeclaredNoise) -> str | None:
    """Why messages cannot be held against the declared law; None where they can."""
    if declared.text is None:
        return "the header declares no noise law"
    if not declared.laws:
        return f"the law {declared.text} is not known here"
    if not declared.windows:
        return f"nearly all noise of {declared.text} is close to 0, so small changes prove nothing"
    if not declared.is_last:
        return f"after {declared.text} something else may change a message"
    return None
