"""Proven bounds as values: what accounting returns, and records store. Imports nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RestsOn = Literal["message", "sum", "aggregator"]
"""Whose noise a proof counts: that of one message, of all messages of a sum, or of the aggregator."""


@dataclass(frozen=True, kw_only=True)
class UpperBound:
    """A proven differential-privacy guarantee.

    Attributes:
        epsilon: no observation distinguishes neighbours better; infinite where nothing is proven.
        delta: the delta that it holds at: 0 where a pure bound is the best one.
        how: how it was proven, or why nothing is, in one line.
        rests_on: whose noise it counts.
    """

    epsilon: float
    delta: float
    how: str
    rests_on: RestsOn = "message"

    def __post_init__(self) -> None:
        if self.epsilon != self.epsilon or self.delta != self.delta:
            raise ValueError("not a number; expected an epsilon and a delta")


@dataclass(frozen=True, kw_only=True)
class RunBound:
    """Bounds for all rounds of a run together.

    Attributes:
        unit: what neighbouring inputs differ in: a `client`, or a `query`, which covers all its clicks.
        rounds: rounds T of the run.
        sampled: share of the clients that may take part in a round and do.
        upper: with cohorts as they are drawn, see `AccountingContext.cohorts`.
        always: of a client that takes part in every round in which it may; equal to `upper` where all do.
    """

    unit: str
    rounds: int
    sampled: float
    upper: UpperBound
    always: UpperBound
