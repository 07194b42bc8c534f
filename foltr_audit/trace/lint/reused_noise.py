"""Noise that is not drawn afresh for each client, coordinate and round, so that it can be taken off."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding, number
from foltr_audit.trace.lint.lagged import LagTests
from foltr_audit.trace.lint.near_duplicates import NearDuplicateSearch
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView
from foltr_audit.trace.lint.windows import SURE, inside, too_many
from foltr_audit.utils.arrays import Bools

_LEAST_COORDINATES = 4


class NoiseReuseCheck(LintCheck):
    """Equal messages, equal changes in two rounds, one shift for all coordinates.

    Where the law is known, also differences that are too small for two independent draws. Given one of them,
    the other lies near it no more often than the law allows anywhere (`concentration`): counts are at most
    binomial.
    """

    name: ClassVar[str] = "reused-noise"
    tells: ClassVar[str] = "noise that can be taken off, as several numbers share it"
    of_integers: ClassVar[bool] = True

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        super().__init__(header, declared)
        by_law = header.kind != "masked" and declared.why_not is None
        self.windows = declared.windows if by_law else ()
        self.equal, self.again, self.constant, self.common = (
            FindingTally(),
            FindingTally(),
            FindingTally(),
            FindingTally(),
        )
        self.lags, self.duplicates = LagTests(self.windows), NearDuplicateSearch(self.windows)
        self.met: set[bytes] = set()
        self.rounds = self.coarse = self.messages = 0

    def look(self, seen: ServerView) -> None:
        """Compare the messages of a round with each other and with those before."""
        counted = ~seen.silent if seen.is_real else seen.survivors
        self.rounds, self.messages = self.rounds + 1, self.messages + seen.messages.shape[0]
        self.equal.messages_of(seen.round, _of_several(seen.rows) & counted)
        digests = _digests(seen.residuals if seen.is_real else seen.messages)
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

    def findings(self) -> Iterator[LintFinding]:
        """What is shared, from the plainest to the subtlest."""
        whole = [
            (
                self.equal,
                "equal another one of the round bit for bit: they share their noise, or it left no trace.",
            ),
            (
                self.again,
                "repeat a change of an earlier round bit for bit: noise was used again, or left no trace.",
            ),
            (self.constant, "shift all coordinates by one and the same number, which can be taken off."),
        ]
        for tally, text in whole if self._why_equal() is None else ():
            if tally.hits:
                yield tally.finding(self.name, "leak", "messages", f"{number(tally.hits, 'message')} {text}")
        if self.windows:
            yield from self._found_by_law()

    def _found_by_law(self) -> Iterator[LintFinding]:
        if self.common.hits > self.constant.hits:
            text = (
                f"within {number(self.common.hits, 'message')} the coordinates move too much alike for "
                "independent noise: they share it, and their differences are free of it."
            )
            yield self.common.finding(self.name, "leak", "messages", text)
        alike = list(self.lags.findings(self.name))
        yield from alike or (() if self.common.hits else self._found_apart())

    def _found_apart(self) -> Iterator[LintFinding]:
        """What neither all coordinates of a message share, nor neighbouring messages."""
        coordinates = list(self.lags.coordinates_apart.findings(self.name))
        yield from coordinates or self.duplicates.findings(self.name)

    def gaps(self) -> Iterator[CoverageGap]:
        """Comparisons that prove nothing here, and those by the law where it is not known."""
        why = self._why_equal()
        if why is not None:
            yield CoverageGap(part="messages that are equal bit for bit", why=why)
        if self.header.kind == "masked":
            yield CoverageGap(part="noise below the masks", why="masked messages hold integers")
            return
        if self.header.parameters < _LEAST_COORDINATES:
            few = f"messages hold fewer than {_LEAST_COORDINATES} numbers"
            yield CoverageGap(part="one shift for all coordinates", why=few)
        if self.declared.is_none:
            return
        if self.declared.why_not is not None:
            yield CoverageGap(part="noise shared by messages that differ", why=self.declared.why_not)
            return
        if self.coarse:
            some = f"{number(self.coarse, 'round')} of {self.rounds:,}"
            why = "numbers are rounded more coarsely than the noise is wide"
            yield CoverageGap(part=f"noise shared by messages that differ, in {some}", why=why)
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
        return f"{'noise' if act is None else act.text} may make them equal by itself"


def _of_several(rows: NDArray[np.void]) -> Bools:
    """Which rows are there more than once, (M,)."""
    _, place, counts = np.unique(rows, return_inverse=True, return_counts=True)
    return np.asarray(counts[place.reshape(-1)] > 1)


def _digests(rows: NDArray[np.float64] | NDArray[np.uint64]) -> list[bytes]:
    """Sixteen bytes for each row: equal where rows are equal bit for bit."""
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
