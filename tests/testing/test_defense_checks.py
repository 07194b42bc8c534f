"""Defenses that break their contract, or do not do what they declare, fail the suite, with the reason."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from pydantic import Field

from foltr_audit.core.plugins import (
    Ball,
    Calibration,
    Defense,
    PrivacyClaim,
    PrivacyEvent,
    RoundContext,
)
from foltr_audit.kernels.messages import projected
from foltr_audit.privacy.events import (
    ClickRandomization,
    MetricRandomization,
    NormBound,
    NormScaling,
)
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.testing import ContractError, check_defense
from foltr_audit.utils.arrays import Bools, Floats, Ints


class NFromTheArray(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "n-from-array"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        noise = context.streams("wrong").uniform(models.shape[1])
        return np.asarray(models + noise / max(1, models.shape[0]))


class HandsBack(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "hands-back"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models


class Unseeded(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "unseeded"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models + np.random.default_rng().normal(size=models.shape)


class Shorter(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "shorter"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models[:, :1].copy()


class ClicksAtThePadding(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "at-padding"

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        return ~clicks


class NeedsSomebody(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "needs-somebody"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        assert context.clients[0] >= 0
        return models.copy()


# --- declarations ---------------------------------------------------------------------------------


class WithLaplace(Defense):
    """Adds Laplace noise of scale 2, as `distort` changes it.

    Guarantees: nothing.
    """

    def law(self, context: RoundContext) -> GammaShare:
        return GammaShare(n=1, scale=2.0)

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        noise = self.law(context).sample(context.streams("sloppy"), models.shape[1])
        return self.distort(models, noise)

    def distort(self, models: Floats, noise: Floats) -> Floats:
        return models + noise


class Honest(WithLaplace):
    """Does as it declares.

    Guarantees: nothing.
    """

    name: ClassVar[str] = "honest"


class OtherScale(WithLaplace):
    """Guarantees: nothing."""

    name: ClassVar[str] = "other-scale"

    def distort(self, models: Floats, noise: Floats) -> Floats:
        return models + 0.9 * noise


class LittleLess(WithLaplace):
    """Guarantees: nothing."""

    name: ClassVar[str] = "little-less"

    def distort(self, models: Floats, noise: Floats) -> Floats:
        return models + 0.97 * noise


class ShrinksTheModel(WithLaplace):
    """Guarantees: nothing."""

    name: ClassVar[str] = "shrinks-the-model"

    def distort(self, models: Floats, noise: Floats) -> Floats:
        return 0.99 * models + noise


class BareWhereLarge(WithLaplace):
    """Guarantees: nothing."""

    name: ClassVar[str] = "bare-where-large"

    def distort(self, models: Floats, noise: Floats) -> Floats:
        return np.where(np.abs(models) > 1e5, models, models + noise)


class LooseClip(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "loose-clip"

    norm: float = Field(1.0, gt=0, description="declared radius")

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return projected(np.array(models), 2 * self.norm, 2)

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (NormScaling(factor=1.0, of="model"), NormBound(norm=self.norm, ord=2, of="model"))


class OtherBall(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "other-ball"

    @property
    def ball(self) -> Ball:
        return Ball(norm=3.0)

    def on_step(self, models: Floats, context: RoundContext) -> Floats:
        return projected(np.array(models), 2.0, 2)


class FlipsMore(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "flips-less"

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        k = clicks.shape[1]
        flips = context.streams("flips").uniform(k, first=step * k) < 0.1
        return np.asarray((clicks ^ flips) & (shown >= 0))

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (ClickRandomization(epsilon=1.0),)


class OtherChannel(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "other-channel"

    keep: float = Field(0.5, gt=0, lt=1, description="declared probability of the true value")
    true: float = Field(0.6, gt=0, lt=1, description="probability of the true value")

    def on_metric(self, outcomes: Ints, values: Floats, step: int, context: RoundContext) -> Ints:
        u = context.streams("channel").uniform(2, first=2 * step)
        other = (outcomes + 1 + (u[:, 1] * (values.size - 1)).astype(np.int64)) % values.size
        return np.where(u[:, 0] < self.true, outcomes, other)

    def channel(self, values: int) -> Floats:
        rest = (1 - self.keep) / (values - 1)
        return np.where(np.eye(values) > 0, self.keep, rest)

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (MetricRandomization(epsilon=2.4),)


class OtherWay(WithLaplace):
    """Guarantees: nothing."""

    name: ClassVar[str] = "other-way"
    calibrated_by: ClassVar[Calibration] = Calibration(falls=True)

    scale: float = Field(1.0, gt=0, description="scale of the noise")

    def law(self, context: RoundContext) -> GammaShare:
        return GammaShare(n=1, scale=self.scale)

    @classmethod
    def with_noise(cls, number: float, norm: float, order: int, parameters: int) -> OtherWay:
        return cls(scale=number)


class Incomplete(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "incomplete"

    unit: str = Field("person", description="unit of its claim")

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models.copy()

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        return self.claims_for(["individual"], self.unit, 1.0)


class Fading(Incomplete):
    """Guarantees: nothing."""

    name: ClassVar[str] = "fading"

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        return self.claims_for(["individual"], "client", 1.0 + context.round)


SLOPPY: list[tuple[type[Defense], str, str]] = [
    (NFromTheArray, "a client alone", "n comes from context.shares"),
    (HandsBack, "same seed", "expected a new array from on_message; found the array that it was given"),
    (Unseeded, "same seed", "the same output of on_message from the same seed; found another one"),
    (Shorter, "same seed", r"on_message gave an array of shape \(5, 1\); expected \(5, 6\)"),
    (ClicksAtThePadding, "same seed", "expected no click at the padding"),
    (NeedsSomebody, "nobody, and one parameter", "found IndexError"),
    (OtherScale, "are as declared", "times the declared standard deviation"),
    (LittleLess, "that much of it", "of a model of zeros"),
    (ShrinksTheModel, "nothing else", "noise that does not look at the model"),
    (BareWhereLarge, "nothing else", "for models of size 1e"),
    (LooseClip, "are as declared", "models reach a norm of 2, outside the declared ball of 1"),
    (OtherBall, "its ball", "L2 ball of 3 that `ball` declares"),
    (FlipsMore, "are as declared", "more than is declared"),
    (OtherChannel, "declared channel", "times in 20000, by the channel 0.5"),
    (OtherWay, "can be calibrated", "less noise for a larger number"),
    (Incomplete, "claims", "expected a unit of click, interaction, query, client; found 'person'"),
    (Fading, "claims", "the same claims in every round"),
]


@pytest.mark.parametrize(("cls", "check", "why"), SLOPPY, ids=lambda part: getattr(part, "name", None))
def test_a_sloppy_defense_is_found(cls: type[Defense], check: str, why: str) -> None:
    with pytest.raises(ContractError, match=f"defense {cls.name}.*{check}.*{why}") as error:
        check_defense(cls)
    assert error.value.plugin.startswith(f"defense {cls.name}")
    assert any(check in name for name in error.value.failures)


def test_an_honest_defense_passes() -> None:
    check_defense(Honest)
    check_defense(OtherChannel(true=0.5))
    check_defense("clip:norm=2")


def test_what_is_right_is_left_alone() -> None:
    """Only checks that have to do with what is wrong fail."""
    with pytest.raises(ContractError) as error:
        check_defense(Fading)
    assert len(error.value.failures) == 1
