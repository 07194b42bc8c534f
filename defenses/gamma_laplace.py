"""Gamma noise shares that sum to Laplace noise: the mechanism of FPDGD."""

from __future__ import annotations

from typing import ClassVar

from foltr_audit.defenses.laplace import LaplaceNoise
from pydantic import Field

from foltr_audit.plugins import Calibration, GammaShare, PrivacyClaim, RoundContext
from foltr_audit.privacy.observer_views import VIEWS


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
