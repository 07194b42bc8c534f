"""Messages of any two clients in any two rounds that share their noise."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from foltr_audit.trace.lint.findings import LintFinding, number
from foltr_audit.trace.lint.lagged import FARTHEST, spread
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView
from foltr_audit.trace.lint.windows import SURE, NoiseWindow, enough_trials, inside, too_many
from foltr_audit.utils.arrays import Bools, Floats, Ints, Words

MOST_COORDINATES = 256
"""At most this many coordinates of each message are compared, evenly spread."""

MOST_NUMBERS = 1 << 23
"""At most this many numbers are stored, of the first messages: 64 MiB."""

_NEIGHBOURS = 4  # in a cell, each message is compared with this many before it
_CELL = 0.6  # probability of the widest cells
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: multiplicative hashing (Knuth)


class NearDuplicateSearch:
    """Finds pairs of messages that differ by less than two independent draws would.

    All pairs are too many to compare. Messages that share their noise fall into the same cells of a coarse
    grid in nearly all coordinates, others in few: several groups of coordinates are chosen, and messages
    compared that agree in all cells of a group. The test of a pair accounts for all pairs of the trace.

    Source: Gionis, Indyk & Motwani 1999, "Similarity search in high dimensions via hashing", section 3, on
    the search.
    """

    def __init__(self, windows: tuple[NoiseWindow, ...]) -> None:
        self.windows = windows
        self._rows: list[Floats] = []
        self._where: list[tuple[int, Ints, float]] = []
        self.count = self.left_out = self.coordinates = self.width = 0

    def look(self, seen: ServerView, counted: Bools) -> None:
        """Store the messages of a round that count."""
        which = np.flatnonzero(counted)
        P = seen.messages.shape[1]
        columns = spread(P, MOST_COORDINATES)
        kept = which[: max(0, MOST_NUMBERS // columns.size - self.count)]
        self._rows.append(seen.residuals[np.ix_(kept, columns)])
        self._where.append((seen.round, kept, seen.resolution))
        self.count += kept.size
        self.left_out += which.size - kept.size
        self.coordinates, self.width = P, columns.size

    @property
    def _sure(self) -> float:
        """How rare a pair must be, so that chance yields one in a billion traces (Bonferroni)."""
        return SURE / max(1, self.count * (self.count - 1) // 2 * len(self.windows))

    @property
    def lacks_power(self) -> bool:
        """Whether two messages with the same noise could not be distinguished from others."""
        return self.count > 1 and not enough_trials(self.windows, self.width, self._sure)

    def findings(self, check: str) -> Iterator[LintFinding]:
        """One where some message shares its noise with one before it."""
        if self.count < 2 or self.lacks_power:
            return
        earlier = self._earlier()
        later_ones = np.flatnonzero(earlier >= 0)
        if not later_ones.size:
            return
        text = (
            f"{number(int(later_ones.size), 'message')} and another one each, of the same or an earlier "
            "round, move too much alike for independent noise of the declared law: they share it, and their "
            "differences are free of it."
        )
        rounds = np.concatenate([np.full(places.size, round_) for round_, places, _ in self._where])
        places = np.concatenate([places for _, places, _ in self._where])
        first, other = int(later_ones[0]), int(earlier[later_ones[0]])
        yield LintFinding(
            check=check,
            severity="leak",
            text=text,
            rounds=int(np.unique(rounds[later_ones]).size),
            messages=int(later_ones.size),
            share=later_ones.size / self.count,
            of="messages",
            example=f"round {rounds[first]}, message {places[first]}, with round {rounds[other]}, message "
            f"{places[other]}",
        )

    def gaps(self) -> Iterator[CoverageGap]:
        """Messages and coordinates that were left out, or all of them."""
        if self.lacks_power:
            far = f"messages more than {FARTHEST} places or rounds apart"
            why = f"{number(self.width, 'coordinate')} are too few for noise that is mostly so small"
            yield CoverageGap(part=f"noise that two single messages or {far} share", why=why)
            return
        if self.left_out:
            part = f"noise that the last {number(self.left_out, 'message')} share with messages far from them"
            yield CoverageGap(
                part=part, why=f"only the first {self.count:,} are compared with all before them"
            )
        if self.width < self.coordinates:
            part = f"noise shared outside of {self.width} of {self.coordinates:,} coordinates"
            yield CoverageGap(part=part, why="there are too many to compare all")

    def _earlier(self) -> Ints:
        """For each message the row of an earlier one that it shares its noise with, -1 without, (R,)."""
        values = np.concatenate(self._rows)
        margins = np.concatenate([np.full(places.size, size) for _, places, size in self._where])
        found = np.full(values.shape[0], -1, dtype=np.int64)
        for key in self._keys(values):
            order = np.argsort(key, kind="stable")
            for back in range(1, min(_NEIGHBOURS, order.size - 1) + 1):
                same = key[order[back:]] == key[order[:-back]]
                later, earlier = order[back:][same], order[:-back][same]
                open_ = found[later] < 0
                later, earlier = later[open_], earlier[open_]
                margin = (margins[later] + margins[earlier])[:, np.newaxis]
                hits = inside(self.windows, values[later] - values[earlier], 1, margin)
                alike = too_many(self.windows, hits, self.width, self._sure)
                found[later[alike]] = earlier[alike]
        return found

    def _keys(self, values: Floats) -> Iterator[Words]:
        """The cells that messages lie in, as one number each, for several choices of coordinates (R,)."""
        cells = [window for window in self.windows if window.probability <= _CELL] or [self.windows[0]]
        cell = cells[-1]
        apart = -math.log(min(cell.probability, 0.99))
        group = min(self.width, max(1, math.ceil(math.log(max(2, self.count / 2)) / apart)))
        for first in range(0, self.width - group + 1, group):
            for shift in (0.0, 0.5):
                places = np.floor(values[:, first : first + group] / (2.0 * cell.half) + shift)
                whole = np.clip(places, -(2.0**62), 2.0**62).astype(np.int64).view(np.uint64)
                key = np.zeros(values.shape[0], dtype=np.uint64)
                for column in range(group):
                    key = (key ^ whole[:, column]) * _MIX
                    key ^= key >> np.uint64(29)
                yield key
