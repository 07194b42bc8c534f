"""Laws of noise that break their contract fail the suite."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from foltr_audit.privacy.noise import Gaussian, Skellam
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
class Shared(Gaussian):
    """All clients have the samples of the first."""

    def sample(self, streams: ClientStreams, size: int) -> Floats:
        samples = super().sample(streams, size)
        return np.broadcast_to(samples[:1], samples.shape).copy()


@dataclass(frozen=True, kw_only=True)
class AddsUpWrongly(Gaussian):
    """A sum with the standard deviations added, not the variances."""

    def summed(self, count: int) -> Gaussian:
        return replace(self, sigma=self.sigma * count)


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
class PureOnGrid(Skellam):
    """A finite loss, which moves by whole steps exceed."""

    def log_density(self, x: ArrayLike) -> Floats:
        return super().log_density(self.step * np.rint(np.asarray(x) / self.step))

    def worst_loss(self, shifts: ArrayLike) -> Floats:
        return np.asarray(np.abs(np.asarray(shifts)) / self.step)


@pytest.mark.parametrize(
    ("law", "check", "why"),
    [
        (Skewed, "its density", "symmetric around 0"),
        (TooWide, "samples, and their sums", "1.05 times the declared standard deviation"),
        (AddsUpWrongly, "samples, and their sums", "that 2 samples sum to"),
        (Shared, "samples belong to clients", "the same samples for a client alone"),
        (LosesMore, "its largest loss", "as worst_loss says"),
        (SlopeTooSmall, "its Gaussian slope", r"more than its gaussian_slope of 0\.495 allows"),
    ],
)
def test_a_sloppy_law_is_found(law: type[Gaussian], check: str, why: str) -> None:
    with pytest.raises(ContractError, match=f"{check}.*{why}"):
        check_noise_law(law(sigma=2.0))


def test_a_sloppy_law_on_a_grid_is_found() -> None:
    with pytest.raises(ContractError, match=r"its largest loss.*for a shift of 1, as worst_loss says"):
        check_noise_law(PureOnGrid(sigma=2.0, step=1.0))


def test_an_honest_law_passes() -> None:
    check_noise_law(Gaussian(sigma=2.0))
