"""The ordered chain of defenses, grouped into its five stages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import UsageError
from foltr_audit.plugins import (
    AggregateDefense,
    Ball,
    ClickDefense,
    Defense,
    MessageDefense,
    RoundContext,
    StepDefense,
    WireDefense,
    plain,
)
from foltr_audit.registry import make

S = TypeVar("S", bound=Defense)

STAGES = ("click", "step", "message", "wire", "aggregate")
"""Stages in the order in which they act."""

_JOINT = re.compile(r"\+(?!\d)")  # not the + of 1e+20


def published_chain(eps: float, sensitivity: float = 3.0) -> tuple[str, ...]:
    """The chain of FPDGD for a claimed epsilon: clip at Delta / 2, Gamma shares of scale Delta / eps.

    An infinite epsilon means no defense.

    >>> published_chain(1.2)
    ('clip:norm=1.5', 'gamma-laplace:eps=1.2,sensitivity=3')

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    section 3.3.

    Raises:
        UsageError: eps or sensitivity is not above 0.
    """
    if not eps > 0:
        raise UsageError(f"--eps: {eps:g}; expected a number above 0, or inf for no defense")
    if not 0 < sensitivity < math.inf:
        raise UsageError(f"--sensitivity: {sensitivity:g}; expected a finite number above 0")
    if math.isinf(eps):
        return ("none",)
    noise = f"gamma-laplace:eps={plain(eps)},sensitivity={plain(sensitivity)}"
    return (f"clip:norm={plain(sensitivity / 2)}", noise)


def parse_chain(texts: Iterable[str]) -> tuple[Defense, ...]:
    """Defenses of one or more chain texts such as `clip:norm=3+gamma-laplace:eps=1.2,sensitivity=3`."""
    return tuple(make(Defense, part) for text in texts for part in _JOINT.split(text))


@dataclass(frozen=True)
class Chain:
    """Defenses in the order they were given; each acts in its own stage, stages in their order."""

    defenses: tuple[Defense, ...]

    def _of(self, kind: type[S]) -> list[S]:
        return [defense for defense in self.defenses if isinstance(defense, kind)]

    @property
    def texts(self) -> tuple[str, ...]:
        """Canonical texts of the defenses; `none` alone for an empty chain."""
        return tuple(defense.text for defense in self.defenses if defense.name != "none") or ("none",)

    @property
    def ball(self) -> Ball | None:
        """The ball of the step stage, if it has exactly one defense and that is a clip."""
        steps = self._of(StepDefense)
        return steps[0].ball if len(steps) == 1 else None

    def eps_claimed(self, context: RoundContext) -> float:
        """Sum of the epsilons that the chain's defenses claim for one round; infinite without a claim."""
        claims = [claim.epsilon for defense in self.defenses for claim in defense.claims(context)]
        return sum(claims) if claims else math.inf

    def noise(self, context: RoundContext) -> str | None:
        """The noise laws of the message stage in words, in order."""
        laws = [law for defense in self._of(MessageDefense) if (law := defense.noise(context))]
        return " + ".join(laws) or None

    def on_clicks(
        self, clicks: NDArray[np.bool_], shown: NDArray[np.int64], step: int, context: RoundContext
    ) -> NDArray[np.bool_]:
        """Clicks that the client learns from, bool (C, k)."""
        for defense in self._of(ClickDefense):
            clicks = defense.apply(clicks, shown, step, context)
        return clicks

    def on_step(
        self, models: NDArray[np.float64], acts: NDArray[np.bool_], context: RoundContext
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Local models (C, P) after the step stage, and which rows it changed (C,).

        `acts` (C,) says on which clients the stage acts at all.
        """
        after = models
        for defense in self._of(StepDefense):
            after = np.where(acts[:, np.newaxis], defense.apply(after, context), after)
        return after, np.any(after != models, axis=1)

    def on_message(self, models: NDArray[np.float64], context: RoundContext) -> NDArray[np.float64]:
        """Models that clients send, float64 (C, P)."""
        for defense in self._of(MessageDefense):
            models = defense.apply(models, context)
        return models

    def on_wire(
        self, messages: NDArray[np.float64], context: RoundContext
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Messages as received (C, P) and which arrived (C,)."""
        survivors = np.ones(messages.shape[0], dtype=np.bool_)
        for defense in self._of(WireDefense):
            messages, survivors = defense.apply(messages, survivors, context)
        return messages, survivors

    def on_aggregate(
        self,
        messages: NDArray[np.float64],
        survivors: NDArray[np.bool_],
        context: RoundContext,
    ) -> NDArray[np.float64]:
        """FedAvg of the messages that arrived, weighted by interactions, then the aggregate stage.

        A round in which nothing arrived averages to NaN; the caller keeps its model then.

        Source: McMahan et al. 2017, "Communication-efficient learning of deep networks from
        decentralized data", algorithm 1.
        """
        arrived = messages[survivors]
        weights = context.counts[survivors].astype(np.float64)
        total = weights.sum()
        weights = weights / total if total > 0 else weights
        aggregate: NDArray[np.float64] = np.add.reduce(arrived * weights[:, np.newaxis], axis=0)
        if not total > 0:
            aggregate = np.full(messages.shape[1], np.nan)
        for defense in self._of(AggregateDefense):
            aggregate = defense.apply(aggregate, arrived, weights, context)
        return aggregate
