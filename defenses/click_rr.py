"""Randomised response on clicks: every bit is flipped with a known probability."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field, model_validator

from foltr_audit.plugins import (
    Calibration,
    ClickRandomization,
    Defense,
    NormScaling,
    PrivacyClaim,
    PrivacyEvent,
    RoundContext,
    Stage,
)
from foltr_audit.privacy.observer_views import VIEWS
from foltr_audit.utils.arrays import Bools, Floats, Ints


class ClickRR(Defense):
    """Reports each click and non-click as it is with probability `keep = e^eps / (1 + e^eps)`, else flipped.

    Guarantees: eps-DP for one flipped click (unit click, replace-one), for any observer, since learning from
    the reports is post-processing. Queries and shown lists are not protected. An interaction with k shown
    documents gets k eps, and the epsilons of a client's interactions add up. Attacks know `keep`.

    With `debias` the client divides its update by 2 keep - 1. A PDGD update with `pairs=all` is linear in the
    clicks, and equal for no clicks and for clicks on every document. So after *one* interaction without a
    clip the expected message is exactly that of the true clicks. With `pairs=last-click+1` it stays biased.
    With several interactions the local model drifts, so it is unbiased only to first order in the learning
    rate.

    Source: Warner 1965, "Randomized response: a survey technique for eliminating evasive answer bias".
    """

    name: ClassVar[str] = "click-rr"
    calibrated_by: ClassVar[Calibration] = Calibration(falls=True, order=0)

    eps: float | None = Field(default=None, ge=1e-9, le=20, description="epsilon of one click")
    keep: float | None = Field(
        default=None, gt=0.5, le=1 - 1e-9, description="probability of the true bit, instead of eps"
    )
    debias: bool = Field(default=False, description="divide updates by 2 keep - 1")

    @model_validator(mode="after")
    def _one_is_given(self) -> ClickRR:
        if (self.eps is None) == (self.keep is None):
            raise ValueError("expected either eps or keep")
        return self

    @property
    def epsilon(self) -> float:
        """Epsilon of one click: the log ratio of the probabilities to keep and to flip a bit."""
        if self.keep is not None:
            return ClickRandomization.kept_with(self.keep).epsilon
        return self.eps or 0.0

    @property
    def factor(self) -> float:
        """`1 / (2 keep - 1)`: what debiasing multiplies updates by."""
        from foltr_audit.kernels.elementary import exp

        odds = exp(-self.epsilon)  # of a flip
        return (1.0 + odds) / (1.0 - odds)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The click stage, and with `debias` the message stage."""
        return ("click", "message") if self.debias else ("click",)

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        """Reported clicks, bool (C, k), False at the padding."""
        from foltr_audit.kernels.elementary import exp

        k, chance = clicks.shape[1], 1.0 / (1.0 + exp(self.epsilon))
        # Each step reads k numbers that no other step reads; otherwise two lists would have the same flips.
        lies = context.streams("click-rr").uniform(k, first=step * k) < chance
        return np.asarray((clicks ^ lies) & (shown >= 0))

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """Debiased models, float64 (C, P); without `debias`, the models themselves."""
        if not self.debias:
            return models
        return context.parameters + self.factor * (models - context.parameters)

    def events_in(self, stage: Stage, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """Randomised clicks in the click stage, larger updates in the message stage."""
        if stage == "message":
            return (NormScaling(factor=self.factor, of="update"),)
        return (ClickRandomization(epsilon=self.epsilon),)

    @classmethod
    def with_noise(cls, number: float, norm: float, order: int, parameters: int) -> ClickRR:
        """The number is the epsilon of one click."""
        return cls(eps=number)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """Eps for one click, for every observer."""
        return self.claims_for(VIEWS, "click", self.epsilon)
