"""The checks that compare messages with each other and with the noise that the header declares."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foltr_audit.core.records.interactions import Payload
from foltr_audit.recorder.trace_format import NO_MODELS
from foltr_audit.trace.declared_header import NoiseWindow
from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.checks import (
    CoverageGap,
    Findings,
    FindingTally,
    Gaps,
    LintCheck,
    LintFinding,
    ServerView,
    number,
)
from foltr_audit.utils.arrays import Bools, Floats, Ints, Words

SURE = 1e-9
"""A test refuses what chance does at most this often."""

_DEVIATIONS = 2.0  # standard deviations that a count may fall short by, where the power of a test is judged

_INTEGERS = "masked messages hold integers"
_TOO_COARSE = "numbers are rounded more coarsely than the noise is wide"


def inside(
    windows: Sequence[NoiseWindow], values: Floats, axis: int | None, margin: float | Floats = 0.0
) -> Ints:
    """How many values lie inside each window, along an axis, (windows, size).

    Windows are narrower by `margin`, by which rounding may have moved a value; it broadcasts to the values.
    """
    size = np.abs(values) + margin
    counts = [np.count_nonzero(size < window.half, axis=axis) for window in windows]
    return np.array(counts, dtype=np.int64).reshape(len(windows), -1)


def too_many(windows: Sequence[NoiseWindow], hits: Ints, trials: ArrayLike, sure: float = SURE) -> Bools:
    """Where more trials lie in a window than chance explains, (windows, size) -> (size,)."""
    from scipy.special import bdtrc

    if not windows:
        return np.zeros(hits.shape[1:], dtype=np.bool_)
    most = np.array([window.probability for window in windows])[:, np.newaxis]
    whole = np.broadcast_to(np.asarray(trials, dtype=np.int64), hits.shape)
    # bdtrc(h - 1, n, p) is the chance of h hits or more. It keeps its digits far below 1e-9, where 1 - cdf
    # would be nothing but rounding.
    rare = np.where(hits > 0, bdtrc(np.maximum(hits - 1, 0), np.maximum(whole, 1), most), 1.0)
    return np.asarray((rare < sure).any(axis=0))


def enough_trials(windows: Sequence[NoiseWindow], trials: int, sure: float = SURE) -> bool:
    """Whether `trials` numbers that all lie inside the windows would be too many."""
    whole = np.full((len(windows), 1), trials, dtype=np.int64)
    return bool(trials > 0 and too_many(windows, whole, trials, sure).any())


class WindowCounter:
    """Counts numbers inside windows, and compares the counts with the most that the law allows.

    Each look adds trials that lie in a window with at most the window's probability, whatever the trials
    before were, so that their sum is at most binomial.
    """

    def __init__(self, windows: Sequence[NoiseWindow], size: int = 1) -> None:
        self.windows = tuple(windows)
        self.hits = np.zeros((len(self.windows), size), dtype=np.int64)
        self.trials = np.zeros(size, dtype=np.int64)

    def add(self, hits: Ints, trials: int) -> None:
        self.hits += hits
        self.trials += trials

    def part(self, which: Bools) -> WindowCounter:
        """The counts of some numbers (size,) together."""
        part = WindowCounter(self.windows)
        part.add(self.hits[:, which].sum(axis=1, keepdims=True), int(self.trials[which].sum()))
        return part

    @property
    def too_many(self) -> Bools:
        """Where some window holds more than chance explains, (size,)."""
        return too_many(self.windows, self.hits, self.trials)

    def would_detect(self, ratios: Floats) -> bool:
        """Whether a fault would have been found that puts `ratios` (windows,) as many numbers into windows.

        It takes the numbers seen, and a count a little below the expected one. True does not mean that there
        is no such fault: what clients learn can hide it.
        """
        trials = self.trials[np.newaxis].astype(np.float64)
        expected = np.minimum(self.hits * ratios[:, np.newaxis], trials)
        spread = np.sqrt(expected * (1.0 - expected / np.maximum(trials, 1.0)))
        short = np.maximum(expected - _DEVIATIONS * spread, 0.0)
        return bool(too_many(self.windows, short.astype(np.int64), self.trials).any())


FARTHEST = 16
"""Messages of one place are compared up to this many rounds apart, those of a round up to as many places."""

MOST_COORDINATES = 256
"""Coordinates of a message are compared up to this many apart, and at most as many of two far messages."""

# Bounds on the cost of a round: neighbours are compared in all numbers, what is further apart in some.
_MOST_NUMBERS, _FEW_NUMBERS = 1 << 17, 1 << 14  # of a round, where messages or coordinates are further apart

ALIKE = (
    "move too much alike for independent noise of the declared law: they share it, and their differences are "
    "free of it, or it is weaker than declared."
)
OPPOSITE = (
    "move too much against each other for independent noise of the declared law: one has the noise of the "
    "other with the opposite sign, and their sums are free of it."
)


class LagTests:
    """Compares messages of one place in two rounds, messages of one round, and coordinates of one message.

    Given one of two numbers whose noise should be independent, the other lies near it, or near its opposite,
    no more often than the law allows anywhere: counts of their differences, or sums, are at most binomial.
    Neighbours are compared in all numbers, those further apart in some where there are very many.
    """

    def __init__(self, windows: tuple[NoiseWindow, ...]) -> None:
        farthest = {"rounds": FARTHEST, "messages": FARTHEST, "coordinates": MOST_COORDINATES}
        sides = [(what, sign) for what in farthest for sign in (-1, 1) if (what, sign) != ("coordinates", 1)]
        self.counts = {side: WindowCounter(windows, farthest[side[0]]) for side in sides}
        self.tallies = {side: FindingTally() for side in sides}
        self.past: deque[tuple[tuple[int, ...], Floats, float]] = deque(maxlen=FARTHEST)
        self.last: Floats = np.empty((0, 0))
        self.coordinates = 0

    def look(self, seen: ServerView) -> None:
        changes, margin = seen.residuals, 2.0 * seen.resolution
        M, P = changes.shape
        some = changes[:, spread(P, max(1, _MOST_NUMBERS // M))]
        few = changes[spread(M, max(1, _FEW_NUMBERS // P))]
        for apart in range(1, min(FARTHEST, M - 1) + 1):
            rows = changes if apart == 1 else some
            self._compare("messages", seen.round, apart, rows[apart:], rows[:-apart], margin)
        for apart in range(1, min(MOST_COORDINATES, P - 1) + 1):
            rows = changes if apart == 1 else few
            self._compare("coordinates", seen.round, apart, rows[:, apart:], rows[:, :-apart], margin)
        for apart, (shape, then, resolution) in enumerate(reversed(self.past), start=1):
            if shape == changes.shape:
                now, then = (changes, self.last) if apart == 1 else (some, then)
                self._compare("rounds", seen.round, apart, now, then, seen.resolution + resolution)
        self.past.append((changes.shape, some, seen.resolution))
        self.last, self.coordinates = changes, P

    def _compare(self, what: str, round_: int, apart: int, one: Floats, other: Floats, margin: float) -> None:
        """Count differences and sums of numbers (M, P) that stand `apart`, rounded by at most `margin`."""
        for side in [(what, sign) for sign in (-1, 1) if (what, sign) in self.counts and one.size]:
            counts, tally = self.counts[side], self.tallies[side]
            hits = inside(counts.windows, one + other if side[1] > 0 else one - other, None, margin)
            counts.hits[:, apart - 1 : apart] += hits
            counts.trials[apart - 1] += one.size
            if apart == 1:
                tally.rounds += 1
                tally.looked += one.shape[0]
            if tally.example is None and hits.any() and too_many(counts.windows, hits, one.size).any():
                tally.example = f"round {round_}"

    def finding(self, check: str, what: str) -> LintFinding | None:
        """Numbers that are too much alike, or else too much against each other; None without any."""
        for side in [side for side in self.counts if side[0] == what]:
            crowded, tally = self.counts[side].too_many, self.tallies[side]
            if crowded.any():
                return LintFinding(
                    check=check,
                    severity="leak",
                    text=f"{_places(what, int(np.argmax(crowded)) + 1)} {OPPOSITE if side[1] > 0 else ALIKE}",
                    rounds=tally.rounds,
                    messages=tally.looked,
                    example=tally.example,
                )
        return None

    def gaps(self, ratios: Floats) -> Iterator[CoverageGap]:
        """Comparisons that could not detect noise that all neighbours share, and numbers not compared."""
        for what, all_ in (
            ("messages", "all messages of a round"),
            ("rounds", "all rounds"),
            ("coordinates", "all coordinates"),
        ):
            counts = self.counts[what, -1]
            near = np.arange(counts.trials.size) == 0
            if counts.trials[0] and not counts.part(near).would_detect(ratios):
                why = "too few numbers, or clients change too much, for noise of that size"
                yield CoverageGap(part=f"noise that {all_} share", why=why)
        if self.coordinates > MOST_COORDINATES + 1:
            part = f"noise that coordinates more than {MOST_COORDINATES} apart share"
            yield CoverageGap(part=part, why="there are too many to compare all")


def _places(what: str, apart: int) -> str:
    if what == "rounds":
        return "messages of the same place " + (
            "in successive rounds" if apart == 1 else f"{apart} rounds apart"
        )
    whole = "messages of one round" if what == "messages" else "coordinates of one message"
    return whole + ("" if apart == 1 else f", {apart} places apart,")


def spread(count: int, most: int) -> Ints:
    """At most `most` of `count` places, evenly spread."""
    return np.unique(np.round(np.linspace(0, count - 1, min(count, most))).astype(np.int64))


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

    def finding(self, check: str) -> LintFinding | None:
        if self.count < 2 or self.lacks_power:
            return None
        earlier = self._earlier()
        later_ones = np.flatnonzero(earlier >= 0)
        if not later_ones.size:
            return None
        text = (
            f"{number(int(later_ones.size), 'message')} and another one each, of the same or an earlier "
            "round, move too much alike for independent noise of the declared law: they share it, and their "
            "differences are free of it."
        )
        rounds = np.concatenate([np.full(places.size, round_) for round_, places, _ in self._where])
        places = np.concatenate([places for _, places, _ in self._where])
        first, other = int(later_ones[0]), int(earlier[later_ones[0]])
        return LintFinding(
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
        if self.lacks_power:
            far = f"messages more than {FARTHEST} places or rounds apart"
            why = f"{number(self.width, 'coordinate')} are too few for noise that is mostly so small"
            yield CoverageGap(part=f"noise that two single messages or {far} share", why=why)
            return
        if self.left_out:
            part = f"noise that the last {number(self.left_out, 'message')} share with messages far from them"
            why = f"only the first {self.count:,} are compared with all before them"
            yield CoverageGap(part=part, why=why)
        if self.width < self.coordinates:
            part = f"noise shared outside of {self.width} of {self.coordinates:,} coordinates"
            yield CoverageGap(part=part, why="there are too many to compare all")

    def _earlier(self) -> Ints:
        """For each message the row of an earlier one that it shares its noise with, -1 without, (R,)."""
        values = np.concatenate(self._rows)
        margins = np.concatenate([np.full(places.size, size) for _, places, size in self._where])
        partner = np.full(values.shape[0], -1, dtype=np.int64)
        for key in self._keys(values):
            order = np.argsort(key, kind="stable")
            for back in range(1, min(_NEIGHBOURS, order.size - 1) + 1):
                same = key[order[back:]] == key[order[:-back]]
                later, earlier = order[back:][same], order[:-back][same]
                open_ = partner[later] < 0
                later, earlier = later[open_], earlier[open_]
                margin = (margins[later] + margins[earlier])[:, np.newaxis]
                hits = inside(self.windows, values[later] - values[earlier], 1, margin)
                alike = too_many(self.windows, hits, self.width, self._sure)
                partner[later[alike]] = earlier[alike]
        return partner

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


_LEAST_COORDINATES = 4  # fewer may all move by the same number without any noise


class NoiseReuseCheck(LintCheck):
    """Equal messages, equal changes in two rounds, one shift for all coordinates.

    Where the law is known, also differences that are too small for two independent draws. Given one of them,
    the other lies near it no more often than the law allows anywhere (`concentration`): counts are at most
    binomial.
    """

    name = "reused-noise"
    tells = "noise that can be removed, as several numbers share it"

    def why_not(self) -> str | None:
        """Only where messages are models or masked."""
        return _no_models(self.header)

    def start(self) -> None:
        by_law = self.header.kind != "masked" and self.declared.why_not is None
        self.windows = self.declared.windows if by_law else ()
        self.equal, self.again, self.constant, self.common = (FindingTally() for _ in range(4))
        self.lags, self.duplicates = LagTests(self.windows), NearDuplicateSearch(self.windows)
        self.met: set[bytes] = set()
        self.coarse = 0

    def look(self, seen: ServerView) -> None:
        counted = ~seen.silent if seen.is_real else seen.survivors
        self.equal.messages_of(seen.round, _of_several(seen.rows) & counted)
        changes: Payload = seen.residuals if seen.is_real else seen.messages
        digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in changes]
        again = np.array([digest in self.met for digest in digests], dtype=np.bool_)
        self.again.messages_of(seen.round, again & counted)
        self.met.update(digests)
        if seen.is_real:
            if seen.messages.shape[1] >= _LEAST_COORDINATES:
                self.constant.messages_of(seen.round, (seen.levels == 1) & counted)
            self._by_law(seen, counted)

    def _by_law(self, seen: ServerView, counted: Bools) -> None:
        if not self.windows:
            return
        if seen.is_too_coarse(self.windows[-1].half):
            self.coarse += 1
            return
        steps = np.diff(seen.residuals, axis=1)
        hits = inside(self.windows, steps, 1, 2.0 * seen.resolution)
        self.common.messages_of(seen.round, too_many(self.windows, hits, steps.shape[1]))
        self.lags.look(seen)
        self.duplicates.look(seen, counted)

    def findings(self) -> Findings:
        texts = (
            "equal another one of the round bit for bit: they share their noise, or it left no trace.",
            "repeat a change of an earlier round bit for bit: noise was used again, or left no trace.",
            "shift all coordinates by one and the same number, which can be removed.",
        )
        for tally, text in zip((self.equal, self.again, self.constant), texts, strict=True):
            if tally.hits and self._why_equal() is None:
                yield self.counted(tally, f"{number(tally.hits, 'message')} {text}")
        if self.windows:
            yield from self._found_by_law()

    def _found_by_law(self) -> Findings:
        if self.common.hits > self.constant.hits:
            text = (
                f"within {number(self.common.hits, 'message')} the coordinates move too much alike for "
                "independent noise: they share it, and their differences are free of it."
            )
            yield self.counted(self.common, text)
        found = [self.lags.finding(self.name, what) for what in ("messages", "rounds")]
        if (
            not any(found) and not self.common.hits
        ):  # neither all coordinates nor neighbouring messages share it
            found = [self.lags.finding(self.name, "coordinates") or self.duplicates.finding(self.name)]
        yield from filter(None, found)

    def gaps(self) -> Gaps:
        why = self._why_equal()
        if why is not None:
            yield CoverageGap(part="messages that are equal bit for bit", why=why)
        if self.header.kind == "masked":
            yield CoverageGap(part="noise below the masks", why=_INTEGERS)
            return
        if self.header.parameters < _LEAST_COORDINATES:
            few = f"messages hold fewer than {_LEAST_COORDINATES} numbers"
            yield CoverageGap(part="one shift for all coordinates", why=few)
        if self.declared.is_none:
            return
        part = "noise shared by messages that differ"
        if self.declared.why_not is not None:
            yield CoverageGap(part=part, why=self.declared.why_not)
            return
        if self.coarse:
            some = f"{number(self.coarse, 'round')} of {self.rounds:,}"
            yield CoverageGap(part=f"{part}, in {some}", why=_TOO_COARSE)
        yield from self.lags.gaps(self.declared.ratios_of_shared())
        yield from self.duplicates.gaps()

    def _why_equal(self) -> str | None:
        """Why equal messages prove nothing; None where they do."""
        if self.header.kind == "masked":
            return None
        chance = self.declared.chance_of_equal(max(1, self.header.parameters - 1))
        if chance is not None and chance * self.messages**2 < SURE:
            return None
        act = self.declared.cause_of_equality
        return f"{'noise' if act is None else act.text} may make them equal on its own"


def _of_several(rows: NDArray[np.void]) -> Bools:
    """Which rows occur more than once, (M,)."""
    _, group, counts = np.unique(rows, return_inverse=True, return_counts=True)
    return np.asarray(counts[group.reshape(-1)] > 1)


_SHARES = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Noise with at most the last share of the declared variance must be distinguished from it."""


class WeakNoiseCheck(LintCheck):
    """Too many small changes for the declared law: of single clients, of single coordinates, or of all.

    Whatever a client learns, its change plus the noise lies in a window around 0 no more often than the noise
    lies in the most probable window of that width (`concentration`), so that the count is at most binomial:
    one in a billion is refused. What clients learn can hide missing noise, never feign it.
    """

    name = "weak-noise"
    tells = "fields without noise, or with less of it than the header declares"

    def start(self) -> None:
        windows = () if self.declared.why_not else self.declared.windows
        self.bare, self.columns = FindingTally(), WindowCounter(windows, self.header.parameters)
        self.first = self.judged = self.coarse = 0

    def not_applicable(self) -> str | None:
        return "the header declares no noise" if self.declared.is_none else None

    def why_not(self) -> str | None:
        """Only where the law of a whole message is known."""
        if self.header.kind == "masked":
            return _INTEGERS
        return _no_models(self.header) or self.declared.why_not

    def look(self, seen: ServerView) -> None:
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
        law = f"the declared law {self.declared.text}."
        if self.bare.hits:
            text = (
                f"{number(self.bare.hits, 'message')} hardly change too many of their coordinates to carry "
                f"independent noise of {law}"
            )
            yield self.counted(self.bare, text)
        bad = self.columns.too_many
        if self.columns.part(~bad).too_many.any() or (bad.size > 1 and bad.all()):
            yield self._finding(f"all in all, messages change too little to carry noise of {law}", 1.0)
        elif bad.any():
            which = np.flatnonzero(bad)
            named = ", ".join(str(column) for column in which[:5]) + (", ..." if which.size > 5 else "")
            text = f"coordinates {named} change too little to carry noise of {law}"
            yield self._finding(text, float(bad.mean()), f", coordinate {which[0]}")

    def gaps(self) -> Gaps:
        if self.coarse:
            yield CoverageGap(part=f"{number(self.coarse, 'round')} of {self.rounds:,}", why=_TOO_COARSE)
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
        share = self._detectable() if self.judged else None
        if share is None:
            return None
        return f"noise of {share:.0%} of the declared variance in all numbers would have been found"

    def _detectable(self) -> float | None:
        """The largest share of the variance that would have been found; None below a half."""
        pooled = self.columns.part(np.ones(self.columns.trials.size, dtype=np.bool_))
        ratios = self.declared.ratios_of_weaker
        return next((share for share in _SHARES if pooled.would_detect(ratios(share))), None)

    def _finding(self, text: str, share: float, more: str = "") -> LintFinding:
        place = f"round {self.first}{more}"
        rounds = self.rounds - self.coarse
        return self.finding(
            text, rounds=rounds, messages=self.judged, share=share, of="coordinates", example=place
        )


def _no_models(header: TraceHeader) -> str | None:
    return f"messages of kind {header.kind} are no models" if header.kind in NO_MODELS else None


def _too_few(count: int) -> str:
    return f"{number(count, 'number')} are too few for noise that is mostly so small"
