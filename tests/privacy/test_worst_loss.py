"""The largest privacy loss of a shift: brute force over grids, densities by integrals; what it proves."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy import integrate

from foltr_audit.privacy.loss.losses import Norms, PureLoss, SensitivityBound
from foltr_audit.privacy.noise import AdditiveNoise, GammaShare, Gaussian


def brute(law: GammaShare, shift: float) -> float:
    """The largest log ratio on a grid that is fine near 0 and near the shift, where densities peak."""
    near = np.concatenate([[0.0], np.geomspace(1e-12, 60.0, 4_001) * law.scale])
    x = np.concatenate([near, -near, shift + near, shift - near])
    return float(np.max(law.log_density(x) - law.log_density(x - shift)))


def density(shape: float, x: float) -> float:
    """Density of a sum of Gamma shares of scale 1, from its characteristic function (1 + t^2)^-shape."""
    if x == 0.0:
        return integrate.quad(lambda t: (1 + t * t) ** -shape, 0, math.inf, limit=500)[0] / math.pi
    return (
        integrate.quad(lambda t: (1 + t * t) ** -shape, 0, math.inf, weight="cos", wvar=x, limit=500)[0]
        / math.pi
    )


@pytest.mark.parametrize("count", [9, 8, 7, 6])
@pytest.mark.parametrize("shift", [0.02, 0.5, 1.0, 4.0])
def test_the_peak_is_worst_where_it_is_finite(count: int, shift: float) -> None:
    shape = count / 10
    law = GammaShare(n=10, count=count, scale=1.0)
    by_integrals = math.log(density(shape, 0.0) / density(shape, shift))
    assert float(law.worst_loss(shift)) == pytest.approx(max(by_integrals, shift), rel=1e-5, abs=1e-6)


@settings(max_examples=60, derandomize=True)
@given(count=st.integers(61, 300), scale=st.floats(1e-3, 1e3), shift=st.floats(1e-2, 8.0))
def test_no_point_of_a_fine_grid_loses_more(count: int, scale: float, shift: float) -> None:
    law = GammaShare(n=100, count=count, scale=scale)
    claimed, found = float(law.worst_loss(shift * scale)), brute(law, shift * scale)
    assert found <= claimed * (1 + 1e-7) + 1e-6
    if law.shape <= 1:  # else it is reached in the limit only
        missed = (1e-9) ** (2 * law.shape - 1)  # of the peak, below the floor of the density
        assert found >= claimed - 3 * missed / (2 * law.shape - 1) - 1e-6
    assert found > 0.4 * claimed, "another formula would show"


@pytest.mark.parametrize("count", [1, 3, 5])
def test_half_of_the_shares_or_fewer_bound_nothing(count: int) -> None:
    law = GammaShare(n=10, count=count, scale=1.0)
    assert law.worst_loss([0.0, 1e-9, -1.0]).tolist() == [0.0, math.inf, math.inf]
    finer = [float(law.log_density(x) - law.log_density(1.0)) for x in (1e-2, 1e-4, 1e-6, 1e-8)]
    assert np.all(np.diff(finer) > 0.1), "it grows without end towards 0"


def test_all_shares_lose_what_laplace_noise_does() -> None:
    shifts = np.array([-7.0, 0.0, 1e-9, 2.5])
    for law in (GammaShare(n=1, scale=2.5), GammaShare(n=8, scale=2.5, count=8)):
        np.testing.assert_allclose(law.worst_loss(shifts), np.abs(shifts) / 2.5, rtol=1e-15)
        assert brute(law, 2.5) == pytest.approx(1.0, rel=1e-9)


def test_normal_noise_has_no_pure_loss() -> None:
    law = Gaussian(sigma=2.0)
    assert law.worst_loss([[0.0], [1e-300]]).tolist() == [[0.0], [math.inf]]
    x = np.array([-1e3, -1e6])
    assert np.all(law.log_density(x) - law.log_density(x - 1.0) > 100)


class _Stair(AdditiveNoise):
    """A law of somebody else on a grid, which states its worst loss only."""

    name: ClassVar[str] = "stair"
    scale = 1.0
    variance = 1.0
    text = "stair:scale=1"
    grid = 0.5

    def log_density(self, x: ArrayLike) -> NDArray[np.float64]:
        return -np.abs(np.asarray(x, dtype=np.float64))

    def sample(self, streams: object, size: int) -> NDArray[np.float64]:
        raise NotImplementedError

    def summed(self, count: int) -> AdditiveNoise:
        return self

    def worst_loss(self, shifts: ArrayLike) -> NDArray[np.float64]:
        return np.abs(np.asarray(shifts, dtype=np.float64))


@pytest.mark.parametrize(("grid", "stretch", "proven"), [(0.5, 1.0, 3.0), (0.0, 1.0, None), (0.5, 2.0, None)])
def test_a_law_that_states_its_worst_loss_only_proves_it_on_its_grid(
    grid: float, stretch: float, proven: float | None
) -> None:
    hidden = SensitivityBound(
        apart=Norms(3.0, 2.0, 1.0), parameters=3, grid=grid, where="on each message", stretch=stretch
    )
    (proof,) = _Stair().proofs(hidden)
    assert proof.loss == (None if proven is None else PureLoss(proven))
