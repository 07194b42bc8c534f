"""Gamma noise shares that sum to Laplace noise: the mechanism of FPDGD."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field, model_validator

from foltr_audit.plugins import Calibration, Defense, PrivacyClaim, RoundContext
from foltr_audit.privacy.loss.composition import l1_diameter
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.privacy.observer_views import VIEWS
from foltr_audit.utils.arrays import Floats


class GammaLaplace(Defense):
    """Each client adds one of n Gamma shares per coordinate; their sum is Laplace(sensitivity / eps).

    Guarantees: the authors claim eps per round for neighbours that differ in one interaction. What is
    proven is less: an observer of the *sum* sees the Laplace mechanism of scale sensitivity / eps per
    coordinate, which is eps-DP for inputs whose *L1* distance is at most `sensitivity` (an L2 clip does
    not ensure that). An observer of *single* messages gets no pure guarantee for n >= 2. Nothing is proven of
    shares that are rounded after they were drawn, as `secure-aggregation` does.

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    section 3.3 and eq. 16.
    """

    name: ClassVar[str] = "gamma-laplace"
    calibrated_by: ClassVar[Calibration] = Calibration(falls=True, order=1, in_sum=True)

    eps: float = Field(gt=0, description="claimed epsilon of a round")
    sensitivity: float = Field(gt=0, description="Delta, the claimed sensitivity")

    @model_validator(mode="after")
    def _scale_is_a_number(self) -> GammaLaplace:
        # The quotient of two positive numbers may be 0 or infinity in float64.
        if not 0 < self.sensitivity / self.eps < math.inf:
            raise ValueError(f"eps={self.eps:g} with sensitivity={self.sensitivity:g}: no finite noise scale")
        return self

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise that is the sum of all shares."""
        return self.sensitivity / self.eps

    def law(self, context: RoundContext) -> GammaShare:
        return GammaShare(n=context.shares, scale=self.scale)

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """Models plus one noise share per coordinate, float64 (C, P)."""
        return models + self.law(context).sample(context.streams("gamma-laplace"), models.shape[1])

    @classmethod
    def with_noise(cls, number: float, norm: float, order: int, parameters: int) -> GammaLaplace:
        """The number is the epsilon of two models in the ball, as far apart in L1 as they can be."""
        return cls(eps=number, sensitivity=l1_diameter(norm, order, parameters))

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """The published claim: eps for one interaction. It names no observer, so it is made for each."""
        return self.claims_for(VIEWS, "interaction", self.eps)
