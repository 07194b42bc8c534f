"""Noise that is not drawn afresh for each client, coordinate and round, so that it can be taken off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.lint.check import Check
from foltr_audit.lint.declared import Crowding, DeclaredNoise, Window, inside, too_many
from foltr_audit.lint.finding import Finding, Tally, number
from foltr_audit.lint.seen import Bools, Seen
from foltr_audit.trace.header import TraceHeader


class ReusedNoise(Check):
    """Equal messages, equal changes in two rounds, one shift for all coordinates.

    Where the law is known, also differences that are too small for two independent draws. Given one of them,
    the other lies near it no more often than near 0 (Anderson 1955): counts are at most binomial.
    """

    name: ClassVar[str] = "reused-noise"
    tells: ClassVar[str] = "noise that can be taken off, as several numbers share it"
    of_integers: ClassVar[bool] = True

    def __init__(self, header: TraceHeader, declared: DeclaredNoise) -> None:
        super().__init__(header, declared)
        self.windows = () if header.kind == "masked" or not declared.is_last else declared.windows
        self.equal, self.again, self.constant, self.common = Tally(), Tally(), Tally(), Tally()
        self.between = _Between(self.windows, "messages of one round")
        self.in_time = _Between(self.windows, "messages of the same place in successive rounds")
        self.before: Seen | None = None

    def look(self, seen: Seen) -> None:
        """Compare the messages of a round with each other and with those of the round before."""
        counted = ~seen.silent if seen.is_real else seen.survivors
        self.equal.messages_of(seen.round, _of_several(seen.rows) & counted)
        if seen.is_real:
            self._of_real(seen, counted)
        elif self.before is not None:
            self.again.messages_of(seen.round, np.isin(seen.rows, self.before.rows) & counted)
        self.before = seen

    def _of_real(self, seen: Seen, counted: Bools) -> None:
        if self.before is not None:
            again = _among(seen.residuals, self.before.residuals) & counted
            self.again.messages_of(seen.round, again)
        if seen.messages.shape[1] >= 4:
            self.constant.messages_of(seen.round, (seen.levels == 1) & counted)
        if self.windows and seen.resolution <= 0.01 * self.windows[0].half:
            self._by_law(seen)

    def _by_law(self, seen: Seen) -> None:
        changes = seen.residuals
        pivots = changes[:, 1:] - changes[:, :1]
        self.common.messages_of(
            seen.round, too_many(self.windows, inside(self.windows, pivots, 1), pivots.shape[1])
        )
        self.between.add(seen.round, changes[1:] - changes[0])
        before = self.before
        if before is not None and before.messages.shape == seen.messages.shape:
            self.in_time.add(seen.round, changes - before.residuals)

    def findings(self) -> Iterator[Finding]:
        """What is shared, from the plainest to the subtlest."""
        for tally, text in (
            (
                self.equal,
                "equal another one of the round bit for bit: they share their noise, or it left no trace.",
            ),
            (
                self.again,
                "repeat a change of the round before bit for bit: noise was used again, or left no trace.",
            ),
            (self.constant, "shift all coordinates by one and the same number, which can be taken off."),
        ):
            if tally.hits:
                whole = f"{number(tally.hits, 'message')} {text}"
                yield tally.finding(self.name, "leak", "messages", whole)
        if self.common.hits > self.constant.hits:
            text = (
                f"within {number(self.common.hits, 'message')} the coordinates move too much alike for "
                "independent noise: they share it, and their differences are free of it."
            )
            yield self.common.finding(self.name, "leak", "messages", text)
        for between in (self.between, self.in_time):
            yield from between.findings(self.name)


class _Between:
    """Differences of two numbers whose noise should be independent."""

    def __init__(self, windows: tuple[Window, ...], what: str) -> None:
        self.crowding = Crowding(windows)
        self.what = what
        self.rounds = self.messages = 0
        self.example: str | None = None

    def add(self, round_: int, differences: NDArray[np.float64]) -> None:
        """Take differences (M, P) of a round."""
        if not differences.size:
            return
        hits = inside(self.crowding.windows, differences, axis=None)
        self.crowding.add(hits, differences.size)
        self.rounds += 1
        self.messages += differences.shape[0]
        if self.example is None and too_many(self.crowding.windows, hits, differences.size).any():
            self.example = f"round {round_}"

    def findings(self, check: str) -> Iterator[Finding]:
        """One where too many are small."""
        if self.crowding.too_many.any():
            yield Finding(
                check=check,
                severity="leak",
                text=f"{self.what} move too much alike for independent noise of the declared law: they share "
                "it, and their differences are free of it.",
                rounds=self.rounds,
                messages=self.messages,
                example=self.example,
            )


def _of_several(rows: NDArray[np.void]) -> Bools:
    """Which rows are there more than once, (M,)."""
    _, place, counts = np.unique(rows, return_inverse=True, return_counts=True)
    return np.asarray(counts[place.reshape(-1)] > 1)


def _among(changes: NDArray[np.float64], before: NDArray[np.float64]) -> Bools:
    """Which rows of (M, P) are rows of (N, P), bit for bit."""
    known = {row.tobytes() for row in before}
    return np.array([row.tobytes() in known for row in changes], dtype=np.bool_)
