"""Defense plug-ins: one class for each stage of the chain."""

from __future__ import annotations

from typing import ClassVar

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
    """One link of the chain. Subclass the class of the stage that it acts in."""

    stage: ClassVar[str]

    def acts_in(self, stage: str) -> bool:
        """Whether it acts in a stage; a subclass of two stages' classes may let a parameter choose."""
        return stage == self.stage

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """What it does to a message, for accounting; what says nothing costs every bound before it."""
        return (OpaqueChange(mechanism=self.name),)

    def events_in(self, stage: str, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """What it does in one of the stages that it acts in; one that acts in several tells them apart."""
        return self.events(context)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """What its authors claim for one round; nothing by default."""
        return ()


class ClickDefense(Defense):
    """Changes clicks before the client learns from them."""

    stage: ClassVar[str] = "click"

    def apply(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        """New clicks, bool (C, k); those at the padding of `shown` (C, k) must stay False."""
        raise NotImplementedError


class MetricDefense(Defense):
    """Changes the online metric of one interaction before the client averages and sends it."""

    stage: ClassVar[str] = "metric"

    def apply(self, outcomes: Ints, values: Floats, step: int, context: RoundContext) -> Ints:
        """New outcomes, int64 (C,), each the place of a metric's value among `values` (v,)."""
        raise NotImplementedError

    def channel(self, values: int) -> Floats:
        """P(reported | true) as everybody may know it, float64 (v, v) with a row per true outcome."""
        raise NotImplementedError

    def law_text(self, values: int) -> str:
        """The same of a metric with v values as public knowledge, e.g. `metric-rr:p=0.25`."""
        return self.text


class StepDefense(Defense):
    """Acts on the local models after every local step."""

    stage: ClassVar[str] = "step"

    def apply(self, parameters: Floats, context: RoundContext) -> Floats:
        """New local models, float64 (C, P); a row that comes back equal was left alone.

        Without code of its own, a defense that declares a `ball` scales models into it, and the
        engine does so in its fastest form.
        """
        from foltr_audit.kernels.ball import projected

        if self.ball is None:
            raise NotImplementedError
        return projected(np.ascontiguousarray(parameters), self.ball.norm, self.ball.ord)

    @property
    def ball(self) -> Ball | None:
        """The ball that models are kept in, if that is all this defense does."""
        return None

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """The bound of its ball, if that is all it does."""
        if self.ball is None:
            return super().events(context)
        return (NormBound(norm=self.ball.norm, ord=self.ball.ord, of="model"),)


class MessageDefense(Defense):
    """Acts on what a client is about to send: its local model after the last step."""

    stage: ClassVar[str] = "message"

    def apply(self, models: Floats, context: RoundContext) -> Floats:
        """New models to send, float64 (C, P). The difference to `context.parameters` is the update."""
        raise NotImplementedError

    def bits(self, parameters: int, number: int) -> float:
        """What a message takes after it, in bits; `number` bits for each of P parameters by default.

        It is asked with P and the bits of a plain number (32 or 64).
        """
        return float(parameters * number)

    def law(self, context: RoundContext) -> AdditiveNoise | None:
        """The law of the noise that it adds to each coordinate of one message, as everybody may know it."""
        return None

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """Noise of its law, if it declares one."""
        law = self.law(context)
        return super().events(context) if law is None else (NoiseAddition(law=law),)


class WireDefense(Defense):
    """Acts on the messages on their way to the server."""

    stage: ClassVar[str] = "wire"

    @property
    def encoding(self) -> FixedPoint | None:
        """How it encodes messages as integers, if it does; it then gets them as float64, not rounded."""
        return None

    def apply(self, messages: Floats, survivors: Bools, context: RoundContext) -> WireMessages:
        """What the server receives of a cohort's messages (C, P), of which some are lost (C,) already."""
        raise NotImplementedError

    def alone(self, messages: Floats, context: RoundContext) -> WireMessages:
        """What the server receives of clients that each take part in a cohort of `context.shares` of its own.

        So are fresh clients attacked, one by one. By default as if they were one cohort.
        """
        return self.apply(messages, np.ones(messages.shape[0], dtype=np.bool_), context)

    def client_seconds(self, clients: int, size: int) -> dict[str, float]:
        """Seconds of one client's work in a cohort for a message of P = `size`, by stage, measured anew."""
        return {}


class AggregateDefense(Defense):
    """Replaces or changes the server's average.

    Attributes:
        works_on_sums: it does without single messages, which secure aggregation hides.
    """

    works_on_sums: ClassVar[bool] = False
    stage: ClassVar[str] = "aggregate"

    def apply(self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext) -> Floats:
        """The new global model or update, float64 (P,).

        `messages` (S, P) are the ones that arrived, with their weights (S,) that sum to 1, and
        `aggregate` is what the stages before have made of them.
        """
        raise NotImplementedError
