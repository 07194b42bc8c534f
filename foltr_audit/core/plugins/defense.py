"""Defense plug-ins: one hook for each stage of a round, and what the engine asks of a defense."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from foltr_audit.core.plugins.base import Plugin, refuse_unpaired
from foltr_audit.core.records.round_context import RoundContext, WireMessages
from foltr_audit.errors import PluginError
from foltr_audit.privacy.events import (
    Ball,
    NoiseAddition,
    NormBound,
    OpaqueChange,
    PrivacyClaim,
    PrivacyEvent,
)
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.utils.arrays import Bools, Floats, Ints

Stage = Literal["click", "metric", "step", "message", "wire", "aggregate"]

HOOKS: dict[Stage, str] = {
    "click": "on_clicks",
    "metric": "on_metric",
    "step": "on_step",
    "message": "on_message",
    "wire": "on_wire",
    "aggregate": "on_aggregate",
}
"""Stages in the order in which they act, each with the hook that a defense overrides to act in it."""

STAGES: tuple[Stage, ...] = tuple(HOOKS)


class Calibration(NamedTuple):
    """How one number sets the noise of a defense, see `Defense.with_noise`.

    `calibrate` searches the least noise that meets a target, `compare` offers the defense as `proven-NAME`,
    and `recommend` searches over its targets and clip norms.

    Attributes:
        falls: a larger number means less noise (an epsilon); else more noise (a standard deviation).
        order: norm of the ball that models are clipped to first, 1 or 2; 0 if nothing is clipped.
        in_sum: clients share one noise, of which a single message carries next to nothing, or the aggregator
            adds it: the target is proven for the sum of the messages.
        released: the aggregator adds the noise: nothing is proven but for the sums that it releases.
        needs_delta: nothing is proven at delta 0.
        norms: smallest and largest norm of the ball that `recommend` tries, on a log scale.
    """

    falls: bool = False
    order: int = 2
    in_sum: bool = False
    released: bool = False
    needs_delta: bool = False
    norms: tuple[float, float] = (0.1, 10.0)


class Defense(Plugin):
    """One link of the chain. A subclass overrides the hook of each stage in which it acts.

    Hooks work on all C clients of a cohort at once and return new arrays; by default they change nothing.
    Randomness comes from `context.streams(purpose)` only.

    Attributes:
        calibrated_by: how its noise can be calibrated; None for a defense without noise of one number.
        works_on_sums: whether `on_aggregate` works without single messages, which secure aggregation hides.
        leaves_out: whether it leaves coordinates out, which noise that is added later would fill again.
    """

    calibrated_by: ClassVar[Calibration | None] = None
    works_on_sums: ClassVar[bool] = False
    leaves_out: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, **more: object) -> None:
        """Refuse a class that does nothing of what it declares, or whose `ball` may not be its `on_step`."""
        super().__pydantic_init_subclass__(**more)
        declares = cls.law is not Defense.law or cls.claims is not Defense.claims
        named = "name" in vars(cls)  # a base class of several defenses may leave the hooks to them
        if named and declares and not cls.possible_stages() and cls.stages is Defense.stages:
            raise PluginError(
                f"defense {cls.name}: it declares noise or a claim but does nothing; expected one "
                f"of the hooks {', '.join(HOOKS.values())}"
            )
        refuse_unpaired(cls, "defense", "on_step", "ball", Defense)

    @classmethod
    def possible_stages(cls) -> tuple[Stage, ...]:
        """The stages whose hooks the class overrides."""
        return tuple(
            stage for stage, hook in HOOKS.items() if getattr(cls, hook) is not getattr(Defense, hook)
        )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages in which it acts; by default all possible ones. Override it if a parameter decides."""
        return self.possible_stages()

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        """The clicks that clients learn from, bool (C, k), False at the padding of `shown` (C, k)."""
        return clicks

    def on_metric(self, outcomes: Ints, values: Floats, step: int, context: RoundContext) -> Ints:
        """The online metric that clients send, int64 (C,): indices into the metric's `values` (v,).

        It must follow the law that `channel` states.
        """
        return outcomes

    def on_step(self, models: Floats, context: RoundContext) -> Floats:
        """Local models after a local step, float64 (C, P); a row equal to its input counts as unchanged."""
        return models

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """The models that clients send, float64 (C, P). Minus `context.parameters` they are updates."""
        return models

    def on_wire(self, messages: Floats, survivors: Bools, context: RoundContext) -> WireMessages:
        """What the server receives when a cohort sends messages (C, P).

        A message with False in `survivors` (C,) was lost before.
        """
        return WireMessages(messages=messages, survivors=survivors)

    def arriving(self, messages: int, cohort: int, *, alike: bool) -> int:
        """The fewest of so many messages that `on_wire` lets into a sum, if it lets any.

        By default 1 of a defense of the wire stage, so that no proof counts on the noise of others.

        Args:
            messages: how many come to it, at least.
            cohort: number of clients in the round.
            alike: whether all clients of the round received the same from the server.
        """
        return 1 if "wire" in self.stages else messages

    def on_aggregate(
        self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext
    ) -> Floats:
        """The new global model or update, float64 (P,), from the server's `aggregate` (P,).

        `messages` (S, P) are those that arrived, with `weights` (S,) that sum to 1; of a secure sum there
        are none.
        """
        return aggregate

    def averaged(self, messages: int) -> int:
        """How many of the `messages` that arrive `on_aggregate` makes a plain mean of; by default all.

        The rule is public: whoever sees the global model may use it to read the messages behind it.
        """
        return messages

    @property
    def server_queries(self) -> int:
        """Labelled queries of the training split from which the server learns for `on_aggregate`.

        What it learnt is `context.server_update`. By default it owns none.
        """
        return 0

    @property
    def reopens(self) -> bool:
        """Whether clients answer a second request of the server to open the sum of a round."""
        return False

    def alone(self, messages: Floats, context: RoundContext) -> WireMessages:
        """What `on_wire` gives when each client is in a separate cohort of `context.shares` clients.

        Used for fresh clients, which are attacked one by one. By default they form one cohort.
        """
        return self.on_wire(messages, np.ones(messages.shape[0], dtype=np.bool_), context)

    def law(self, context: RoundContext) -> AdditiveNoise | None:
        """The public law of the noise that it adds to each coordinate of a message; None without noise.

        `on_message` must do nothing else than add it, and round.
        """
        return None

    @property
    def ball(self) -> Ball | None:
        """The ball that `on_step` scales models into, if it does nothing else; else None.

        The compiled loop of local steps then scales models itself and does not call `on_step`.
        """
        return None

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """What it does in its one stage, for accounting.

        By default the noise of its `law` in the message stage, or the bound of its `ball` in the step stage;
        else an unknown change, which voids all bounds.
        """
        law = self.law(context)
        if law is not None and self.stages == ("message",):
            return (NoiseAddition(law=law),)
        if self.ball is not None and self.stages == ("step",):
            return (NormBound(norm=self.ball.norm, ord=self.ball.ord, of="model"),)
        return (OpaqueChange(mechanism=self.name),)

    def events_in(self, stage: Stage, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """What it does in one of its stages, for accounting.

        A class that acts in several stages overrides it; by default each of them is an unknown change, since
        accounting has to know whether noise comes before a secure sum, and a bound before the noise.
        """
        return self.events(context) if len(self.stages) == 1 else (OpaqueChange(mechanism=self.name),)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """The privacy claims of its authors for one round; none by default."""
        return ()

    def claims_for(
        self, views: Iterable[str], unit: str, epsilon: float, delta: float = 0.0
    ) -> tuple[PrivacyClaim, ...]:
        """One claim for the observer of each view; neighbouring inputs differ in one replaced `unit`."""
        return tuple(
            PrivacyClaim(
                mechanism=self.name,
                epsilon=epsilon,
                delta=delta,
                unit=unit,
                relation="replace-one",
                view=view,
            )
            for view in views
        )

    def channel(self, values: int) -> Floats:
        """The public law P(reported | true) of `on_metric`, float64 (v, v), a row for each true outcome."""
        raise NotImplementedError

    def law_text(self, values: int) -> str:
        """Text of that law for a metric with v = `values` values, e.g. `metric-rr:p=0.25`."""
        return self.text

    def message_bits(self, parameters: int, number: int) -> float:
        """Size in bits of a message of P = `parameters` after `on_message`; `number`: bits of a plain one."""
        return float(parameters * number)

    @property
    def encoding(self) -> FixedPoint | None:
        """How `on_wire` encodes messages as integers, or None; then its input is unrounded float64."""
        return None

    def client_seconds(self, clients: int, size: int) -> dict[str, float]:
        """Measure the seconds that one client of a cohort works in `on_wire` on P = `size`, by stage."""
        return {}

    @classmethod
    def with_noise(cls, number: float, norm: float, order: int, parameters: int) -> Self:
        """The defense with the noise that one number sets; only for a class with a `calibrated_by`.

        Args:
            number: what is searched for: more or less noise, as `calibrated_by.falls` says.
            norm: radius of the ball that models are clipped to before.
            order: 1 or 2, the norm of that ball.
            parameters: coordinates P of a message.

        Raises:
            ValueError: a number that it does not accept.
        """
        raise NotImplementedError


def stages_of(defense: Defense) -> tuple[Stage, ...]:
    """The stages in which a defense acts.

    Raises:
        PluginError: they are not stages whose hooks its class overrides.
    """
    stages = defense.stages
    if not isinstance(stages, tuple) or not set(stages) <= set(STAGES):
        expected = ", ".join(STAGES)
        raise PluginError(
            f"defense {defense.name}: stages gave {stages!r}; expected a tuple out of {expected}"
        )
    return stages
