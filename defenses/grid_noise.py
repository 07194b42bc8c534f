"""Integer noise shares on a grid, for secure aggregation: discrete Gaussian and Skellam."""

from __future__ import annotations

import math
from typing import ClassVar, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from foltr_audit.errors import UsageError
from foltr_audit.plugins import Calibration, Defense, NoiseAddition, PrivacyClaim, PrivacyEvent, RoundContext
from foltr_audit.privacy.events import GridRounding
from foltr_audit.privacy.loss.composition import epsilon_of_renyi
from foltr_audit.privacy.noise import DiscreteGaussian, Skellam
from foltr_audit.utils.arrays import Floats

_MOST_STEPS = 2.0**52  # so that every number of steps is exact in float64


_Law = TypeVar("_Law", DiscreteGaussian, Skellam)


def _made(law: type[_Law], sigma: float, step: float) -> _Law:
    """A noise law; errors become ValueError, which pydantic reports with the parameter's name."""
    try:
        return law(sigma=sigma, step=step)
    except UsageError as error:
        raise ValueError(str(error)) from error


class _GridMechanism(Defense):
    """Rounds to the nearest grid point and adds noise in whole steps, so that messages are grid points.

    Rounding to the nearest point moves two models apart by at most one step per coordinate; unbiased random
    rounding moves them by up to two. Noise wider than the grid hides the bias.
    """

    calibrated_by: ClassVar[Calibration] = Calibration(in_sum=True, needs_delta=True)

    sigma: float = Field(gt=0, description="standard deviation of the noise in the sum of all n messages")
    step: float = Field(gt=0, description="width g of the grid that messages are rounded to")
    sensitivity: float | None = Field(
        default=None, gt=0, description="largest L2 distance of two models, needed for a claim"
    )
    delta: float | None = Field(default=None, ge=1e-30, lt=1, description="delta of that claim")

    @model_validator(mode="after")
    def _parameters_fit(self) -> Self:
        if (self.sensitivity is None) != (self.delta is None):
            raise ValueError("a claim needs both sensitivity and delta; expected both or none")
        # Makes a law once, so that wrong parameters are refused when the chain is parsed, not during a round.
        self._share(1)
        return self

    def _share(self, n: int) -> DiscreteGaussian | Skellam:
        raise NotImplementedError

    def law(self, context: RoundContext) -> DiscreteGaussian | Skellam:
        """The law of one share.

        Raises:
            UsageError: the grid is too wide for it, or too fine.
        """
        try:
            return self._share(context.shares)
        except ValueError as error:
            raise UsageError(f"defense {self.name}: {error}") from error

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """Models on the grid plus one noise share per coordinate, float64 (C, P).

        Raises:
            UsageError: a coordinate is more than 2^52 grid steps from 0, or not finite.
        """
        with np.errstate(over="ignore"):
            steps = np.rint(models / self.step)
        if not np.all(np.abs(steps) <= _MOST_STEPS):
            largest = float(np.abs(models).max())
            raise UsageError(
                f"defense {self.name}: a model with a coordinate of {largest:g} on a grid of {self.step:g}; "
                "expected at most 2^52 steps: choose a wider step, or clip"
            )
        noise = self.law(context).integers(context.streams(self.name), models.shape[1])
        return np.asarray(self.step * (steps + noise))

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """Rounding to the grid, then noise."""
        return (GridRounding(step=self.step, nearest=True), NoiseAddition(law=self.law(context)))

    @classmethod
    def with_noise(cls, number: float, norm: float, order: int, parameters: int) -> Self:
        """The number is sigma; rounding to the grid moves a message by a thousandth of the radius in L2."""
        step = 2.0 ** math.floor(math.log2(norm / (1000.0 * math.sqrt(parameters))))
        return cls(sigma=number, step=step)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """The paper's bound for the sum of all n messages; none without `sensitivity` and `delta`."""
        if self.sensitivity is None or self.delta is None:
            return ()
        P = max(1, context.parameters.size)
        # Rounding moves each coordinate of two models apart by at most one step. Differences are then whole
        # steps, so l1 <= l2^2 / step as well.
        l2 = self.sensitivity + self.step * math.sqrt(P)
        l1 = l2 * min(math.sqrt(P), l2 / self.step)
        law = self.law(context).summed(context.shares)
        many = (P,) if isinstance(law, DiscreteGaussian) else ()
        epsilon = epsilon_of_renyi(lambda order: law.renyi(order, l1, l2, *many), self.delta)
        return self.claims_for(["aggregate"], "client", epsilon, self.delta)


class DiscreteGaussianShares(_GridMechanism):
    """Each of n clients rounds to a grid and adds a discrete Gaussian of sigma / sqrt(n).

    Guarantees: with `sensitivity` and `delta`, (eps, delta)-DP per round and client (so for every smaller
    unit), replace-one, for an observer of the *sum* of all n messages, if any two models differ by at most
    `sensitivity` in L2 before rounding. Eps follows from n, P, sigma and step by the paper's bound for sums
    of discrete Gaussians, which are not discrete Gaussians themselves. No claim is made for fewer
    messages, colluding clients or single messages. Shares narrower than one grid step are refused, since
    the bound is vacuous there.

    Source: Kairouz, Liu & Steinke 2021, "The distributed discrete Gaussian mechanism for federated learning
    with secure aggregation", theorem 1.
    """

    name: ClassVar[str] = "discrete-gaussian"

    def _share(self, n: int) -> DiscreteGaussian:
        sigma = self.sigma / math.sqrt(n)
        if not sigma >= self.step:
            raise ValueError(
                f"step={self.step:g}: one of {n} shares has sigma {sigma:g}; expected a step of at most that"
            )
        return _made(DiscreteGaussian, sigma, self.step)


class SkellamShares(_GridMechanism):
    """Each of n clients rounds to a grid and adds Skellam noise of sigma / sqrt(n).

    Guarantees: with `sensitivity` and `delta`, (eps, delta)-DP per round and client (so for every smaller
    unit), replace-one, for an observer of the *sum* of all n messages, if any two models differ by at most
    `sensitivity` in L2 before rounding. The sum is Skellam noise of sigma exactly; eps follows by the
    paper's bound. No claim is made for fewer messages, colluding clients or single messages.

    Source: Agarwal, Kairouz & Liu 2021, "The Skellam mechanism for differentially private federated
    learning", theorem 3.5 and corollary 4.1.
    """

    name: ClassVar[str] = "skellam"

    def _share(self, n: int) -> Skellam:
        return _made(Skellam, self.sigma / math.sqrt(n), self.step)
