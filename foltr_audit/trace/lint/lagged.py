"""Numbers that move too much alike for independent noise, at fixed distances from each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from foltr_audit.trace.lint.findings import LintFinding
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView
from foltr_audit.trace.lint.windows import NoiseWindow, WindowCounter, inside, too_many
from foltr_audit.utils.arrays import Floats, Ints

FARTHEST = 16
"""Messages of one place are compared up to this many rounds apart, those of a round up to as many places."""

# Bounds on the cost of a round: neighbours are compared in all numbers, what is further apart in some.
_MOST_COORDINATES = 256
_MOST_NUMBERS, _FEW_NUMBERS = 1 << 17, 1 << 14  # of a round, where messages or coordinates are further apart

ALIKE = (
    "move too much alike for independent noise of the declared law: they share it, and their differences are "
    "free of it, or it is weaker than declared."
)
OPPOSITE = (
    "move too much against each other for independent noise of the declared law: one has the noise of the "
    "other with the opposite sign, and their sums are free of it."
)


class LagDifferences:
    """Differences, or sums, of two numbers whose noise should be independent, by their distance.

    Given one of the two, the other lies near it, or near its opposite, no more often than the law allows
    anywhere: the counts are at most binomial.
    """

    def __init__(
        self, windows: tuple[NoiseWindow, ...], farthest: int, words: Callable[[int], str], shows: str = ALIKE
    ) -> None:
        self.crowding = WindowCounter(windows, farthest)
        self.words = words
        self.shows = shows
        self.rounds = self.messages = 0
        self.example: str | None = None

    def add(self, round_: int, apart: int, differences: Floats, margin: float) -> None:
        """Take differences (M, P) of numbers that stand `apart`, each rounded by at most `margin`."""
        if not differences.size:
            return
        windows = self.crowding.windows
        hits = inside(windows, differences, None, margin)
        self.crowding.hits[:, apart - 1 : apart] += hits
        self.crowding.trials[apart - 1] += differences.size
        if apart == 1:
            self.rounds += 1
            self.messages += differences.shape[0]
        if self.example is None and hits.any() and too_many(windows, hits, differences.size).any():
            self.example = f"round {round_}"

    @property
    def found(self) -> bool:
        """Whether numbers at some distance are too much alike."""
        return bool(self.crowding.too_many.any())

    def findings(self, check: str) -> Iterator[LintFinding]:
        """One where too many differences are small."""
        if self.found:
            apart = int(np.argmax(self.crowding.too_many)) + 1
            yield LintFinding(
                check=check,
                severity="leak",
                text=f"{self.words(apart)} {self.shows}",
                rounds=self.rounds,
                messages=self.messages,
                example=self.example,
            )

    def lacks_power(self, ratios: Floats) -> bool:
        """Whether numbers are compared, and noise shared by all neighbours would not have been found."""
        if not self.crowding.trials[0]:
            return False
        return not self.crowding.part(np.arange(self.crowding.trials.size) == 0).would_detect(ratios)


class _EarlierRound(NamedTuple):
    """Some coordinates of an earlier round."""

    shape: tuple[int, ...]
    some: Floats
    resolution: float


class LagTests:
    """Compares messages of one place in two rounds, messages of one round, and coordinates of one message.

    Neighbours are compared in all numbers, those further apart in some where there are very many.
    """

    def __init__(self, windows: tuple[NoiseWindow, ...]) -> None:
        messages = partial(_places_apart, "messages of one round")
        coordinates = partial(_places_apart, "coordinates of one message")
        self.rounds_apart = LagDifferences(windows, FARTHEST, _rounds_apart)
        self.places_apart = LagDifferences(windows, FARTHEST, messages)
        self.coordinates_apart = LagDifferences(windows, _MOST_COORDINATES, coordinates)
        self.rounds_against = LagDifferences(windows, FARTHEST, _rounds_apart, OPPOSITE)
        self.places_against = LagDifferences(windows, FARTHEST, messages, OPPOSITE)
        self.past: deque[_EarlierRound] = deque(maxlen=FARTHEST)
        self.last: Floats = np.empty((0, 0))
        self.coordinates = 0

    def look(self, seen: ServerView) -> None:
        """Take a round."""
        changes, margin = seen.residuals, 2.0 * seen.resolution
        M, P = changes.shape
        some = changes[:, spread(P, max(1, _MOST_NUMBERS // M))]
        few = changes[spread(M, max(1, _FEW_NUMBERS // P))]
        for apart in range(1, min(FARTHEST, M - 1) + 1):
            rows = changes if apart == 1 else some
            self.places_apart.add(seen.round, apart, rows[apart:] - rows[:-apart], margin)
            self.places_against.add(seen.round, apart, rows[apart:] + rows[:-apart], margin)
        for apart in range(1, min(_MOST_COORDINATES, P - 1) + 1):
            rows = changes if apart == 1 else few
            self.coordinates_apart.add(seen.round, apart, rows[:, apart:] - rows[:, :-apart], margin)
        for apart, past in enumerate(reversed(self.past), start=1):
            if past.shape == changes.shape:
                now, then = (changes, self.last) if apart == 1 else (some, past.some)
                margin = seen.resolution + past.resolution
                self.rounds_apart.add(seen.round, apart, now - then, margin)
                self.rounds_against.add(seen.round, apart, now + then, margin)
        self.past.append(_EarlierRound(changes.shape, some, seen.resolution))
        self.last, self.coordinates = changes, P

    def findings(self, check: str) -> Iterator[LintFinding]:
        """Messages that are too much alike, among neighbours in a round and in successive rounds."""
        for alike, opposite in (
            (self.places_apart, self.places_against),
            (self.rounds_apart, self.rounds_against),
        ):
            yield from (alike if alike.found else opposite).findings(check)

    def gaps(self, ratios: Floats) -> Iterator[CoverageGap]:
        """Comparisons that could not detect shared noise, and numbers that were not compared."""
        for family, what in (
            (self.places_apart, "all messages of a round"),
            (self.rounds_apart, "all rounds"),
            (self.coordinates_apart, "all coordinates"),
        ):
            if family.lacks_power(ratios):
                why = "too few numbers, or clients change too much, for noise of that size"
                yield CoverageGap(part=f"noise that {what} share", why=why)
        if self.coordinates > _MOST_COORDINATES + 1:
            part = f"noise that coordinates more than {_MOST_COORDINATES} apart share"
            yield CoverageGap(part=part, why="there are too many to compare all")


def spread(count: int, most: int) -> Ints:
    """At most `most` of `count` places, evenly spread."""
    return np.unique(np.round(np.linspace(0, count - 1, min(count, most))).astype(np.int64))


def _rounds_apart(apart: int) -> str:
    where = "in successive rounds" if apart == 1 else f"{apart} rounds apart"
    return f"messages of the same place {where}"


def _places_apart(what: str, apart: int) -> str:
    return what + ("" if apart == 1 else f", {apart} places apart,")
