"""Defense plug-ins: one class for each stage of the chain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.records.round_context import RoundContext
from foltr_audit.core.records.wire import WireMessages
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


class Defense(Plugin):
    """One link of the chain. Derive a defense from the class of its stage."""

    stage: ClassVar[str]

    def acts_in(self, stage: str) -> bool:
        """Whether it acts in a stage; in a class of two stages a parameter may decide."""
        return stage == self.stage

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """What it does to a message, for accounting; by default an unknown change, which voids all bounds."""
        return (OpaqueChange(mechanism=self.name),)

    def events_in(self, stage: str, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """The events of one stage; override it if the defense acts in several stages."""
        return self.events(context)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """The privacy claims of its authors for one round; none by default."""
        return ()

    def claims_for(
        self, views: Iterable[str], unit: str, epsilon: float, delta: float = 0.0
    ) -> tuple[PrivacyClaim, ...]:
        """One claim for the observer of each view; neighbouring inputs differ in one replaced `unit`."""
        claim: dict[str, Any] = {"mechanism": self.name, "epsilon": epsilon, "delta": delta, "unit": unit}
        return tuple(PrivacyClaim(**claim, relation="replace-one", view=view) for view in views)


class ClickDefense(Defense):
    """Changes clicks before the client learns from them."""

    stage: ClassVar[str] = "click"

    def apply(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        """New clicks, bool (C, k); they must stay False at the padding of `shown` (C, k)."""
        raise NotImplementedError


class MetricDefense(Defense):
    """Changes the online metric of one interaction before the client averages and sends it."""

    stage: ClassVar[str] = "metric"

    def apply(self, outcomes: Ints, values: Floats, step: int, context: RoundContext) -> Ints:
        """New outcomes, int64 (C,): indices into the metric's `values` (v,)."""
        raise NotImplementedError

    def channel(self, values: int) -> Floats:
        """The public law P(reported | true), float64 (v, v) with one row per true outcome."""
        raise NotImplementedError

    def law_text(self, values: int) -> str:
        """Text of this law for a metric with v = `values` values, e.g. `metric-rr:p=0.25`."""
        return self.text


class StepDefense(Defense):
    """Acts on the local models after every local step."""

    stage: ClassVar[str] = "step"

    def apply(self, parameters: Floats, context: RoundContext) -> Floats:
        """New local models, float64 (C, P); a row equal to its input counts as unchanged.

        By default models are scaled into the `ball`, so a defense that declares a ball need not override
        this method.
        """
        from foltr_audit.kernels.ball import projected

        if self.ball is None:
            raise NotImplementedError
        return projected(np.ascontiguousarray(parameters), self.ball.norm, self.ball.ord)

    @property
    def ball(self) -> Ball | None:
        """The ball that models are scaled into, if the defense does nothing else; else None."""
        return None

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """The norm bound of its ball, if it has one."""
        if self.ball is None:
            return super().events(context)
        return (NormBound(norm=self.ball.norm, ord=self.ball.ord, of="model"),)


class MessageDefense(Defense):
    """Changes the local model after the last local step, before the client sends it."""

    stage: ClassVar[str] = "message"

    def apply(self, models: Floats, context: RoundContext) -> Floats:
        """New models to send, float64 (C, P). Minus `context.parameters` it is the update."""
        raise NotImplementedError

    def bits(self, parameters: int, number: int) -> float:
        """Size in bits of a message after this defense; by default `number` bits for each parameter.

        Args:
            parameters: number of parameters P.
            number: bits of a plain number, 32 or 64.
        """
        return float(parameters * number)

    def law(self, context: RoundContext) -> AdditiveNoise | None:
        """The public law of the noise it adds to each coordinate of a message; None without noise."""
        return None

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """The noise of its law, if it declares one."""
        law = self.law(context)
        return super().events(context) if law is None else (NoiseAddition(law=law),)


class WireDefense(Defense):
    """Acts on messages between the clients and the server."""

    stage: ClassVar[str] = "wire"

    @property
    def encoding(self) -> FixedPoint | None:
        """How it encodes messages as integers, or None; with an encoding its input is unrounded float64."""
        return None

    def apply(self, messages: Floats, survivors: Bools, context: RoundContext) -> WireMessages:
        """What the server receives when a cohort sends messages (C, P).

        A message with False in `survivors` (C,) was lost before.
        """
        raise NotImplementedError

    def alone(self, messages: Floats, context: RoundContext) -> WireMessages:
        """What the server receives when each client is in a separate cohort of `context.shares` clients.

        Used for fresh clients, which are attacked one by one. By default they form one cohort.
        """
        return self.apply(messages, np.ones(messages.shape[0], dtype=np.bool_), context)

    def client_seconds(self, clients: int, size: int) -> dict[str, float]:
        """Measure the seconds that one client of a cohort works on a message of P = `size`, by stage."""
        return {}


class AggregateDefense(Defense):
    """Replaces or changes the server's average.

    Attributes:
        works_on_sums: whether it works without single messages, which secure aggregation hides.
    """

    works_on_sums: ClassVar[bool] = False
    stage: ClassVar[str] = "aggregate"

    def apply(self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext) -> Floats:
        """The new global model or update, float64 (P,).

        `messages` (S, P) are those that arrived, with `weights` (S,) that sum to 1; `aggregate` (P,) is the
        average after the defenses before this one.
        """
        raise NotImplementedError
