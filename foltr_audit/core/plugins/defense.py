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
    """One link of the chain. Subclass the class of the stage that it acts in."""

    stage: ClassVar[str]

    def acts_in(self, stage: str) -> bool:
        """Whether it acts in a stage; a subclass of two stages' classes may let a parameter decide."""
        return stage == self.stage

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """What it does to a message, for accounting; by default an unknown change, which voids bounds."""
        return (OpaqueChange(mechanism=self.name),)

    def events_in(self, stage: str, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """What it does in one stage; override it if the defense acts in several stages."""
        return self.events(context)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """What its authors claim for one round; nothing by default."""
        return ()

    def claims_for(
        self, views: Iterable[str], unit: str, epsilon: float, delta: float = 0.0
    ) -> tuple[PrivacyClaim, ...]:
        """The same claim for the observer of each view: neighbours replace one `unit` by another."""
        claim: dict[str, Any] = {"mechanism": self.name, "epsilon": epsilon, "delta": delta, "unit": unit}
        return tuple(PrivacyClaim(**claim, relation="replace-one", view=view) for view in views)


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
        """Text of that law for a metric with v values, as public knowledge, e.g. `metric-rr:p=0.25`."""
        return self.text


class StepDefense(Defense):
    """Acts on the local models after every local step."""

    stage: ClassVar[str] = "step"

    def apply(self, parameters: Floats, context: RoundContext) -> Floats:
        """New local models, float64 (C, P); a row that comes back equal counts as unchanged.

        A defense that only declares a `ball` needs no code here: models are scaled into the ball, by the
        fastest kernel that fits.
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
    """Acts on what a client is about to send: its local model after the last local step."""

    stage: ClassVar[str] = "message"

    def apply(self, models: Floats, context: RoundContext) -> Floats:
        """New models to send, float64 (C, P). The difference to `context.parameters` is the update."""
        raise NotImplementedError

    def bits(self, parameters: int, number: int) -> float:
        """Size in bits of a message after this defense: `number` bits for each parameter by default.

        Args:
            parameters: number of parameters P.
            number: bits of a plain number, 32 or 64.
        """
        return float(parameters * number)

    def law(self, context: RoundContext) -> AdditiveNoise | None:
        """The public law of the noise that it adds to each coordinate of one message; None without noise."""
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
        """How it encodes messages as integers, if it does; its input is then float64, not yet rounded."""
        return None

    def apply(self, messages: Floats, survivors: Bools, context: RoundContext) -> WireMessages:
        """What the server receives of a cohort's messages (C, P); False in `survivors` (C,): already lost."""
        raise NotImplementedError

    def alone(self, messages: Floats, context: RoundContext) -> WireMessages:
        """What the server receives of clients each of whom has its own cohort of `context.shares` clients.

        Used for fresh clients, who are attacked one by one. By default they are treated as one cohort.
        """
        return self.apply(messages, np.ones(messages.shape[0], dtype=np.bool_), context)

    def client_seconds(self, clients: int, size: int) -> dict[str, float]:
        """Measure the seconds of one client's work in a cohort for a message of P = `size`, by stage."""
        return {}


class AggregateDefense(Defense):
    """Replaces or changes the server's average.

    Attributes:
        works_on_sums: whether it needs no single messages, which secure aggregation hides.
    """

    works_on_sums: ClassVar[bool] = False
    stage: ClassVar[str] = "aggregate"

    def apply(self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext) -> Floats:
        """The new global model or update, float64 (P,).

        `messages` (S, P) are those that arrived, with `weights` (S,) that sum to 1; `aggregate` is the
        average so far.
        """
        raise NotImplementedError
