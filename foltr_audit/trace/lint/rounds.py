"""One round as the lint looks at it: what each message changes, and where it changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.cohort import Cohort
from foltr_audit.core.records.interactions import Payload, RoundRecord
from foltr_audit.errors import TraceError
from foltr_audit.trace.contradictions import drift
from foltr_audit.utils.arrays import Bools, Floats, Ints, Words

STILL = 2.0**-40
"""A coordinate is unchanged where it moves by at most this share of the largest move of its column."""

LEAST_VALUES = 64
"""Fewer values say nothing about a grid."""

TOO_COARSE = "numbers are rounded more coarsely than the noise is wide"

_FEW = 1 / 8  # values lie on a grid where at most this share of them differs
_MOST_VALUES = 1 << 16  # enough to see a grid
_LARGEST = 1e300  # differences of two such numbers do not overflow
_COARSE = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerView:
    """What an honest-but-curious server sees of one round; M messages of P numbers, none of it truth.

    Attributes:
        round: number of the round.
        is_update: whether a message is a change of the global model, not a model.
        messages: floats, or unsigned integers where messages are masked, (M, P).
        parameters: the global model, float64; (P,) unless messages are masked.
        averaged: whether the server averaged the messages: the global model after the round differs.
        shares: number of noise shares that the defenses assume.
        survivors: bool (M,).
        counts: int64 (M,).
        interactions: number of recorded interactions.
        features: whether the shown documents' features are recorded.
        seeds: what each client drew its perturbation from, uint64 (M,), if it did.
        drift: how far the next model is from the average of the messages, float64 (P,), 0 where rounding
            explains it; None where that is not known.
        clear: numbers that travelled in clear, by name, float64 (M,), NaN where a client sent none.
        cohort: whom the server asked, and what became of it; None where that is not recorded.
    """

    round: int
    is_update: bool
    messages: Payload
    parameters: Floats
    averaged: bool
    shares: int
    survivors: Bools
    counts: Ints
    interactions: int
    features: bool
    seeds: Words | None = None
    drift: Floats | None = None
    clear: Mapping[str, Floats] = field(default_factory=dict)
    cohort: Cohort | None = None

    @classmethod
    def of(cls, record: RoundRecord, kind: str) -> ServerView:
        """The view of a recorded round with messages of a kind.

        Raises:
            TraceError: a number that is not finite.
        """
        messages = record.messages
        if not np.all(np.isfinite(record.parameters)):
            raise TraceError(f"trace: round {record.round}: the global model is not finite")
        if messages.dtype.kind == "f" and not np.all(np.isfinite(messages)):
            row = int(np.argmin(np.isfinite(messages).all(axis=1)))
            raise TraceError(f"trace: round {record.round}, message {row}: holds a value that is not finite")
        return cls(
            round=record.round,
            is_update=kind == "update",
            messages=messages,
            parameters=record.parameters,
            averaged=not np.array_equal(record.aggregate, record.parameters),
            shares=record.shares,
            survivors=record.survivors,
            counts=record.counts,
            interactions=record.n_interactions,
            features=record.features is not None,
            seeds=record.seeds,
            drift=drift(record, kind),
            clear=record.clear,
            cohort=record.cohort,
        )

    @property
    def is_real(self) -> bool:
        """Whether messages are real numbers, not masked integers."""
        return bool(self.messages.dtype.kind == "f")

    @cached_property
    def start(self) -> Floats:
        """The message without any change, in its number format, (P,)."""
        with np.errstate(over="ignore"):
            start = self.parameters.astype(self.messages.dtype).astype(np.float64)
        return np.zeros_like(start) if self.is_update else start

    @cached_property
    def residuals(self) -> Floats:
        """Each message minus the one without any change, (M, P)."""
        with np.errstate(over="ignore"):
            return np.clip(self.messages.astype(np.float64) - self.start, -_LARGEST, _LARGEST)

    @cached_property
    def still(self) -> Bools:
        """Coordinates that are where the global model has them, (M, P).

        Bit for bit; or nearly, since noise of 1e-100 on an update of 0 can be seen through just as well.
        """
        size = np.abs(self.residuals)
        return np.asarray(size <= STILL * size.max(axis=0, initial=0.0))

    @cached_property
    def moving(self) -> Bools:
        """Coordinates that some message changes, (P,)."""
        return np.asarray(~self.still.all(axis=0))

    @cached_property
    def stillness(self) -> Floats:
        """Share of the moving coordinates that each message leaves unchanged, (M,); 1 without any."""
        if not self.moving.any():
            return np.ones(self.messages.shape[0])
        return np.asarray(self.still[:, self.moving].mean(axis=1))

    @cached_property
    def silent(self) -> Bools:
        """Messages that change nothing at all, (M,)."""
        return np.asarray(self.still.all(axis=1))

    @cached_property
    def nearly_silent(self) -> Bools:
        """Messages that leave most coordinates unchanged while others of the round do not, (M,)."""
        return np.asarray(~self.silent & (self.stillness >= 0.6) & bool((self.stillness < 0.3).any()))

    @cached_property
    def active(self) -> Bools:
        """Messages that are neither silent nor nearly so, (M,)."""
        return np.asarray(~self.silent & ~self.nearly_silent)

    @cached_property
    def on_grid(self) -> bool:
        """Whether the messages of the round, or their moves to six digits, take few different values."""
        judged = np.ix_(self.active, self.moving)
        values, moves = (a[judged].ravel()[:_MOST_VALUES] for a in (self.messages, self.residuals))
        # A move is the difference of two rounded numbers: equal moves differ in their last digits.
        mantissa, exponent = np.frexp(moves)
        moves = np.ldexp(np.round(mantissa, 6), exponent)
        distinct = min(np.unique(values).size, np.unique(moves).size)
        return values.size >= LEAST_VALUES and distinct <= _FEW * values.size

    @cached_property
    def levels(self) -> Ints:
        """How many different moves each message makes, up to one millionth of its largest, (M,)."""
        size = np.abs(self.residuals).max(axis=1, initial=0.0, keepdims=True)
        moves = np.sort(self.residuals / np.where(size > 0, size, 1.0), axis=1)
        moves = np.where(np.abs(moves) <= STILL, 0.0, moves)
        return np.asarray(1 + (np.diff(moves, axis=1) > 1e-6).sum(axis=1))

    @cached_property
    def rows(self) -> NDArray[np.void]:
        """Each message as one value of bytes, (M,): equal where messages are equal bit for bit."""
        rows = np.ascontiguousarray(self.messages)
        return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).reshape(-1)

    @cached_property
    def resolution(self) -> float:
        """Distance of neighbouring numbers at the largest of the round, in its number format."""
        most = max(np.abs(self.messages).max(initial=0.0), np.abs(self.start).max(initial=0.0))
        return float(np.spacing(np.minimum(most, 1e30).astype(self.messages.dtype)))

    def is_too_coarse(self, size: float) -> bool:
        """Whether rounding to the number format may move numbers of this size by more than a tenth."""
        return self.resolution > _COARSE * size
