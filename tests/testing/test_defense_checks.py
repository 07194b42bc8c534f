"""Defenses that break their contract, or do not do what they declare, fail the suite, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
from pydantic import Field

from foltr_audit.core.plugins import Ball, Calibration, Defense, PrivacyClaim, PrivacyEvent, RoundContext
from foltr_audit.kernels.messages import projected
from foltr_audit.privacy.events import ClickRandomization, MetricRandomization, NormBound, NormScaling
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.testing import ContractError, check_defense, defense_checks
from foltr_audit.testing.contract import run_checks
from foltr_audit.utils.arrays import Bools, Floats, Ints


def on_message(made: Callable[[Floats, RoundContext], Floats]) -> type[Defense]:
    """A defense of which one hook is given."""
    return sloppy(Defense, on_message=lambda self, models, context: made(models, context))


def sloppy(base: type[Defense], **parts: object) -> type[Defense]:
    about = {"__doc__": "Guarantees: nothing.", "__module__": __name__, "name": "sloppy"}
    return type("Sloppy", (base,), {**about, **parts})


def first_draws(models: Floats, context: RoundContext) -> Floats:
    return context.streams("wrong").uniform(models.shape[1])


# --- declarations ---------------------------------------------------------------------------------


class WithLaplace(Defense):
    """Adds Laplace noise of scale 2, as `distort` changes it.

    Guarantees: nothing.
    """

    name: ClassVar[str] = "honest"

    def law(self, context: RoundContext) -> GammaShare:
        return GammaShare(n=1, scale=2.0)

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        noise = self.law(context).sample(context.streams("sloppy"), models.shape[1])
        return self.distort(models, noise)

    def distort(self, models: Floats, noise: Floats) -> Floats:
        return models + noise


def distorted(made: Callable[[Floats, Floats], Floats]) -> type[Defense]:
    """A defense that adds its noise to models in another way."""
    return sloppy(WithLaplace, distort=lambda self, models, noise: made(models, noise))


class LooseClip(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "loose-clip"

    norm: float = Field(1.0, gt=0, description="declared radius")

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return projected(np.array(models), 2 * self.norm, 2)

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (NormScaling(factor=1.0, of="model"), NormBound(norm=self.norm, ord=2, of="model"))


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


N_FROM_THE_ARRAY = on_message(lambda models, here: models + first_draws(models, here) / max(1, len(models)))
HANDS_BACK = on_message(lambda models, _: models)
UNSEEDED = on_message(lambda models, _: models + np.random.default_rng().normal(size=models.shape))
SHORTER = on_message(lambda models, _: models[:, :1].copy())
NEEDS_SOMEBODY = on_message(lambda models, here: models + 0 * here.clients[0])
AT_THE_PADDING = sloppy(Defense, on_clicks=lambda self, clicks, *given: ~clicks)
OTHER_SCALE = distorted(lambda models, noise: models + 0.9 * noise)
LITTLE_LESS = distorted(lambda models, noise: models + 0.97 * noise)
SHRINKS_THE_MODEL = distorted(lambda models, noise: 0.99 * models + noise)
BARE_WHERE_LARGE = distorted(lambda models, noise: np.where(np.abs(models) > 1e5, models, models + noise))
OTHER_BALL = sloppy(
    Defense,
    ball=property(lambda self: Ball(norm=3.0)),
    on_step=lambda self, models, context: projected(np.array(models), 2.0, 2),
)
PASSES_NAN = sloppy(
    LooseClip,
    on_message=lambda self, models, _: models / np.maximum(1.0, np.abs(models).sum(axis=1, keepdims=True)),
)
SLOPPY: list[tuple[type[Defense], str, str]] = [
    (N_FROM_THE_ARRAY, "a client alone", "n comes from context.shares"),
    (HANDS_BACK, "same seed", "expected a new array from on_message; found the array that it was given"),
    (UNSEEDED, "same seed", "the same output of on_message from the same seed; found another one"),
    (SHORTER, "same seed", r"on_message gave an array of shape \(5, 1\); expected \(5, 6\)"),
    (AT_THE_PADDING, "same seed", "expected no click at the padding"),
    (NEEDS_SOMEBODY, "nobody, and one parameter", "found IndexError"),
    (OTHER_SCALE, "are as declared", "times the declared standard deviation"),
    (LITTLE_LESS, "that much of it", "of a model of zeros"),
    (SHRINKS_THE_MODEL, "nothing else", "noise that does not look at the model"),
    (BARE_WHERE_LARGE, "nothing else", "for models of size 1e"),
    (LooseClip, "are as declared", "models reach a norm of 2, outside the declared ball of 1"),
    (PASSES_NAN, "not finite too", "in the ball of 1 for NaN, infinity and 1e308; found one of size nan"),
    (OTHER_BALL, "its ball", "L2 ball of 3 that `ball` declares"),
    (FlipsMore, "are as declared", "more than is declared"),
    (OtherChannel, "declared channel", "times in 20000, by the channel 0.5"),
    (OtherWay, "can be calibrated", "less noise for a larger number"),
    (Incomplete, "claims", "expected a unit of click, interaction, query, client; found 'person'"),
    (Fading, "claims", "the same claims in every round"),
]


@pytest.mark.parametrize(("cls", "check", "why"), SLOPPY, ids=lambda part: getattr(part, "name", None))
def test_a_sloppy_defense_is_found(cls: type[Defense], check: str, why: str) -> None:
    checks = [one for one in defense_checks(cls) if check in one.name]
    with pytest.raises(ContractError, match=f"defense {cls.name}.*{check}.*{why}") as error:
        run_checks(checks)
    assert error.value.plugin.startswith(f"defense {cls.name}")


def test_an_honest_defense_passes() -> None:
    check_defense(WithLaplace)
    check_defense(OtherChannel(true=0.5))
    check_defense("clip:norm=2")


def test_what_is_right_is_left_alone() -> None:
    """Only checks that have to do with what is wrong fail."""
    with pytest.raises(ContractError) as error:
        check_defense(Fading)
    assert len(error.value.failures) == 1
