"""Environments in which the intents of users change over time.

Source: Zhuang & Zuccon 2021, "How do online learning to rank methods adapt to changes of intent?",
section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
from pydantic import Field, model_validator

from foltr_audit.errors import UsageError
from foltr_audit.plugins import Environment, IntentPeriod, Scenario, ScenarioContext
from foltr_audit.utils.arrays import Floats


class FixedIntent(Scenario):
    """One intent throughout: the baseline of rankers under changing intents."""

    name: ClassVar[str] = "fixed-intent"

    intent: int = Field(1, ge=1, description="the intent, from 1")

    def environment(self, context: ScenarioContext) -> Environment:
        (intent,) = known_intents(self.name, context, [self.intent])
        rows = np.eye(context.intents)[[intent]]
        return steady(rows, IntentPeriod(0, context.total, intent))


class IntentMixture(Scenario):
    """Every intent is equally likely at any time.

    With `only` the interactions of the other intents are left out, as if a ranker learnt from one intent
    with a perfect predictor of each query's intent.
    """

    name: ClassVar[str] = "mixed"

    only: int = Field(0, ge=0, description="play only the interactions of this intent, from 1; 0: all")

    def environment(self, context: ScenarioContext) -> Environment:
        """A single period in which no intent leads, or the only one that is played."""
        context.several_intents(self.name)
        kept = known_intents(self.name, context, [self.only])[0] if self.only else None
        rows = np.full((1, context.intents), 1.0 / context.intents)
        return steady(rows, IntentPeriod(0, context.total, kept), kept)

    def twins(self, context: ScenarioContext) -> dict[str, str]:
        """For each intent, a ranker that learns only from its interactions."""
        if self.only:
            return {}
        return {
            f"intent {i + 1} by itself": self.model_copy(update={"only": i + 1}).text
            for i in range(context.intents)
        }


class IntentChange(Scenario):
    """The intents dominate one after the other."""

    period: int = Field(0, ge=0, description="interactions of a period; 0: periods of equal length")

    def leaders(self, context: ScenarioContext) -> list[int]:
        """The leading intent of each period, from 0."""
        return list(range(context.intents))

    def environment(self, context: ScenarioContext) -> Environment:
        """The periods, and how likely each intent is in each of them.

        Raises:
            UsageError: data with one intent only, or fewer interactions than periods.
        """
        context.several_intents(self.name)
        leaders = self.leaders(context)
        bounds = [self._bound(number, len(leaders), context.total) for number in range(len(leaders) + 1)]
        if any(end <= first for first, end in pairwise(bounds)):
            raise UsageError(
                f"scenario {self.name}: {context.total} interactions in {len(leaders)} periods; "
                "expected at least one each"
            )
        periods = tuple(
            IntentPeriod(first, end, leader)
            for (first, end), leader in zip(pairwise(bounds), leaders, strict=True)
            if first < context.total
        )
        start, stop = self.rows(leaders, context.intents)
        knots = np.array(bounds[:-1], dtype=np.float64)
        return Environment(knots=knots, start=start, stop=stop, periods=periods)

    def rows(self, leaders: Sequence[int], intents: int) -> tuple[Floats, Floats]:
        """Probabilities at the start and at the end of each period, float64 (periods, I) each."""
        rows = leading(leaders, intents, self.share(intents))
        return rows, rows

    def share(self, intents: int) -> float:
        """How likely the leading intent is."""
        return 1.0

    def _bound(self, number: int, periods: int, total: int) -> int:
        # Divides for each bound instead of multiplying a rounded length, so that the last bound is the total.
        return number * self.period if self.period else number * total // periods

    def twins(self, context: ScenarioContext) -> dict[str, str]:
        """A training under each leading intent alone."""
        leaders = sorted(set(self.leaders(context)))
        return {f"intent {i + 1} alone": FixedIntent(intent=i + 1).text for i in leaders}


class AbruptIntentChange(IntentChange):
    """One intent at a time: each period has a single intent."""

    name: ClassVar[str] = "abrupt"


class _DominantIntentChange(IntentChange):
    dominant: float = Field(0.7, gt=0, lt=1, description="how likely the leading intent is")

    def share(self, intents: int) -> float:
        """`dominant`, in every period."""
        return self.dominant


class SmoothIntentChange(_DominantIntentChange):
    """One intent dominates, all others are possible; then the next one dominates."""

    name: ClassVar[str] = "smooth-abrupt"


class IntentLeakage(_DominantIntentChange):
    """Within a period, dominance shifts linearly from one intent to the next.

    The last intent dominates to the end.
    """

    name: ClassVar[str] = "leaking"

    def rows(self, leaders: Sequence[int], intents: int) -> tuple[Floats, Floats]:
        """Each period ends as the next one starts."""
        rows = leading(leaders, intents, self.dominant)
        return rows, np.concatenate([rows[1:], rows[-1:]])


class IntentSwap(IntentChange):
    """Two intents take turns."""

    name: ClassVar[str] = "swap"

    first: int = Field(1, ge=1, description="the intent that comes first, from 1")
    second: int = Field(2, ge=1, description="the other intent, from 1")
    changes: int = Field(2, ge=1, le=10_000, description="number of changes")

    @model_validator(mode="after")
    def _differ(self) -> IntentSwap:
        if self.first == self.second:
            raise ValueError(f"first={self.first}, second={self.second}; expected two intents")
        return self

    def leaders(self, context: ScenarioContext) -> list[int]:
        """First, second, first and so on."""
        pair = known_intents(self.name, context, [self.first, self.second])
        return [pair[number % 2] for number in range(self.changes + 1)]


def known_intents(name: str, context: ScenarioContext, intents: Sequence[int]) -> list[int]:
    """Indices from 0 of intents numbered from 1.

    Raises:
        UsageError: the data have fewer.
    """
    for intent in intents:
        if intent > context.intents:
            raise UsageError(
                f"scenario {name}: intent {intent}, but the data have {context.intents}; "
                "expected one of them, see --intents"
            )
    return [intent - 1 for intent in intents]


def leading(leaders: Sequence[int], intents: int, share: float) -> Floats:
    """Probabilities (periods, I): `share` for the leading intent, the rest spread evenly over the others."""
    rows = np.full((len(leaders), intents), (1.0 - share) / max(1, intents - 1))
    rows[np.arange(len(leaders)), list(leaders)] = share
    return rows


def steady(rows: Floats, period: IntentPeriod, kept: int | None = None) -> Environment:
    """An environment of one period with constant probabilities (1, I)."""
    return Environment(knots=np.zeros(1), start=rows, stop=rows, periods=(period,), kept=kept)
