"""Coordinates on which noise leaves no trace."""

from __future__ import annotations

import numpy as np

from foltr_audit.trace.lint.base import Findings, Gaps, LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding, number
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView
from foltr_audit.utils.arrays import Bools, Floats

LEAST_SHARE = 1e-4
"""Fewer coordinates than this share may be equal by chance."""

LEAST_EXPECTED = 1e-3
"""A law that leaves fewer coordinates than this share untouched is not reported."""

MOST_ON_GRID = 0.5
"""On a grid noise of 0 is part of the law; from this share on, most coordinates are untouched."""


class BitEqualityCheck(LintCheck):
    """What the declared law leaves untouched, what stays unchanged, and what several messages share.

    On a grid equal numbers prove nothing on their own; `weak-noise` and `reused-noise` count them there.

    Source: Mironov 2012, "On significance of the least significant bits for differential privacy", on what
    floating-point numbers reveal about noise.
    """

    name = "bit-equal"
    tells = "coordinates whose value is the one without noise"
    of_noise = True

    def start(self) -> None:
        """No coordinate is equal so far."""
        self.still, self.shared = FindingTally("coordinates"), FindingTally("coordinates")
        self.exponents: dict[int, int] = {}  # binary exponent -> how many numbers have it
        self.on_grid = 0

    def look(self, seen: ServerView) -> None:
        """Compare each coordinate with the global model, and with the other messages."""
        size: Floats = np.maximum(np.abs(seen.messages.astype(np.float64)), np.abs(seen.start))
        # The spacing of floats depends on the binary exponent alone, so counts by exponent stand for all
        # numbers of the trace.
        found, counts = np.unique(np.frexp(size[size > 0])[1], return_counts=True)  # zeros have none
        for exponent, count in zip(found.tolist(), counts.tolist(), strict=True):
            self.exponents[exponent] = self.exponents.get(exponent, 0) + count
        if self.declared.cause_of_equality is not None:
            return
        judged = seen.active[:, np.newaxis] & seen.moving
        looked = int(judged.sum())
        still = seen.still & judged
        self.still.coordinates_of(seen.round, still, looked)
        self.on_grid += seen.on_grid
        if not seen.on_grid:
            self.shared.coordinates_of(seen.round, _repeated(seen) & judged & ~still, looked)

    def findings(self) -> Findings:
        """What follows from the law, then what was seen."""
        yield from self._by_law()
        if self.still.share >= LEAST_SHARE:
            where = "0" if self.header.kind == "update" else "where the global model has them"
            text = (
                f"outside of silent messages, coordinates are {where}, to twelve digits, though others of "
                "the round move them: the noise left no trace, and the server sees what these clients did "
                "not change."
            )
            yield self.leak(self.still, text)
        if self.shared.share >= LEAST_SHARE:
            text = (
                "coordinates are bit for bit the same in several messages of a round: the noise left no "
                "trace, and the server sees that these clients computed the same."
            )
            yield self.leak(self.shared, text)

    def gaps(self) -> Gaps:
        """Numbers that are equal for another reason, and laws that are not known."""
        cause = self.declared.cause_of_equality
        if cause is not None and self.declared.why_not is not None:
            yield CoverageGap(part="equal numbers", why=f"{cause.text} may make them equal on its own")
        elif cause is None and self.on_grid:
            some = f"in {number(self.on_grid, 'round')} of {self.rounds:,}"
            part = f"numbers that several messages share {some}"
            yield CoverageGap(part=part, why="they lie on a grid there")
        if self._untouched() is None:
            law = self.declared.text
            why = "the header declares no noise law" if law is None else f"the law {law} is not known here"
            yield CoverageGap(part="what the law leaves untouched", why=why)

    def _by_law(self) -> Findings:
        share, declared = self._untouched(), self.declared
        if share is None or share < (MOST_ON_GRID if declared.is_on_grid else LEAST_EXPECTED):
            return
        yield LintFinding(
            check=self.name,
            severity="leak",
            text=f"noise of the declared law {declared.text} is often so small that about this share "
            f"of the coordinates, {self.header.dtype} numbers of the size seen here, arrive bit for bit as "
            f"the clients {'rounded' if declared.is_on_grid else 'computed'} them. This follows from "
            "the law; no message was compared.",
            rounds=self.rounds,
            messages=self.messages,
            share=share,
            of="coordinates",
        )

    def _untouched(self) -> float | None:
        """Share of coordinates with |noise| < ulp / 2, at the sizes that occur; None for an unknown law."""
        if not self.exponents:
            return None
        exponents, counts = np.array(list(self.exponents.items()), dtype=np.float64).T
        # `frexp` has mantissas in [.5, 1): numbers of exponent e begin at 2^(e-1), and their ulp is eps
        # 2^(e-1).
        half_ulp = 0.5 * np.finfo(self.header.dtype).eps * np.exp2(exponents - 1)
        untouched = self.declared.surely_within(half_ulp)
        return None if untouched is None else float(np.average(untouched, weights=counts))


def _repeated(seen: ServerView) -> Bools:
    """Coordinates that another message of the round has bit for bit, (M, P).

    Equal numbers are neighbours in a sorted column: this takes M log M steps a column, not M^2.
    """
    order = np.argsort(seen.messages, axis=0, kind="stable")
    ordered = np.take_along_axis(seen.messages, order, axis=0)
    pair = np.pad(ordered[1:] == ordered[:-1], ((1, 1), (0, 0)))
    found = np.empty(seen.messages.shape, dtype=np.bool_)
    np.put_along_axis(found, order, pair[1:] | pair[:-1], axis=0)
    return found
