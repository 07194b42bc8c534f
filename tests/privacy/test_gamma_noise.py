"""Gamma noise shares: their sum is Laplace noise of the right scale, and what one share alone hides."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, special, stats

from foltr_audit.kernels.noise import gamma_differences
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.rng import Streams
from tests.fixtures.reference import chi_square_p

SCALE = 2.5  # sensitivity 3, eps 1.2
SUMS = 8000
FALSE_ALARM = 1e-4


def shares(n: int, clients: int, size: int, seed: int = 1, scale: float = SCALE) -> NDArray[np.float64]:
    return GammaShare(n=n, scale=scale).sample(Streams(seed).clients("noise", 0, np.arange(clients)), size)


def scale_p_value(x: NDArray[np.float64], scale: float) -> float:
    """Two-sided exact test of a Laplace scale: 2 sum|x| / s is chi-square with 2N degrees of freedom."""
    statistic = 2 * np.abs(x).sum() / scale
    law = stats.chi2(2 * x.size)
    return float(2 * min(law.cdf(statistic), law.sf(statistic)))


def variance_p_value(x: NDArray[np.float64], scale: float) -> float:
    """Test of the variance 2 s^2; the mean of x^2 has variance 20 s^4 / N under Laplace(s)."""
    z = (np.mean(x**2) - 2 * scale**2) / math.sqrt(20 * scale**4 / x.size)
    return float(2 * stats.norm.sf(abs(z)))


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_n_shares_sum_to_laplace_noise(n: int) -> None:
    x = shares(n, n, SUMS).sum(axis=0)
    assert stats.kstest(x, stats.laplace(scale=SCALE).cdf).pvalue > FALSE_ALARM
    for p_value in (scale_p_value, variance_p_value):
        assert p_value(x, SCALE) > FALSE_ALARM
        for wrong in (0.9, 1.1):
            assert p_value(x, wrong * SCALE) < FALSE_ALARM  # another claim than what was drawn
            assert p_value(wrong * x, SCALE) < FALSE_ALARM  # another draw than what was claimed


@pytest.mark.parametrize("shape", [1.02, 4.5, 999.0])
def test_sums_of_many_shares_have_the_law_of_gamma_differences(shape: float) -> None:
    """And neither that of another shape nor that of one tail only, so the test can fail."""
    found = gamma_differences(shape, 40, np.arange(1000), 1, 2, np.uint64(3))
    rng = np.random.default_rng(5)
    expected = rng.standard_gamma(shape, 100_000) - rng.standard_gamma(shape, 100_000)
    assert stats.ks_2samp(found.ravel(), expected).pvalue > FALSE_ALARM
    other = gamma_differences(1.15 * shape, 40, np.arange(1000), 1, 2, np.uint64(3))
    for wrong in (other.ravel(), np.abs(found).ravel()):
        assert stats.ks_2samp(wrong, expected).pvalue < FALSE_ALARM
    again = gamma_differences(shape, 20, np.arange(1000, 2000), 1, 2, np.uint64(3))
    for one, two in ((found[:, :20], found[:, 20:]), (found[:, :20], again)):
        assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 5 / math.sqrt(one.size)


def test_the_tests_of_scale_have_power() -> None:
    """A scale wrong by 10 % is caught with probability above .999, in closed form."""
    low, high = stats.chi2(2 * SUMS).ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2])
    for wrong in (0.9, 1.1):
        missed = np.diff(stats.chi2(2 * SUMS).cdf(np.array([low, high]) / wrong))[0]
        assert missed < 1e-3
    x = np.random.default_rng(0).normal(scale=SCALE * math.sqrt(2), size=SUMS)
    assert variance_p_value(x, SCALE) > FALSE_ALARM  # normal noise of the right variance ...
    assert stats.kstest(x, stats.laplace(scale=SCALE).cdf).pvalue < FALSE_ALARM  # ... is caught here


@pytest.mark.parametrize("n", [1, 2, 10, 100])
def test_a_share_has_its_variance_and_kurtosis(n: int) -> None:
    """Cumulants of a difference of Gamma(1/n, s) variates: 2 s^2 / n and 12 s^4 / n."""
    law = GammaShare(n=n, scale=SCALE)
    assert law.variance == pytest.approx(2 * SCALE**2 / n, rel=1e-15)
    x = shares(n, 2000, 200).ravel()
    kurtosis = 3 + (12 / n) / (2 / n) ** 2
    assert np.var(x) == pytest.approx(law.variance, rel=5 * math.sqrt((kurtosis - 1) / x.size))
    assert abs(x.mean()) < 5 * math.sqrt(law.variance / x.size)
    tail = np.mean(np.abs(x) > 2 * SCALE)
    expected = exceeds(2 * SCALE, n, SCALE)
    assert tail == pytest.approx(expected, abs=5 * math.sqrt(expected / x.size))


def log_density(x: float, n: int, scale: float) -> float:
    """Log density of one share (`docs/maths.md`, Noise)."""
    z, order = x / scale, 1 / n - 0.5
    log_bessel = math.log(special.kve(abs(order), z)) - z
    bessel_part = order * math.log(z / 2) + log_bessel
    return bessel_part - math.lgamma(1 / n) - 0.5 * math.log(math.pi) - math.log(scale)


def exceeds(threshold: float, n: int, scale: float) -> float:
    """P(|share| > threshold): the density, integrated over log x in pieces."""
    ends = np.append(np.arange(math.log(threshold), math.log(60 * scale), 2.0), math.log(60 * scale))
    return 2 * sum(
        integrate.quad(lambda t: math.exp(log_density(math.exp(t), n, scale) + t), a, b)[0]
        for a, b in pairwise(ends.tolist())
    )


@pytest.mark.parametrize("n", [1, 2, 10, 100, 1000])
def test_the_size_of_one_share_follows_its_density(n: int) -> None:
    """From shares far below any rounding error to those of several scales."""
    every = [1e-300, 1e-200, 1e-100, 1e-50, 1e-25, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 4.0, 10.0]
    above = {edge: exceeds(edge, n, SCALE) for edge in every}
    edges = [edge for edge in every if 1e-3 < above[edge] < 1 - 1e-3]
    law = [high - low for high, low in pairwise([1.0, *(above[edge] for edge in edges), 0.0])]
    sizes = np.abs(shares(n, 1000, 200)).ravel()
    counts = np.bincount(np.searchsorted(edges, sizes), minlength=len(law))
    assert chi_square_p(counts, law) > FALSE_ALARM


def test_the_density_of_one_share_of_one_is_laplace() -> None:
    """Guards the reference that the other tests lean on."""
    for x in (1e-6, 0.3, 2.5, 40.0):
        assert log_density(x, 1, SCALE) == pytest.approx(stats.laplace(scale=SCALE).logpdf(x), abs=1e-12)
    assert exceeds(1.0, 1, SCALE) == pytest.approx(math.exp(-1 / SCALE), rel=1e-8)


@pytest.mark.parametrize(("n", "published"), [(1000, 0.92), (100, 0.45)])
def test_most_coordinates_travel_without_noise(n: int, published: float) -> None:
    """How many coordinates of a message are bit-identical to the model before the noise."""
    clients, size = 1000, 200
    theta = np.random.default_rng(1).uniform(0.01, 1.0, size=(clients, size))
    unchanged = np.mean(theta + shares(n, clients, size) == theta)
    # A share below half a unit in the last place is rounded away: the unit depends on theta's power of 2.
    exponents, counts = np.unique(np.frexp(theta)[1], return_counts=True)
    hidden = [1 - exceeds(2.0 ** (e - 54), n, SCALE) for e in exponents.tolist()]
    expected = float(np.average(hidden, weights=counts))
    assert unchanged == pytest.approx(expected, abs=5 * math.sqrt(0.25 / theta.size) + 1e-3)
    assert unchanged == pytest.approx(published, abs=0.02)


def test_laplace_noise_on_one_client_hides_every_coordinate() -> None:
    theta = np.random.default_rng(1).uniform(0.01, 1.0, size=(100, 50))
    assert np.all(theta + shares(1, 100, 50) != theta)


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_shares_of_coordinates_and_clients_are_unrelated(n: int) -> None:
    x = shares(n, 401, 401)
    pairs = {"coordinates": (x[:, :-1], x[:, 1:]), "clients": (x[:-1], x[1:]), "places": (x, x.T)}
    other = GammaShare(n=n, scale=SCALE).sample(Streams(1).clients("noise", 1, np.arange(401)), 401)
    pairs["rounds"] = (x, other)
    for name, (one, two) in pairs.items():
        apart = ~np.eye(401, dtype=np.bool_) if name == "places" else np.ones(one.shape, dtype=np.bool_)
        for form in (np.sign, np.tanh, lambda v: np.log(np.abs(v) + 1e-6)):
            r = np.corrcoef(form(one[apart]), form(two[apart]))[0, 1]
            assert abs(r) < 5 / math.sqrt(int(apart.sum()) / 2), name
    assert np.corrcoef(np.tanh(x).ravel(), np.tanh(x).ravel())[0, 1] > 0.99


@settings(max_examples=50, derandomize=True)
@given(n=st.integers(1, 10**6), scale=st.floats(1e-6, 1e6), size=st.integers(0, 20))
def test_shares_are_finite_and_scale(n: int, scale: float, size: int) -> None:
    x = shares(n, 3, size, scale=scale)
    assert x.shape == (3, size)
    assert np.all(np.isfinite(x))
    np.testing.assert_allclose(x, scale * shares(n, 3, size, scale=1.0), rtol=1e-15)
