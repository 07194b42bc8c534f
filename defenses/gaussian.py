"""Gaussian noise: the whole noise on each message, or shares that sum to it."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from foltr_audit.plugins import Calibration, Defense, PrivacyClaim, RoundContext
from foltr_audit.privacy.loss.composition import classical_gaussian_sigma, gaussian_sigma
from foltr_audit.privacy.noise import Gaussian
from foltr_audit.privacy.observer_views import WITHOUT_LISTS
from foltr_audit.utils.arrays import Floats


class _GaussianMechanism(Defense):
    """Gaussian noise with a given sigma, or with the sigma that an (eps, delta) needs."""

    views: ClassVar[tuple[str, ...]] = ()

    eps: float | None = Field(default=None, ge=1e-6, description="claimed epsilon of a round")
    delta: float | None = Field(default=None, ge=1e-30, lt=1, description="claimed delta of a round")
    sensitivity: float | None = Field(default=None, gt=0, description="largest L2 distance of two messages")
    calibration: Literal["analytic", "classical"] | None = Field(
        default=None, description="how sigma is computed: analytic (if left out) or classical (eps up to 1)"
    )
    sigma: float | None = Field(
        default=None,
        gt=0,
        description="standard deviation of the whole noise, instead of the other parameters",
    )

    @model_validator(mode="after")
    def _deviation_is_known(self) -> Self:
        target = (self.eps, self.delta, self.sensitivity)
        if self.sigma is None and None in target:
            raise ValueError("expected either sigma, or eps, delta and sensitivity")
        if self.sigma is not None and (self.calibration or target != (None, None, None)):
            raise ValueError("sigma excludes a claim; expected sigma alone, or eps, delta and sensitivity")
        if not 0 < self.deviation < math.inf:
            raise ValueError(f"sensitivity={self.sensitivity:g} with eps={self.eps:g}: no finite noise scale")
        return self

    @property
    def deviation(self) -> float:
        """Standard deviation, per coordinate, of the sum of all noise shares."""
        if self.eps is None or self.delta is None or self.sensitivity is None:
            return self.sigma or math.inf
        sigma_of = classical_gaussian_sigma if self.calibration == "classical" else gaussian_sigma
        return sigma_of(self.eps, self.delta, self.sensitivity)

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """Models plus noise, float64 (C, P)."""
        law = self.law(context)
        return models if law is None else models + law.sample(context.streams(self.name), models.shape[1])

    @classmethod
    def with_noise(cls, number: float, norm: float, order: int, parameters: int) -> Self:
        return cls(sigma=number)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """(eps, delta) for one client; none if sigma was given directly."""
        if self.eps is None or self.delta is None:
            return ()
        return self.claims_for(self.views, "client", self.eps, self.delta)


class GaussianNoise(_GaussianMechanism):
    """Each client adds Gaussian noise to every coordinate of its own message.

    Guarantees: (eps, delta)-DP per round and client (so for every smaller unit), replace-one, for a server
    that sees single messages, and so for all other observers, if the messages of any two clients differ by
    at most `sensitivity` in L2: a clip at half of it ensures that. The classical calibration holds up to eps
    1 and is refused above. With `sigma` alone no claim is made. Proven for real numbers, as for `laplace`.

    Source: Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy: analytical
    calibration and optimal denoising", theorem 8; classical: Dwork & Roth 2014, "The algorithmic
    foundations of differential privacy", theorem A.1.
    """

    name: ClassVar[str] = "gaussian"
    calibrated_by: ClassVar[Calibration] = Calibration(needs_delta=True)
    views: ClassVar[tuple[str, ...]] = WITHOUT_LISTS

    def law(self, context: RoundContext) -> Gaussian:
        return Gaussian(sigma=self.deviation)


class GaussianShares(_GaussianMechanism):
    """Each of n clients adds Gaussian noise of sigma / sqrt(n); the sum carries the whole sigma.

    Guarantees: (eps, delta)-DP per round and client (so for every smaller unit), replace-one, for an
    observer of the *sum* of all n messages, if the messages of any two clients differ by at most
    `sensitivity` in L2. No claim is made for a sum of m < n messages (its noise is only sigma sqrt(m / n)),
    for n - 1 colluding clients or for a server that sees single messages (one share of noise is left), nor
    for shares that are rounded after they were drawn, as `secure-aggregation` does.

    Source: Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy: analytical
    calibration and optimal denoising", theorem 8; shares as in Dwork et al. 2006, "Our data, ourselves:
    privacy via distributed noise generation".
    """

    name: ClassVar[str] = "gaussian-shares"
    calibrated_by: ClassVar[Calibration] = Calibration(in_sum=True, needs_delta=True)
    views: ClassVar[tuple[str, ...]] = ("aggregate",)

    def law(self, context: RoundContext) -> Gaussian:
        return Gaussian(sigma=self.deviation / math.sqrt(context.shares))
