"""The ordered chain of defenses, grouped by the stage in which they act; the published one of a learner."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import (
    Ball,
    Defense,
    Learner,
    MetricLearner,
    PrivacyClaim,
    PrivacyEvent,
    RoundContext,
    WireMessages,
)
from foltr_audit.core.plugins.answers import Kind, all_of, array_of, claims_of, events_of, law_of, one_of
from foltr_audit.core.plugins.defense import HOOKS, STAGES, Stage, stages_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.defaults import LEARNER, NO_DEFENSE
from foltr_audit.errors import PluginError
from foltr_audit.privacy.events import CorrelatedNoise, FloatRounding, NoiseAddition, NormBound, OpaqueChange
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.utils.arrays import Bools, Floats, Ints


def published_chain(
    eps: float, sensitivity: float | None = None, learner: str | Learner = LEARNER
) -> tuple[Defense, ...]:
    """The defenses that the authors of a learner publish for a claimed epsilon; none for an infinite one.

    Of FPDGD a clip at Delta / 2, and Gamma shares of scale Delta / eps. The claim need not hold.

    >>> [defense.text for defense in published_chain(1.2)]
    ['clip:norm=1.5', 'gamma-laplace:eps=1.2,sensitivity=3']
    >>> [defense.text for defense in published_chain(4.5)]
    ['clip:norm=2.5', 'gamma-laplace:eps=4.5,sensitivity=5']

    Args:
        eps: the claim.
        sensitivity: Delta; None for what the learner's authors pair with this epsilon.
        learner: what learns, see `Learner.published_chain`.

    Raises:
        UsageError: there are no published defenses, or a value is out of range.
    """
    learner = make(Learner, learner) if isinstance(learner, str) else learner
    who = f"learner {learner.name}: published_chain"
    return parse_chain(all_of(who, learner.published_chain(eps, sensitivity), (Defense, str), "defenses"))


T = TypeVar("T", bound=np.generic)


def parse_chain(chain: Iterable[str | Defense]) -> tuple[Defense, ...]:
    """Defenses of objects and chain texts, such as `clip:norm=3+gamma-laplace:eps=1.2,sensitivity=3`."""
    return tuple(
        link
        for each in chain
        for link in ([each] if isinstance(each, Defense) else (make(Defense, part) for part in parts(each)))
    )


@dataclass(frozen=True)
class DefenseChain:
    """Defenses in the order given. Stages act in the order of `STAGES`; inside a stage this order holds.

    A link is one defense at its place. Its random streams depend on the place, so two equal defenses never
    share a draw.
    """

    defenses: tuple[Defense, ...]

    def links(self, stage: Stage) -> tuple[Defense, ...]:
        return tuple(defense for _, defense in self._by_stage[stage])

    @cached_property
    def _by_stage(self) -> dict[Stage, tuple[tuple[int, Defense], ...]]:
        links = [(place, defense, stages_of(defense)) for place, defense in enumerate(self.defenses)]
        return {
            stage: tuple((place, defense) for place, defense, acts_in in links if stage in acts_in)
            for stage in STAGES
        }

    def _of(
        self, stage: Stage, context: RoundContext, step: str = ""
    ) -> Iterator[tuple[Defense, RoundContext]]:
        """The links of a stage, each with a context whose prefix names its random streams."""
        for place, defense in self._by_stage[stage]:
            yield defense, context.having(prefix=f"{context.prefix}defense/{place}/{step}")

    @property
    def reopens(self) -> bool:
        """Whether a server can have the sum of a round twice, over different clients.

        Nothing keeps it from that where it adds up plain messages.
        """
        return self.encoding is None or any(defense.reopens for defense in self.defenses)

    def why_not(self, learner: Learner) -> str | None:
        """Why these defenses do not fit a learner, or None if they do.

        Raises:
            PluginError: a metric defense for another metric.
        """
        for defense in self.defenses:
            lost = [stage for stage in stages_of(defense) if stage not in learner.stages]
            if lost:
                able = " or ".join(stage for stage in STAGES if stage in learner.stages)
                expected = f"expected defenses of stage {able}" if able else "expected no defense"
                return f"it has no {lost[0]} stage, where defense {defense.name} acts; {expected}"
            if "metric" in defense.stages and isinstance(learner, MetricLearner):
                defense.law_text(learner.values.size)  # refuses a metric that it does not support
        return None

    @property
    def texts(self) -> tuple[str, ...]:
        """Canonical texts of the defenses that do something; `none` alone if none does."""
        return tuple(defense.text for defense in self.defenses if stages_of(defense)) or (NO_DEFENSE,)

    @property
    def server_queries(self) -> int:
        """The number of labelled queries that the server owns: the most that a defense asks for."""
        return max((defense.server_queries for defense in self.defenses), default=0)

    @property
    def ball(self) -> Ball | None:
        """The ball of the step stage, if its only defense is a clip; else None."""
        steps = self.links("step")
        return steps[0].ball if len(steps) == 1 else None

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """What the links claim for one round, each by its name."""
        return tuple(
            replace(claim, mechanism=defense.name)
            for defense in self.defenses
            for claim in claims_of(defense, context)
        )

    def eps_claimed(self, context: RoundContext) -> float:
        """The epsilon that the chain claims for one round; infinite without a claim.

        The strongest claim of its links: the largest unit, then the observer who sees most, then the smallest
        epsilon. What other links do to the output of a private mechanism is post-processing and costs no
        epsilon.
        """
        strongest = max(self.claims(context), key=lambda claim: (*claim.reach, -claim.epsilon), default=None)
        return math.inf if strongest is None else strongest.epsilon

    def noise(self, context: RoundContext, values: int = 0) -> str | None:
        """The noise laws of a message, in order, joined by `+`; None without noise.

        For a metric learner `values` is the number of values of its metric, and these are the laws of each
        metric behind the message.
        """
        laws = [law.text for defense, own in self._of("message", context) if (law := law_of(defense, own))]
        if values:  # randomised clicks change the metric too, in addition to the law of the metric itself
            laws += [defense.text for defense in self.links("click")]
        laws += [defense.law_text(values) for defense in self.links("metric")]
        return "+".join(laws) or None

    def acts(
        self, context: RoundContext, *, acts_without_pairs: bool = True
    ) -> tuple[tuple[Defense, PrivacyEvent], ...]:
        """Each link's privacy events with the link, in the order in which they act.

        `acts_without_pairs`: whether the step stage also acts after an interaction without pairs.
        """
        return tuple(
            (defense, _as_it_holds(event, defense, stage, always=acts_without_pairs))
            for stage in STAGES
            for defense in self.links(stage)
            for event in events_of(defense, context, stage)
        )

    def events(
        self,
        context: RoundContext,
        *,
        acts_without_pairs: bool = True,
        acts: Sequence[tuple[Defense, PrivacyEvent]] | None = None,
    ) -> tuple[PrivacyEvent, ...]:
        """What happens to a message: the privacy events of all links, and before the wire its number format.

        `acts` are those of the links, if some of them are known to do something else than they declare.
        """
        every = self.acts(context, acts_without_pairs=acts_without_pairs) if acts is None else acts
        late = sum(
            len(events_of(defense, context, stage))
            for stage in STAGES[STAGES.index("wire") :]
            for defense in self.links(stage)
        )
        events, before = tuple(event for _, event in every), len(every) - late
        # What the wire encodes is not rounded to another format first.
        sent_as = context.number_format if self.encoding is None else "float64"
        return (*events[:before], FloatRounding(format=sent_as), *events[before:])

    def arriving(self, messages: int, cohort: int, *, alike: bool) -> int:
        """The fewest messages in a sum, see `Defense.arriving`."""
        for defense in self.links("wire"):
            messages = defense.arriving(messages, cohort, alike=alike)
            if not (isinstance(messages, int) and 1 <= messages <= cohort):
                raise PluginError(
                    f"defense {defense.name}: arriving gave {messages!r}; expected 1 to {cohort}"
                )
        return messages

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        """Clicks (C, k) after the click stage: what the client learns from."""
        for defense, own in self._of("click", context):
            clicks = _same_shape(defense, "click", defense.on_clicks(clicks, shown, step, own), clicks)
        return clicks

    def on_metric(self, outcomes: Ints, values: Floats, step: int, context: RoundContext) -> Ints:
        """Outcomes (C,) of one interaction after the metric stage, as indices into `values` (v,)."""
        for defense, own in self._of("metric", context):
            after = _same_shape(defense, "metric", defense.on_metric(outcomes, values, step, own), outcomes)
            if after.size and not (after.min() >= 0 and after.max() < values.size):
                raise PluginError(
                    f"defense {defense.name}: on_metric gave an outcome outside 0..{values.size - 1}"
                )
            outcomes = after
        return outcomes

    def on_step(self, models: Floats, acts: Bools, step: int, context: RoundContext) -> tuple[Floats, Bools]:
        """Local models (C, P) after the step stage of a local step, and which rows it moved (C,).

        A row that differs by less than a billionth of its largest coordinate has not moved: whether a model
        on the ball is scaled once more depends on the last bit of its norm, and so on the processor.

        `acts` (C,) marks the clients on which the stage acts. The number of the step is part of the name of
        each stream, so a link has new draws in every step.
        """
        from foltr_audit.kernels.messages import moved_rows

        after = models
        for defense, own in self._of("step", context, f"step/{step}/"):
            stepped = _same_shape(defense, "step", defense.on_step(after, own), after)
            whole = acts.all() and stepped.dtype == after.dtype
            after = stepped if whole else np.where(acts[:, np.newaxis], stepped, after)
        return after, moved_rows(*(np.ascontiguousarray(each, np.float64) for each in (models, after)))

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """Models (C, P) after the message stage: what clients send."""
        for defense, own in self._of("message", context):
            models = _same_shape(defense, "message", defense.on_message(models, own), models)
        return models

    def trail(
        self, models: Floats, context: RoundContext, step: int = 0
    ) -> Iterator[tuple[Defense, Floats, Floats]]:
        """Each link of the step stage (for one local step), then of the message stage.

        With its input and its output, models (C, P).
        """
        both: tuple[tuple[Stage, str], ...] = (("step", f"step/{step}/"), ("message", ""))
        for stage, prefix in both:
            for defense, own in self._of(stage, context, prefix):
                hook = defense.on_step if stage == "step" else defense.on_message
                after = _same_shape(defense, stage, hook(models, own), models)
                yield defense, models, after
                models = after

    @property
    def encoding(self) -> FixedPoint | None:
        """How the wire stage encodes messages as integers; None if it does not."""
        found = [link.encoding for link in self.links("wire") if link.encoding is not None]
        return found[-1] if found else None

    def on_wire(
        self, messages: Floats | NDArray[np.float32], context: RoundContext, *, alone: bool = False
    ) -> WireMessages:
        """What the server receives when clients send messages (C, P); these themselves without a wire stage.

        `alone`: each client has a cohort of its own, of which it is the only one that is played.

        Raises:
            PluginError: a link after one that encodes messages, or arrays of another shape.
        """
        wired = WireMessages(messages=messages, survivors=np.ones(messages.shape[0], dtype=np.bool_))
        for defense, own in self._of("wire", context):
            if wired.is_encoded:
                raise PluginError(
                    f"defense {defense.name}: it follows a defense that encodes messages; expected it before"
                )
            plain_messages = np.asarray(wired.messages, dtype=np.float64)
            if alone:
                after = defense.alone(plain_messages, own)
            else:
                after = defense.on_wire(plain_messages, wired.survivors, own)
            after = one_of(f"defense {defense.name}: on_wire", after, WireMessages)
            _same_shape(defense, "wire", after.messages, messages)
            wired = replace(after, costs={**wired.costs, **after.costs})
        return wired

    def on_aggregate(
        self, aggregate: Floats, wired: WireMessages, weights: Floats, context: RoundContext
    ) -> Floats:
        """The server's average (P,) after the aggregate stage.

        Args:
            aggregate: the average of the messages that arrived.
            wired: all C messages.
            weights: weights of the messages in the average, (C,).
            context: the round.

        Raises:
            PluginError: messages are encoded, and a link of the aggregate stage needs single messages.
        """
        for defense, own in self._of("aggregate", context):
            messages = wired.messages[wired.survivors].astype(np.float64, copy=False)
            if wired.is_encoded:
                messages = messages[:0]
                if not defense.works_on_sums:
                    raise PluginError(
                        f"defense {defense.name}: it needs single messages, but the server has only their sum"
                    )
            after = defense.on_aggregate(aggregate, messages, weights[wired.survivors], own)
            aggregate = _same_shape(defense, "aggregate", after, aggregate)
        return aggregate


def _as_it_holds(event: PrivacyEvent, defense: Defense, stage: Stage, *, always: bool) -> PrivacyEvent:
    """The event as accounting may use it, given the stage.

    A step stage that does not always act guarantees neither a bound nor noise for every client. Noise that
    is added after a client has sent its message does not protect that client, and what is done to the sum
    bounds no message: the stage of the sum may only declare noise on it.
    """
    late = stage in ("wire", "aggregate")
    skipped = stage == "step" and not always
    if isinstance(event, NoiseAddition) and (late or skipped):
        return OpaqueChange(mechanism=defense.name)
    if isinstance(event, CorrelatedNoise) != (stage == "aggregate"):
        return OpaqueChange(mechanism=defense.name)
    return replace(event, always=False) if isinstance(event, NormBound) and skipped else event


_KINDS: dict[str, Kind] = {"b": "truth values", "i": "whole numbers"}


def _same_shape(defense: Defense, stage: Stage, after: NDArray[T], before: NDArray[np.generic]) -> NDArray[T]:
    kind = _KINDS.get(before.dtype.kind, "numbers")
    return array_of(f"defense {defense.name}: {HOOKS[stage]}", after, before.shape, kind)
