"""Noise on a grid: masses against sums, scipy and mpmath; sums of shares; samplers; Renyi bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from foltr_audit.errors import UsageError
from foltr_audit.privacy.noise import DiscreteGaussian, Skellam
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from tests.fixtures.reference import chi_square_p

mpmath: Any = pytest.importorskip("mpmath")  # comes with dp-accounting

FALSE_ALARM = 1e-4
Law = DiscreteGaussian | Skellam


def direct_masses(sigma: float, reach: int) -> tuple[Floats, Floats]:
    """Whole numbers, and their masses under a discrete Gaussian by its definition."""
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-0.5 * (k / sigma) ** 2)
    return k, weights / weights.sum()


def drawn(law: Law, clients: int = 1000, size: int = 200, seed: int = 5) -> Floats:
    return law.integers(Streams(seed).clients("noise", 0, np.arange(clients)), size)


# --- masses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.5, 0.7, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("step", [1.0, 0.01, 3e5])
def test_discrete_gaussian_masses_and_variance_follow_the_definition(sigma: float, step: float) -> None:
    k, masses = direct_masses(sigma, 40 + int(12 * sigma))
    law = DiscreteGaussian(sigma=sigma * step, step=step)
    near = masses > 1e-290
    found = law.log_density(k[near] * step) + math.log(step)
    np.testing.assert_allclose(found, np.log(masses[near]), rtol=1e-12, atol=1e-12)
    assert law.variance == pytest.approx(float(masses @ k**2) * step**2, rel=1e-12)


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 0.999, 1.0, 1.7, 5.0, 9.9, 30.0, 1e3])
@pytest.mark.parametrize("step", [1.0, 0.01, 3e5])
def test_skellam_masses_are_scipys(sigma: float, step: float) -> None:
    k = np.arange(-40.0, 41.0)
    law, v = Skellam(sigma=sigma * step, step=step), sigma**2
    found = law.log_density(k * step) + math.log(step)
    expected = stats.skellam(v / 2, v / 2).pmf(k)
    seen = expected > 1e-30
    np.testing.assert_allclose(np.exp(found)[seen], expected[seen], rtol=1e-9)
    assert law.variance == pytest.approx((sigma * step) ** 2, rel=1e-15)


@pytest.mark.parametrize("v", [1e-12, 1e-3, 0.99, 1.01, 50.0, 99.0, 101.0, 1e4, 1e8, 2.0**48])
def test_skellam_masses_where_bessel_functions_vanish_or_overflow(v: float) -> None:
    """Against mpmath in 40 digits, far out into the tails and on both sides of each change of method."""
    law = Skellam(sigma=math.sqrt(v), step=1.0)
    orders = [0, 1, 2, 7, 60, 99, 101, 400]
    with mpmath.workdps(40):
        exact = [
            float(mpmath.log(mpmath.besseli(k, mpmath.mpf(law.sigma) ** 2)) - mpmath.mpf(law.sigma) ** 2)
            for k in orders
        ]
    np.testing.assert_allclose(law.log_density(orders), exact, rtol=2e-10, atol=2e-9)


@pytest.mark.parametrize("law", [Skellam(sigma=3.0, step=0.5), DiscreteGaussian(sigma=3.0, step=0.5)])
def test_masses_add_up_and_are_smooth_in_between(law: Law) -> None:
    grid = np.arange(-400, 401) * 0.5
    assert float(np.exp(law.log_density(grid)).sum()) * 0.5 == pytest.approx(1.0, rel=1e-9)
    between = np.linspace(0.0, 60.0, 5001)
    assert np.all(np.diff(law.log_density(between)) <= 0)
    np.testing.assert_array_equal(law.log_density(-between), law.log_density(between))
    assert np.isfinite(law.log_density([1e300, -1.7e308, 5e-324])).all()


# --- sums --------------------------------------------------------------------------------------------


@settings(max_examples=40, derandomize=True)
@given(v=st.floats(0.01, 9.0), n=st.integers(1, 6))
def test_skellam_shares_sum_to_skellam_noise_exactly(v: float, n: int) -> None:
    share = Skellam(sigma=math.sqrt(v), step=1.0)
    k = np.arange(-60.0, 61.0)
    one = np.exp(share.log_density(k))
    total = one
    for _ in range(n - 1):
        total = np.convolve(total, one, mode="same")
    middle = slice(35, 86)
    found = np.exp(share.summed(n).log_density(k))
    np.testing.assert_allclose(found[middle], total[middle], rtol=1e-7, atol=1e-14)
    assert share.summed(n).variance == pytest.approx(n * v, rel=1e-12)


@pytest.mark.parametrize(("sigma", "n"), [(0.5, 2), (0.5, 5), (0.7, 3), (1.0, 2), (1.0, 4), (2.0, 3)])
def test_sums_of_discrete_gaussians_are_as_near_to_one_as_the_law_says(sigma: float, n: int) -> None:
    """Every point of the exact convolution; on a coarse grid it is visibly another law."""
    _, one = direct_masses(sigma, 30 + int(12 * sigma))
    total = one
    for _ in range(n - 1):
        total = np.convolve(total, one)
    k = np.arange(total.size) - total.size // 2
    law = DiscreteGaussian(sigma=sigma, step=1.0).summed(n)
    seen = total > 1e-200
    off = np.abs(np.log(total[seen]) - law.log_density(k[seen])).max()
    assert off <= law.tau / 2 + 1e-10
    if sigma <= 0.7:
        assert off > 5e-3, "so a sum is no discrete Gaussian, and must not be said to be"
    assert law.variance == pytest.approx(float(total @ k.astype(float) ** 2), rel=1e-12)


def test_tau_is_the_papers_sum_and_never_smaller() -> None:
    def plain(sigma: float, n: int) -> float:
        return 10 * math.fsum(math.exp(-2 * (math.pi * sigma) ** 2 * k / (k + 1)) for k in range(1, n))

    for sigma in (0.5, 1.0, 1.5):
        for n in (1, 2, 10, 5000):
            law = DiscreteGaussian(sigma=sigma * 7, step=7.0, count=n)
            assert law.tau == pytest.approx(plain(sigma, n), rel=1e-9)
        many = DiscreteGaussian(sigma=sigma, step=1.0, count=30_000)
        assert plain(sigma, 30_000) <= many.tau <= 1.01 * plain(sigma, 30_000)


# --- samplers ----------------------------------------------------------------------------------------


def fit(x: Floats, masses: Floats, k: Floats) -> float:
    """Chi-square p value of whole numbers; the tails are one cell each."""
    low, high = k[np.cumsum(masses) > 1e-4][0], k[np.cumsum(masses) < 1 - 1e-4][-1]
    inside = (k > low) & (k < high)
    cells = np.concatenate([[masses[k <= low].sum()], masses[inside], [masses[k >= high].sum()]])
    counts = np.bincount((np.clip(x, low, high) - low).astype(np.int64).ravel(), minlength=cells.size)
    return chi_square_p(counts, cells / cells.sum())


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 7.3, 25.0])
def test_discrete_gaussian_samples_follow_the_definition(sigma: float) -> None:
    x = drawn(DiscreteGaussian(sigma=sigma, step=1.0))
    assert fit(x, *direct_masses(sigma, 400)[::-1]) > FALSE_ALARM
    for wrong in (0.9, 1.1):
        assert fit(x, *direct_masses(wrong * sigma, 400)[::-1]) < FALSE_ALARM


def skellam_masses(sigma: float, k: Floats) -> Floats:
    return np.asarray(stats.skellam(sigma**2 / 2, sigma**2 / 2).pmf(k), dtype=np.float64)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0, 4.47, 4.48, 9.0, 25.0])
def test_skellam_samples_follow_scipys_law(sigma: float) -> None:
    """On both sides of a mean of 10, where inversion ends and rejection begins."""
    k = np.arange(-400.0, 401.0)
    x = drawn(Skellam(sigma=sigma, step=1.0))
    assert fit(x, skellam_masses(sigma, k), k) > FALSE_ALARM
    for wrong in (0.9, 1.1):
        assert fit(x, skellam_masses(wrong * sigma, k), k) < FALSE_ALARM


def test_a_sum_is_drawn_as_a_sum() -> None:
    law = DiscreteGaussian(sigma=0.5, step=1.0).summed(6)
    x = drawn(law)
    _, one = direct_masses(0.5, 40)
    total = one
    for _ in range(5):
        total = np.convolve(total, one)
    k = np.arange(total.size, dtype=np.float64) - total.size // 2
    assert fit(x, total, k) > FALSE_ALARM


# --- losses ------------------------------------------------------------------------------------------


def divergence(masses: Floats, move: int, order: float) -> float:
    """Renyi divergence of masses from themselves moved by some steps."""
    ahead, behind = masses[move:], masses[:-move]
    seen = (ahead > 1e-280) & (behind > 1e-280)
    terms = order * np.log(ahead[seen]) + (1 - order) * np.log(behind[seen])
    return float(np.logaddexp.reduce(terms)) / (order - 1)


@pytest.mark.parametrize("sigma", [0.8, 1.5, 4.0])
@pytest.mark.parametrize("move", [1, 3])
@pytest.mark.parametrize("order", [2, 3, 8])
def test_renyi_bounds_hold_and_are_close_on_fine_grids(sigma: float, move: int, order: int) -> None:
    k = np.arange(-70.0, 71.0)
    skellam = Skellam(sigma=sigma, step=1.0)
    found = divergence(np.exp(skellam.log_density(k)), move, order)
    bound = skellam.renyi(order, float(move), float(move))
    assert found <= bound * (1 + 1e-9)
    assert sigma < 4 or bound < 1.3 * order * move**2 / (2 * sigma**2)
    _, one = direct_masses(sigma, 70)
    pair = np.convolve(one, one)
    for masses, count in ((one, 1), (pair, 2)):
        law = DiscreteGaussian(sigma=sigma, step=1.0, count=count)
        found, bound = divergence(masses, move, order), law.renyi(order, float(move), float(move), 1)
        assert found <= bound * (1 + 1e-9)
        assert bound >= order * move**2 / (2 * count * sigma**2) * (1 - 1e-12)
    assert divergence(one, move, order) > 0.8 * order * move**2 / (2 * (1.1 * sigma) ** 2), "it can fail"


# --- texts and refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "step"),
    [
        *((sigma, 1.0) for sigma in (0.0, -1.0, math.nan, math.inf, 1e-9, 1e9)),
        *((1.0, step) for step in (0.0, -1.0, math.nan, math.inf)),
    ],
)
def test_impossible_grids_are_refused(sigma: float, step: float) -> None:
    with pytest.raises(UsageError, match=r"noise: Skellam noise of sigma .* grid steps"):
        Skellam(sigma=sigma, step=step)
    with pytest.raises(UsageError, match=r"noise: discrete Gaussian of sigma .* grid steps"):
        DiscreteGaussian(sigma=sigma, step=step)


def test_a_sum_of_nothing_is_refused() -> None:
    for law in (Skellam(sigma=1.0, step=1.0), DiscreteGaussian(sigma=1.0, step=1.0)):
        with pytest.raises(UsageError, match="a sum of 0 shares; expected at least 1"):
            law.summed(0)
