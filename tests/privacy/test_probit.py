"""Log-concave noise as private as a Gaussian: its slope by another route, and no pair of vectors beats it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, signal, special, stats

from foltr_audit.privacy.gaussian_dp import gaussian_delta
from foltr_audit.privacy.noise import DiscreteGaussian, GammaShare, Gaussian, Skellam
from foltr_audit.privacy.noise.special_functions import (
    CHECKED_STEPS,
    fine_slope,
    lattice_points,
    lattice_slope,
)

Masses = NDArray[np.float64]
Lattice = DiscreteGaussian | Skellam


def masses_of(law: Lattice, far: int) -> Masses:
    """P(k) for k = -far .. far, with SciPy alone; sums of discrete Gaussians by convolution."""
    k = np.arange(-far, far + 1)
    if isinstance(law, Skellam):
        mean = 0.5 * (law.sigma / law.step) ** 2
        return np.asarray(stats.skellam.pmf(k, mean, mean))
    one = np.exp(-0.5 * (k * law.step / law.sigma) ** 2)
    one /= one.sum()
    total: Masses = one
    for _ in range(law.count - 1):
        total = signal.fftconvolve(total, one)
    middle = total.size // 2
    return np.maximum(total[middle - far : middle + far + 1], 0.0)


def delta_of_shift(masses: Masses, shift: tuple[int, ...], eps: float) -> float:
    """The exact delta at eps of a law moved by a vector of steps, by all outcomes in all coordinates."""
    one, other = np.ones(1), np.ones(1)
    for steps in shift:
        moved = np.concatenate([np.zeros(abs(steps)), masses])
        still = np.concatenate([masses, np.zeros(abs(steps))])
        one, other = np.outer(one, moved).ravel(), np.outer(other, still).ravel()
        kept = (one > 1e-17) | (other > 1e-17)
        one, other = one[kept], other[kept]
    return float(np.maximum(one - math.exp(eps) * other, 0.0).sum())


LAWS: list[tuple[Lattice, int]] = [
    (Skellam(sigma=0.3, step=1.0), 30),
    (Skellam(sigma=1.0, step=1.0), 40),
    (Skellam(sigma=1.5, step=0.5), 60),
    (DiscreteGaussian(sigma=0.5, step=1.0), 30),
    (DiscreteGaussian(sigma=1.0, step=1.0), 30),
    (DiscreteGaussian(sigma=1.0, step=1.0, count=7), 60),
    (DiscreteGaussian(sigma=2.0, step=1.0, count=3), 60),
]


@pytest.mark.parametrize(("law", "far"), LAWS, ids=lambda value: getattr(value, "text", ""))
@pytest.mark.parametrize("shift", [(1,), (4,), (1, 1), (3, 1), (2, 2, 1)])
def test_no_move_on_a_grid_costs_more_than_a_gaussian_of_that_slope(
    law: Lattice, far: int, shift: tuple[int, ...]
) -> None:
    """In both directions, since the law is symmetric; a slope that is 5 % smaller is caught for one step."""
    masses, length = masses_of(law, far), law.step * math.sqrt(sum(steps**2 for steps in shift))
    mu = length * law.gaussian_slope
    for eps in np.linspace(0.0, 3.0 * mu, 25):
        assert delta_of_shift(masses, shift, float(eps)) <= gaussian_delta(mu, float(eps)) + 1e-12
    if shift == (1,) and not (isinstance(law, DiscreteGaussian) and law.count > 1):
        exceeded = [
            delta_of_shift(masses, shift, float(eps)) > gaussian_delta(0.95 * mu, float(eps))
            for eps in np.linspace(0.0, 3.0 * mu, 100)
        ]
        assert any(exceeded)


@pytest.mark.parametrize("spread", [0.001, 0.03, 0.3, 1.0, 3.0, 10.0, 31.0, 100.0])
def test_the_steps_of_lattice_laws_fall_from_the_middle(spread: float) -> None:
    """By SciPy's own tails, as far as they are exact: why finer grids are looked at in the middle only."""
    k = np.arange(0, 12 * math.ceil(spread) + 3)
    mean = 0.5 * spread**2
    skellam = special.ndtri(0.5 + 0.5 * stats.skellam.pmf(0, mean, mean))
    beyond = np.cumsum(stats.skellam.pmf(np.arange(k[-1] + 60 + int(9 * spread), 0, -1), mean, mean))[::-1]
    heights = -special.ndtri(beyond[: k.size])
    heights = heights[np.isfinite(heights) & (heights < 8)]
    assert heights[0] == pytest.approx(skellam, rel=1e-6)
    assert np.all(np.diff(heights) <= 2 * skellam * (1 + 1e-6))
    assert Skellam(sigma=spread, step=1.0).gaussian_slope == pytest.approx(2 * skellam, rel=1e-6)
    if spread >= 0.5:
        far = 45 * math.ceil(spread)
        masses = np.exp(-0.5 * (np.arange(-far, far + 1) / spread) ** 2)
        masses /= masses.sum()
        heights = -special.ndtri(np.cumsum(masses[: far - 1 : -1])[::-1])  # P(X >= k) for k = 0, 1, ...
        heights = heights[heights < 36]
        assert np.all(np.diff(heights) <= -2 * heights[0] * (1 + 1e-9))
        discrete = DiscreteGaussian(sigma=spread, step=1.0)
        assert discrete.gaussian_slope == pytest.approx(-2 * heights[0], rel=1e-9)


@pytest.mark.parametrize("spread", [1.0, 8.0, 100.0, 0.9 * CHECKED_STEPS])
def test_a_fine_grid_is_nearly_normal(spread: float) -> None:
    """The short way of fine grids is never below the long one, and hardly above it."""
    law = Skellam(sigma=spread, step=1.0)
    whole = lattice_slope(law.log_density(lattice_points(spread)))
    short = fine_slope(float(law.log_density(0.0)))
    assert whole <= short <= whole * (1 + 2e-6)
    assert whole * spread == pytest.approx(1 + 1 / (6 * spread**2), abs=0.1 / spread**2)
    finest = Skellam(sigma=2.0**20, step=1.0).gaussian_slope * 2.0**20
    assert finest == pytest.approx(1.0, abs=1e-5)
    assert finest >= 1.0


@pytest.mark.parametrize("draws", [1, 2, 5, 40, 1000])
def test_the_slope_of_a_sum_of_laplace_draws(draws: int) -> None:
    """The largest f(x) / phi(Phi^-1(F(x))) over many x, with F by integration of the density."""
    law = GammaShare(n=1, scale=2.5, count=draws)
    x = np.linspace(0.0, 12.0 * math.sqrt(law.variance), 20_001)
    density = np.exp(law.log_density(x))
    inside = 0.5 + integrate.cumulative_simpson(density, x=x, initial=0.0)
    known = inside < 1 - 1e-9
    slopes = density[known] / stats.norm.pdf(special.ndtri(inside[known]))
    assert slopes.max() == pytest.approx(law.gaussian_slope, rel=1e-6)
    assert int(np.argmax(slopes)) == 0
    normal = Gaussian(sigma=math.sqrt(law.variance)).gaussian_slope
    assert normal < law.gaussian_slope <= normal * (1 + 0.8 / draws)


@pytest.mark.parametrize("shape", [(9, 10), (1, 2)])
def test_shares_that_never_arrived_have_no_slope(shape: tuple[int, int]) -> None:
    """Their density is not log-concave, so that the best test is no threshold."""
    assert GammaShare(n=shape[1], scale=1.0, count=shape[0]).gaussian_slope == math.inf


@pytest.mark.parametrize("draws", [1, 3, 20])
@pytest.mark.parametrize("shift", [(2.0,), (1.0, 1.0), (1.5, 0.5)])
def test_no_move_under_a_sum_of_laplace_draws_costs_more(draws: int, shift: tuple[float, ...]) -> None:
    """Exact masses of narrow bins in one or two coordinates."""
    law = GammaShare(n=1, scale=1.0, count=draws)
    width = 0.02 * math.sqrt(law.variance)
    mu = math.hypot(*shift) * law.gaussian_slope
    points = np.arange(-600, 601) * width
    ratios = []
    for moved in shift:
        here, there = np.exp(law.log_density(points)), np.exp(law.log_density(points - moved))
        ratios.append((here * width, there * width))
    for eps in np.linspace(0.0, 2.0 * mu, 9):
        other, one = ratios[0] if len(shift) == 1 else [np.outer(a, b) for a, b in zip(*ratios, strict=True)]
        delta = float(np.maximum(one - math.exp(eps) * other, 0.0).sum())
        assert delta <= gaussian_delta(mu, float(eps)) + 1e-4 * width + 1e-6
