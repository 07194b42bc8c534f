"""The largest privacy loss of a shift: brute force over grids, densities by integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from foltr_audit.privacy.noise import GammaShare, Gaussian

SENSITIVITY = 3.0
FEATURES = 46


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


@pytest.mark.parametrize(
    ("count", "whole", "at_1_2", "spread"),
    [(9, 1.19, 1.40, 2.1), (7, 1.82, 2.06, 10.7), (6, 2.49, 2.75, 27.8)],
)
def test_missing_shares_cost_what_the_mathematics_says(
    count: int, whole: float, at_1_2: float, spread: float
) -> None:
    """One coordinate shifted by the sensitivity for claims of 1 and 1.2; the same L1 over 46 coordinates."""
    law = GammaShare(n=10, count=count, scale=SENSITIVITY)
    assert float(law.worst_loss(SENSITIVITY)) == pytest.approx(whole, abs=0.006)
    at_another_claim = GammaShare(n=10, count=count, scale=SENSITIVITY / 1.2)
    assert float(at_another_claim.worst_loss(SENSITIVITY)) == pytest.approx(at_1_2, abs=0.006)
    small = np.full(FEATURES, SENSITIVITY / FEATURES)
    assert float(law.worst_loss(small).sum()) == pytest.approx(spread, rel=0.01)


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


@pytest.mark.parametrize(("n", "count"), [(40, 22), (1000, 501), (10, 9), (3, 2)])
@pytest.mark.parametrize("shift", [1e-18, 1e-12, 2.4e-8, 2.6e-8, 1e-4])
def test_tiny_shifts_by_many_digits(n: int, count: int, shift: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    law = GammaShare(n=n, scale=2.5, count=count)
    with mpmath.workdps(60):
        order = mpmath.mpf(count) / n - mpmath.mpf(1) / 2
        z = mpmath.mpf(shift) / mpmath.mpf(2.5)
        peak = mpmath.gamma(order) * mpmath.mpf(2) ** (order - 1)  # of z^order K(z) at 0
        loss = float(mpmath.log(peak / (z**order * mpmath.besselk(order, z))))
    assert float(law.worst_loss(shift)) == pytest.approx(loss, rel=2e-7)
