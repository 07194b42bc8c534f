"""Coordinates on which noise leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.lint.base import LintCheck
from foltr_audit.trace.lint.findings import FindingTally, LintFinding, number
from foltr_audit.trace.lint.noise_declaration import NoiseDeclaration
from foltr_audit.trace.lint.outcome import CoverageGap
from foltr_audit.trace.lint.rounds import ServerView
from foltr_audit.utils.arrays import Bools

LEAST_SHARE = 1e-4
"""Fewer coordinates than this share may be equal by chance."""

LEAST_EXPECTED = 1e-3
"""A law that leaves fewer coordinates than this share untouched is left alone."""

MOST_ON_GRID = 0.5
"""On a grid noise of 0 is part of the law; from this share on, most coordinates are untouched."""


class BitEqualityCheck(LintCheck):
    """What the declared law leaves untouched, what stands still, and what several messages share.

    On a grid equal numbers prove nothing by themselves; `WeakNoise` and `ReusedNoise` count them there.

    Source: Mironov 2012, "On significance of the least significant bits for differential privacy", on what
    floating-point numbers tell about noise.
    """

    name: ClassVar[str] = "bit-equal"
    tells: ClassVar[str] = "coordinates whose value is the one without noise"

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        super().__init__(header, declared)
        self.still, self.shared = FindingTally(), FindingTally()
        self.expected = _UnchangedRate(np.dtype(header.dtype) if header.kind != "masked" else None)
        self.rounds = self.on_grid = 0

    def not_applicable(self) -> str | None:
        """Nothing without noise."""
        return "the header declares no noise" if self.declared.is_none else None

    def look(self, seen: ServerView) -> None:
        """Compare each coordinate with the global model, and with the other messages."""
        self.expected.look(seen)
        self.rounds += 1
        if self.declared.cause_of_equality is not None:
            return
        judged = seen.active[:, np.newaxis] & seen.moving
        looked = int(judged.sum())
        still = seen.still & judged
        self.still.coordinates_of(seen.round, still, looked)
        self.on_grid += seen.on_grid
        if not seen.on_grid:
            self.shared.coordinates_of(seen.round, _repeated(seen) & judged & ~still, looked)

    def findings(self) -> Iterator[LintFinding]:
        """What follows from the law, then what was seen."""
        yield from self._by_law()
        if self.still.share >= LEAST_SHARE:
            where = "0" if self.header.kind == "update" else "where the global model has them"
            text = (
                f"outside of silent messages, coordinates are {where}, to twelve digits, though others of "
                "the round move them: the noise left no trace, and the server sees what these clients did "
                "not change."
            )
            yield self.still.finding(self.name, "leak", "coordinates", text)
        if self.shared.share >= LEAST_SHARE:
            text = (
                "coordinates are bit for bit the same in several messages of a round: the noise left no "
                "trace, and the server sees that these clients computed the same."
            )
            yield self.shared.finding(self.name, "leak", "coordinates", text)

    def gaps(self) -> Iterator[CoverageGap]:
        """Numbers that are equal for another reason, and laws that are not known."""
        cause_of_equality = self.declared.cause_of_equality
        if cause_of_equality is not None and self.declared.why_not is not None:
            yield CoverageGap(
                part="equal numbers", why=f"{cause_of_equality.text} may make them equal by itself"
            )
        elif cause_of_equality is None and self.on_grid:
            some = f"in {number(self.on_grid, 'round')} of {self.rounds:,}"
            yield CoverageGap(
                part=f"numbers that several messages share {some}", why="they lie on a grid there"
            )
        if self.expected.share(self.declared) is None:
            law = self.declared.text
            why = "the header declares no noise law" if law is None else f"the law {law} is not known here"
            yield CoverageGap(part="what the law leaves untouched", why=why)

    def _by_law(self) -> Iterator[LintFinding]:
        share = self.expected.share(self.declared)
        if share is None or share < (MOST_ON_GRID if self.declared.is_on_grid else LEAST_EXPECTED):
            return
        yield LintFinding(
            check=self.name,
            severity="leak",
            text=f"noise of the declared law {self.declared.text} is often so small that about this share "
            f"of the coordinates, {self.header.dtype} numbers of the size seen here, arrive bit for bit as "
            f"the clients {'rounded' if self.declared.is_on_grid else 'computed'} them. This follows from "
            "the law; no message was compared.",
            rounds=self.expected.rounds,
            messages=self.expected.messages,
            share=share,
            of="coordinates",
        )


def _repeated(seen: ServerView) -> Bools:
    """Coordinates that another message of the round has bit for bit, (M, P)."""
    order = np.argsort(seen.messages, axis=0, kind="stable")
    ordered = np.take_along_axis(seen.messages, order, axis=0)
    pair = ordered[1:] == ordered[:-1]
    none = np.zeros((1, pair.shape[1]), dtype=np.bool_)
    found = np.empty(seen.messages.shape, dtype=np.bool_)
    np.put_along_axis(found, order, np.concatenate([pair, none]) | np.concatenate([none, pair]), axis=0)
    return found


class _UnchangedRate:
    """The share of coordinates that a law leaves untouched at the sizes that occur: |noise| < ulp / 2."""

    def __init__(self, dtype: np.dtype[np.floating] | None) -> None:
        self.dtype = dtype
        self.sizes: dict[int, int] = {}
        self.rounds = self.messages = 0

    def look(self, seen: ServerView) -> None:
        """Count the binary exponents of a round's numbers; zeros have none."""
        size: NDArray[np.float64] = np.maximum(np.abs(seen.messages.astype(np.float64)), np.abs(seen.start))
        exponents, counts = np.unique(np.frexp(size[size > 0])[1], return_counts=True)
        for exponent, count in zip(exponents.tolist(), counts.tolist(), strict=True):
            self.sizes[exponent] = self.sizes.get(exponent, 0) + count
        self.rounds += 1
        self.messages += seen.messages.shape[0]

    def share(self, declared: NoiseDeclaration) -> float | None:
        """The mean over all coordinates; None for an unknown law."""
        if self.dtype is None or not self.sizes:
            return None
        exponents, counts = np.array(list(self.sizes.items()), dtype=np.float64).T
        half_ulp = 0.5 * np.finfo(self.dtype).eps * np.exp2(exponents - 1)
        untouched = declared.surely_within(half_ulp)
        return None if untouched is None else float(np.average(untouched, weights=counts))
