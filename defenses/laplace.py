"""Laplace noise: the whole of it on each message, or Gamma shares that sum to it, the mechanism of FPDGD."""

from __future__ import annotations

import math
from typing import ClassVar, Self

from pydantic import Field, model_validator

from foltr_audit.plugins import Calibration, Defense, GammaShare, PrivacyClaim, RoundContext
from foltr_audit.privacy.loss.composition import l1_diameter
from foltr_audit.privacy.observer_views import VIEWS, WITHOUT_LISTS
from foltr_audit.utils.arrays import Floats


class LaplaceNoise(Defense):
    """Each client adds Laplace noise of scale sensitivity / eps to every coordinate.

    Guarantees: eps-DP per round and client (so for every smaller unit), replace-one, for a server that sees
    single messages, and so for all other observers, if the messages of any two clients differ by at most
    `sensitivity` in *L1*: an L1 clip at half of it ensures that. The proof is for real numbers: it does not
    cover the last bits of floating-point numbers (Mironov 2012). `skellam` and `discrete-gaussian` act on a
    grid instead.

    Source: Dwork, McSherry, Nissim & Smith 2006, "Calibrating noise to sensitivity in private data
    analysis", section 3.
    """

    name: ClassVar[str] = "laplace"
    calibrated_by: ClassVar[Calibration] = Calibration(falls=True, order=1)

    eps: float = Field(gt=0, description="claimed epsilon of a round")
    sensitivity: float = Field(gt=0, description="largest L1 distance of two messages")

    @model_validator(mode="after")
    def _scale_is_a_number(self) -> Self:
        # The quotient of two positive numbers may be 0 or infinity in float64.
        if not 0 < self.scale < math.inf:
            raise ValueError(f"eps={self.eps:g} with sensitivity={self.sensitivity:g}: no finite noise scale")
        return self

    @property
    def scale(self) -> float:
        """Scale of the whole noise on each coordinate."""
        return self.sensitivity / self.eps

    def law(self, context: RoundContext) -> GammaShare:
        """The law of the whole noise: a single share."""
        return GammaShare(n=1, scale=self.scale)

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """Models plus noise on each coordinate, float64 (C, P)."""
        return models + self.law(context).sample(context.streams(self.name), models.shape[1])

    @classmethod
    def with_noise(cls, number: float, norm: float, order: int, parameters: int) -> Self:
        """The number is the epsilon of two models in the ball, as far apart in L1 as they can be."""
        return cls(eps=number, sensitivity=l1_diameter(norm, order, parameters))

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """Eps for one client, for every observer."""
        return self.claims_for(WITHOUT_LISTS, "client", self.eps)


class GammaLaplace(LaplaceNoise):
    """Each client adds one of n Gamma shares per coordinate; their sum is Laplace(sensitivity / eps).

    Guarantees: the authors claim eps per round for neighbours that differ in one interaction. What is
    proven is less. In exact numbers an observer of the *sum* sees the Laplace mechanism of scale
    sensitivity / eps per coordinate, which is eps-DP for inputs whose *L1* distance is at most `sensitivity`
    (an L2 clip does not ensure that). But messages are sent as float32 or float64, and `secure-aggregation`
    rounds them to a grid: for n >= 2 most shares are too small to change a coordinate, so that nothing is
    proven of the sum. Nothing is proven of *single* messages either. `skellam`, `discrete-gaussian` and
    `gaussian-shares` have a proof.

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    section 3.3 and eq. 16.
    """

    name: ClassVar[str] = "gamma-laplace"
    calibrated_by: ClassVar[Calibration] = Calibration(falls=True, order=1, in_sum=True)

    sensitivity: float = Field(gt=0, description="Delta, the claimed sensitivity")

    def law(self, context: RoundContext) -> GammaShare:
        """The law of one share."""
        return GammaShare(n=context.shares, scale=self.scale)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """The published claim: eps for one interaction. It names no observer, so it is made for each."""
        return self.claims_for(VIEWS, "interaction", self.eps)
