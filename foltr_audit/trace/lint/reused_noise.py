"""Noise that is not drawn again for each client, coordinate and round, so that it can be removed."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import Payload
from foltr_audit.trace.lint.base import Findings, Gaps, LintCheck
from foltr_audit.trace.lint.findings import FindingTally, number
from foltr_audit.trace.lint.lagged import LagTests
from foltr_audit.trace.lint.near_duplicates import NearDuplicateSearch
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import TOO_COARSE, ServerView
from foltr_audit.trace.lint.windows import SURE, inside, too_many
from foltr_audit.utils.arrays import Bools

_LEAST_COORDINATES = 4  # fewer may all move by the same number without any noise


class NoiseReuseCheck(LintCheck):
    """Equal messages, equal changes in two rounds, one shift for all coordinates.

    Where the law is known, also differences that are too small for two independent draws. Given one of them,
    the other lies near it no more often than the law allows anywhere (`concentration`): counts are at most
    binomial.
    """

    name = "reused-noise"
    tells = "noise that can be removed, as several numbers share it"
    of_integers = True

    def start(self) -> None:
        """No message has been seen yet."""
        by_law = self.header.kind != "masked" and self.declared.why_not is None
        self.windows = self.declared.windows if by_law else ()
        self.equal, self.again, self.constant, self.common = (FindingTally() for _ in range(4))
        self.lags, self.duplicates = LagTests(self.windows), NearDuplicateSearch(self.windows)
        self.met: set[bytes] = set()
        self.coarse = 0

    def look(self, seen: ServerView) -> None:
        """Compare the messages of a round with each other and with those before."""
        counted = ~seen.silent if seen.is_real else seen.survivors
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

    def findings(self) -> Findings:
        """What is shared, from the plainest to the subtlest."""
        whole = (
            (
                self.equal,
                "equal another one of the round bit for bit: they share their noise, or it left no trace.",
            ),
            (
                self.again,
                "repeat a change of an earlier round bit for bit: noise was used again, or left no trace.",
            ),
            (self.constant, "shift all coordinates by one and the same number, which can be removed."),
        )
        for tally, text in whole if self._why_equal() is None else ():
            if tally.hits:
                yield self.leak(tally, f"{number(tally.hits, 'message')} {text}")
        if self.windows:
            yield from self._found_by_law()

    def _found_by_law(self) -> Findings:
        if self.common.hits > self.constant.hits:
            text = (
                f"within {number(self.common.hits, 'message')} the coordinates move too much alike for "
                "independent noise: they share it, and their differences are free of it."
            )
            yield self.leak(self.common, text)
        alike = list(self.lags.findings(self.name))
        if not alike and not self.common.hits:  # neither all coordinates nor neighbouring messages share it
            alike = list(self.lags.coordinates_apart.findings(self.name))
            alike = alike or list(self.duplicates.findings(self.name))
        yield from alike

    def gaps(self) -> Gaps:
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
        part = "noise shared by messages that differ"
        if self.declared.why_not is not None:
            yield CoverageGap(part=part, why=self.declared.why_not)
            return
        if self.coarse:
            some = f"{number(self.coarse, 'round')} of {self.rounds:,}"
            yield CoverageGap(part=f"{part}, in {some}", why=TOO_COARSE)
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
    _, place, counts = np.unique(rows, return_inverse=True, return_counts=True)
    return np.asarray(counts[place.reshape(-1)] > 1)


def _digests(rows: Payload) -> list[bytes]:
    """Sixteen bytes for each row: equal where rows are equal bit for bit."""
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
