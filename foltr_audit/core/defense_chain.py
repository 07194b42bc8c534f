"""The ordered chain of defenses, grouped by the stage in which they act."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import (
    AggregateDefense,
    Ball,
    ClickDefense,
    Defense,
    Learner,
    MessageDefense,
    MetricDefense,
    MetricLearner,
    PrivacyEvent,
    RoundContext,
    StepDefense,
    WireDefense,
    WireMessages,
)
from foltr_audit.core.plugins.answers import Kind, array_of, claims_of, events_of, law_of, one_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import PluginError
from foltr_audit.kernels.scaling import ROUNDING
from foltr_audit.privacy.events import NoiseAddition, NormBound, OpaqueChange
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.utils.arrays import Bools, Floats, Ints

S = TypeVar("S", bound=Defense)
T = TypeVar("T", bound=np.generic)

STAGES = ("click", "metric", "step", "message", "wire", "aggregate")
"""Stages in the order in which they act."""


def parse_chain(texts: Iterable[str]) -> tuple[Defense, ...]:
    """Defenses of one or more chain texts such as `clip:norm=3+gamma-laplace:eps=1.2,sensitivity=3`."""
    return tuple(make(Defense, part) for text in texts for part in parts(text))


@dataclass(frozen=True)
class DefenseChain:
    """Defenses in the order they were given; each acts in its own stage, stages in their order.

    A link draws from streams of its own place, so that two equal defenses never share a draw.
    """

    defenses: tuple[Defense, ...]

    def _of(self, kind: type[S], context: RoundContext, step: str = "") -> Iterator[tuple[S, RoundContext]]:
        """The links of a stage, each with the context that its own streams come from."""
        for place, defense in enumerate(self.defenses):
            if isinstance(defense, kind) and defense.acts_in(kind.stage):
                yield defense, replace(context, prefix=f"{context.prefix}defense/{place}/{step}")

    def links(self, kind: type[S]) -> tuple[S, ...]:
        """The links of a stage."""
        return tuple(
            defense for defense in self.defenses if isinstance(defense, kind) and defense.acts_in(kind.stage)
        )

    def why_not(self, learner: Learner) -> str | None:
        """Why these defenses cannot protect what a learner makes, or None if they can.

        Raises:
            PluginError: a metric defense that speaks of another metric.
        """
        for defense in self.defenses:
            lost = [stage for stage in STAGES if defense.acts_in(stage) and stage not in learner.stages]
            if lost and defense.name != "none":
                able = " or ".join(stage for stage in STAGES if stage in learner.stages)
                expected = f"expected defenses of stage {able}" if able else "expected no defense"
                return f"it has no {lost[0]} stage, where defense {defense.name} acts; {expected}"
            if isinstance(defense, MetricDefense) and isinstance(learner, MetricLearner):
                defense.law_text(learner.values.size)  # refuses a metric that it does not speak of
        return None

    @property
    def texts(self) -> tuple[str, ...]:
        """Canonical texts of the defenses; `none` alone for an empty chain."""
        return tuple(defense.text for defense in self.defenses if defense.name != "none") or ("none",)

    @property
    def ball(self) -> Ball | None:
        """The ball of the step stage, if it has exactly one defense and that is a clip."""
        steps = self.links(StepDefense)
        return steps[0].ball if len(steps) == 1 else None

    def eps_claimed(self, context: RoundContext) -> float:
        """The epsilon that the chain claims for one round; infinite without a claim.

        Of its links' claims the one that says most: of the largest unit, then of the observer who sees most,
        then with the smallest epsilon. What other links do to the output of a private mechanism is
        post-processing and costs nothing.
        """
        claims = [claim for defense in self.defenses for claim in claims_of(defense, context)]
        strongest = max(claims, key=lambda claim: (*claim.reach, -claim.epsilon), default=None)
        return math.inf if strongest is None else strongest.epsilon

    def noise(self, context: RoundContext, values: int = 0) -> str | None:
        """The laws of the noise in a message, or in each of the metrics of `values` values behind it.

        In order, joined by `+`; None without any.
        """
        laws = [
            law.text for defense, own in self._of(MessageDefense, context) if (law := law_of(defense, own))
        ]
        if values:  # a metric of randomised clicks is no metric that only its own law has changed
            laws += [defense.text for defense in self.links(ClickDefense)]
        laws += [defense.law_text(values) for defense in self.links(MetricDefense)]
        return "+".join(laws) or None

    def acts(
        self, context: RoundContext, *, acts_without_pairs: bool = True
    ) -> tuple[tuple[Defense, PrivacyEvent], ...]:
        """What happens to a message and which link does it, in the order in which they act.

        `acts_without_pairs` says whether the step stage acts after an interaction without pairs too.
        """
        return tuple(
            (defense, _as_it_holds(event, defense, stage, always=acts_without_pairs))
            for stage in STAGES
            for defense in self.defenses
            if defense.acts_in(stage)
            for event in events_of(defense, stage, context)
        )

    def events(self, context: RoundContext, *, acts_without_pairs: bool = True) -> tuple[PrivacyEvent, ...]:
        """What the links do to a message, in the order in which they act."""
        return tuple(event for _, event in self.acts(context, acts_without_pairs=acts_without_pairs))

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        """Clicks that the client learns from, bool (C, k)."""
        for defense, own in self._of(ClickDefense, context):
            clicks = _same_shape(defense, defense.apply(clicks, shown, step, own), clicks)
        return clicks

    def on_metric(self, outcomes: Ints, values: Floats, step: int, context: RoundContext) -> Ints:
        """Outcomes (C,) of one interaction's metric that clients go on with, places among `values` (v,)."""
        for defense, own in self._of(MetricDefense, context):
            after = _same_shape(defense, defense.apply(outcomes, values, step, own), outcomes)
            if after.size and not (after.min() >= 0 and after.max() < values.size):
                raise PluginError(f"defense {defense.name}: it gave an outcome outside 0..{values.size - 1}")
            outcomes = after
        return outcomes

    def on_step(self, models: Floats, acts: Bools, step: int, context: RoundContext) -> tuple[Floats, Bools]:
        """Local models (C, P) after the step stage of a local step, and which rows it moved (C,).

        A row that differs by less than a billionth of its largest coordinate has not moved: whether a model
        on the ball is scaled once more depends on the last bit of its norm, and so on the processor.

        `acts` (C,) says on which clients the stage acts at all. The number of the step is part of the names
        of a link's streams, so that it draws anew after every step.
        """
        after = models
        for defense, own in self._of(StepDefense, context, f"step/{step}/"):
            stepped = _same_shape(defense, defense.apply(after, own), after)
            after = np.where(acts[:, np.newaxis], stepped, after)
        with np.errstate(invalid="ignore"):
            moved = np.abs(after - models).max(axis=1, initial=0.0)
        return after, ~(moved <= ROUNDING * np.abs(models).max(axis=1, initial=0.0))

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """Models that clients send, float64 (C, P)."""
        for defense, own in self._of(MessageDefense, context):
            models = _same_shape(defense, defense.apply(models, own), models)
        return models

    def trail(
        self, models: Floats, context: RoundContext, step: int = 0
    ) -> Iterator[tuple[Defense, Floats, Floats]]:
        """Each link of the step stage, after one local step, and then of the message stage.

        With the models (C, P) that it gets and those that it gives.
        """
        links: list[tuple[StepDefense | MessageDefense, RoundContext]] = [
            *self._of(StepDefense, context, f"step/{step}/"),
            *self._of(MessageDefense, context),
        ]
        for defense, own in links:
            after = _same_shape(defense, defense.apply(models, own), models)
            yield defense, models, after
            models = after

    @property
    def encoding(self) -> FixedPoint | None:
        """How the wire stage encodes messages as integers, if it does."""
        found = [link.encoding for link in self.links(WireDefense) if link.encoding is not None]
        return found[-1] if found else None

    def on_wire(self, messages: Floats, context: RoundContext) -> WireMessages:
        """What the server receives of messages (C, P).

        Clients of a simulation beside the training rounds (`context.prefix`) take part one by one.

        Raises:
            PluginError: a link behind one that encodes messages, or arrays of another shape.
        """
        wired = WireMessages(messages=messages, survivors=np.ones(messages.shape[0], dtype=np.bool_))
        for defense, own in self._of(WireDefense, context):
            if wired.is_encoded:
                raise PluginError(
                    f"defense {defense.name}: it acts on messages that are encoded; expected it before"
                )
            plain_messages = np.asarray(wired.messages, dtype=np.float64)
            if context.prefix:
                after = defense.alone(plain_messages, own)
            else:
                after = defense.apply(plain_messages, wired.survivors, own)
            after = one_of(f"defense {defense.name}: apply", after, WireMessages)
            _same_shape(defense, after.messages, messages)
            wired = replace(after, costs={**wired.costs, **after.costs})
        return wired

    def on_aggregate(self, wired: WireMessages, context: RoundContext) -> Floats:
        """FedAvg of the messages that arrived, weighted by interactions, then the aggregate stage.

        Encoded messages are averaged from their sum. A round in which nothing arrived averages to NaN; the
        caller keeps its model then.

        Source: McMahan et al. 2017, "Communication-efficient learning of deep networks from
        decentralized data", algorithm 1.

        Raises:
            PluginError: a link of the aggregate stage that needs single messages, where they are encoded.
        """
        weights = np.where(wired.survivors, context.counts, 0).astype(np.float64)
        total = weights.sum()
        weights = weights / total if total > 0 else weights
        aggregate = _average(wired, weights, total)
        for defense, own in self._of(AggregateDefense, context):
            messages = wired.messages[wired.survivors].astype(np.float64, copy=False)
            if wired.is_encoded:
                messages = messages[:0]
                if not defense.works_on_sums:
                    raise PluginError(
                        f"defense {defense.name}: it needs single messages, and the server has only their sum"
                    )
            after = defense.apply(aggregate, messages, weights[wired.survivors], own)
            aggregate = _same_shape(defense, after, aggregate)
        return aggregate


def _average(wired: WireMessages, weights: Floats, total: float) -> Floats:
    """Mean of the messages (P,) by weights (C,) that sum to 1 and were `total` before; NaN without any."""
    from foltr_audit.kernels.averaging import weighted_sum

    if not total > 0 or (wired.is_encoded and wired.sum is None):
        return np.full(wired.messages.shape[1], np.nan)
    if wired.sum is not None:
        return np.asarray(wired.sum / total)
    return weighted_sum(wired.messages.astype(np.float64, copy=False), weights)


def _as_it_holds(event: PrivacyEvent, defense: Defense, stage: str, *, always: bool) -> PrivacyEvent:
    """What an event is worth in its stage.

    A step stage that does not always act neither bounds nor noises the messages of all clients. Noise that
    is added after a client has sent is no noise of that client: it counts for nothing.
    """
    late = stage in (WireDefense.stage, AggregateDefense.stage)
    skipped = stage == StepDefense.stage and not always
    if isinstance(event, NoiseAddition) and (late or skipped):
        return OpaqueChange(mechanism=defense.name)
    return replace(event, always=False) if isinstance(event, NormBound) and skipped else event


_KINDS: dict[str, Kind] = {"b": "truth values", "i": "whole numbers"}


def _same_shape(defense: Defense, after: NDArray[T], before: NDArray[Any]) -> NDArray[T]:
    kind = _KINDS.get(before.dtype.kind, "numbers")
    return array_of(f"defense {defense.name}: apply", after, before.shape, kind)
