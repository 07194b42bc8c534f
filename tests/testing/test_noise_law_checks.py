"""Laws of noise that break their contract fail the suite."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import pytest
from numpy.typing import ArrayLike

from foltr_audit.privacy.noise import AdditiveNoise, DiscreteGaussian, Gaussian, Skellam
from foltr_audit.rng import ClientStreams
from foltr_audit.testing import ContractError, check_noise_law
from foltr_audit.utils.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class Skewed(Gaussian):
    """A density that is not symmetric."""

    def log_density(self, x: ArrayLike) -> Floats:
        return super().log_density(np.asarray(x) + 0.1)


@dataclass(frozen=True, kw_only=True)
class TooWide(Gaussian):
    """Samples that are wider than its density."""

    def sample(self, streams: ClientStreams, size: int) -> Floats:
        return 1.05 * super().sample(streams, size)


@dataclass(frozen=True, kw_only=True)
class AddsUpWrongly(Gaussian):
    """A sum with the standard deviations added, not the variances."""

    def summed(self, count: int) -> Gaussian:
        return replace(self, sigma=self.sigma * count)


@dataclass(frozen=True, kw_only=True)
class OtherVariance(Gaussian):
    """A variance that is not that of its density."""

    @property
    def variance(self) -> float:
        return 1.1 * self.sigma**2


@dataclass(frozen=True, kw_only=True)
class LosesMore(Gaussian):
    """A largest loss that is exceeded."""

    def worst_loss(self, shifts: ArrayLike) -> Floats:
        return np.asarray(np.abs(np.asarray(shifts)) / self.sigma)


@dataclass(frozen=True, kw_only=True)
class SlopeTooSmall(Gaussian):
    """A Gaussian slope that promises too much privacy."""

    @property
    def gaussian_slope(self) -> float:
        return 0.99 / self.sigma


@dataclass(frozen=True, kw_only=True)
class SmallerDraws(Gaussian):
    """Draws that are said to be smaller than they are."""

    def probability_within(self, size: ArrayLike) -> Floats:
        return super().probability_within(1.01 * np.asarray(size))


@dataclass(frozen=True, kw_only=True)
class HardlyWeaker(Gaussian):
    """A share of the standard deviation, where one of the variance is asked for."""

    def with_variance(self, share: float) -> Gaussian:
        return replace(self, sigma=self.sigma * share**0.25)


@dataclass(frozen=True, kw_only=True)
class SlopeOfSigma(Skellam):
    """The slope of normal noise on no grid."""

    @property
    def gaussian_slope(self) -> float:
        return 1.0 / self.sigma


@dataclass(frozen=True, kw_only=True)
class WindowsAroundZero(Skellam):
    """Windows that are most probable around 0, which is false of narrow ones on a grid."""

    def concentration(self, half: ArrayLike) -> Floats | None:
        return self.probability_within(half)


@dataclass(frozen=True, kw_only=True)
class AlwaysAsWide(Skellam):
    """The same standard deviation and a coarser grid, where a share of the variance is asked for."""

    def with_variance(self, share: float) -> Self:
        return replace(self, step=1.5 * self.step)


@dataclass(frozen=True, kw_only=True)
class PureOnGrid(Skellam):
    """A finite loss, which moves by whole steps exceed."""

    def log_density(self, x: ArrayLike) -> Floats:
        return super().log_density(self.step * np.rint(np.asarray(x) / self.step))

    def worst_loss(self, shifts: ArrayLike) -> Floats:
        return np.asarray(np.abs(np.asarray(shifts)) / self.step)


@dataclass(frozen=True, kw_only=True)
class WithoutStep(AdditiveNoise):
    """Discrete Gaussian noise whose grid is called otherwise."""

    name: ClassVar[str] = "without-step"

    width: float
    count: int = 1

    @property
    def law(self) -> DiscreteGaussian:
        return DiscreteGaussian(sigma=3.0 * self.width, step=self.width, count=self.count)

    @property
    def scale(self) -> float:
        return self.law.scale

    @property
    def variance(self) -> float:
        return self.law.variance

    @property
    def grid(self) -> float:
        return self.width

    @property
    def gaussian_slope(self) -> float:
        return self.law.gaussian_slope

    def log_density(self, x: ArrayLike) -> Floats:
        return self.law.log_density(self.width * np.rint(np.minimum(np.asarray(x) / self.width, 1e300)))

    def sample(self, streams: ClientStreams, size: int) -> Floats:
        return self.law.sample(streams, size)

    def summed(self, count: int) -> WithoutStep:
        return replace(self, count=self.count * count)

    def concentration(self, half: ArrayLike) -> Floats | None:
        return self.law.concentration(half)


@pytest.mark.parametrize(
    ("law", "check", "why"),
    [
        (Skewed, "its density", "symmetric around 0"),
        (TooWide, "samples follow its density", "1.05 times the declared standard deviation"),
        (AddsUpWrongly, "sums of samples", "that 2 samples sum to"),
        (OtherVariance, "its density", "expected the variance of its density, 4; found 4.4"),
        (LosesMore, "its largest loss", "as worst_loss says"),
        (SlopeTooSmall, "its Gaussian slope", r"more than its gaussian_slope of 0\.495 allows"),
        (
            SmallerDraws,
            "how large its draws are",
            r"expected P\[.* by its density; found probability_within of",
        ),
        (HardlyWeaker, "a share of its variance", r"at most 3\.6 from with_variance\(0\.9\); found 3\.795"),
    ],
)
def test_a_sloppy_law_is_found(law: type[Gaussian], check: str, why: str) -> None:
    with pytest.raises(ContractError, match=f"{check}.*{why}"):
        check_noise_law(law(sigma=2.0))


@pytest.mark.parametrize(
    ("law", "check", "why"),
    [
        (SlopeOfSigma, "its Gaussian slope", r"for a shift of 1; found .* gaussian_slope of 0\.5 allows"),
        (WindowsAroundZero, "how large its draws are", r"expected max P\[.*; found concentration of"),
        (AlwaysAsWide, "a share of its variance", r"at most 3\.6 from with_variance\(0\.9\); found 4"),
        (PureOnGrid, "its largest loss", "for a shift of 1, as worst_loss says"),
    ],
)
def test_a_sloppy_law_on_a_grid_is_found(law: type[Skellam], check: str, why: str) -> None:
    with pytest.raises(ContractError, match=f"{check}.*{why}"):
        check_noise_law(law(sigma=2.0, step=1.0))


@pytest.mark.parametrize("law", [Gaussian(sigma=2.0), WithoutStep(width=0.5)])
def test_an_honest_law_passes(law: AdditiveNoise) -> None:
    check_noise_law(law)
