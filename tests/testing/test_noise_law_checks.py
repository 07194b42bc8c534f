"""Laws of noise that break their contract fail the suite."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from foltr_audit.privacy.noise import Gaussian
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


@pytest.mark.parametrize(
    ("law", "check", "why"),
    [
        (Skewed, "its density", "symmetric around 0"),
        (TooWide, "samples follow its density", "1.05 times the declared standard deviation"),
        (AddsUpWrongly, "sums of samples", "that 2 samples sum to"),
        (OtherVariance, "its density", "expected the variance of its density, 4; found 4.4"),
        (LosesMore, "its largest loss", "as worst_loss says"),
    ],
)
def test_a_sloppy_law_is_found(law: type[Gaussian], check: str, why: str) -> None:
    with pytest.raises(ContractError, match=f"{check}.*{why}"):
        check_noise_law(law(sigma=2.0))


def test_an_honest_law_passes() -> None:
    check_noise_law(Gaussian(sigma=2.0))
