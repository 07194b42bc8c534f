"""Gaussian DP: delta, eps, mu and sigma against integrals, high precision, another library and each other."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon, gaussian_mu
from foltr_audit.privacy.loss.composition import classical_gaussian_sigma, epsilon_of_renyi, gaussian_sigma

mus = st.floats(0.01, 40)
small_deltas = st.floats(-40, -0.5).map(math.exp)


def precise_delta(mu: float, eps: float) -> float:
    """The formula as it stands, with so many digits that deltas of 1e-300 keep some."""
    with mpmath.workdps(340):
        m, e = mpmath.mpf(mu), mpmath.mpf(eps)
        return float(mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2))


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("eps", [0.0, 0.7, 3.0])
def test_delta_is_the_mass_that_exceeds_eps(mu: float, eps: float) -> None:
    """Delta is the integral of max(0, density under mu - e^eps density under 0)."""
    from_here = eps / mu + mu / 2
    one, zero = stats.norm(mu), stats.norm()
    mass = integrate.quad(lambda x: one.pdf(x) - math.exp(eps) * zero.pdf(x), from_here, from_here + 30)[0]
    assert gaussian_delta(mu, eps) == pytest.approx(mass, rel=1e-6, abs=1e-10)


@pytest.mark.parametrize(("mu", "eps"), [(1e-6, 1e-6), (1e-9, 0.0), (1e4, 4.9e7), (3000.0, 0.0), (0.1, 3.7)])
def test_delta_where_the_formula_loses_its_digits(mu: float, eps: float) -> None:
    assert gaussian_delta(mu, eps) == pytest.approx(precise_delta(mu, eps), rel=1e-6)


@settings(max_examples=60)
@given(mu=mus, delta=small_deltas)
def test_eps_and_delta_are_inverse(mu: float, delta: float) -> None:
    eps = gaussian_epsilon(mu, delta)
    if eps == 0:
        assert gaussian_delta(mu, 0.0) <= delta * (1 + 1e-12)
    else:
        assert gaussian_delta(mu, eps) == pytest.approx(delta, rel=1e-8)


@settings(max_examples=60)
@given(eps=st.floats(0.001, 50), delta=small_deltas)
def test_mu_is_the_largest_that_meets_eps_and_delta(eps: float, delta: float) -> None:
    mu = gaussian_mu(eps, delta)
    assert gaussian_delta(mu, eps) <= delta < gaussian_delta(mu * (1 + 1e-9), eps)
    assert gaussian_epsilon(mu, delta) == pytest.approx(eps, rel=1e-8)


@pytest.mark.parametrize("eps", [0.0, 1e-14, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-30, 1e-15, 1e-12, 1e-9, 1e-5])
def test_a_tiny_mu_is_never_too_large(eps: float, delta: float) -> None:
    mu = gaussian_mu(eps, delta)
    assert precise_delta(mu, eps) <= delta < precise_delta(mu * (1 + 3e-12), eps)


def test_ends() -> None:
    assert gaussian_delta(0.0, 1.0) == gaussian_mu(3.0, 0.0) == gaussian_epsilon(0.0, 0.0) == 0.0
    assert gaussian_epsilon(1.0, 0.0) == math.inf
    assert gaussian_epsilon(1e-5, 0.01) == 0.0
    assert gaussian_delta(1e9, 0.0) == 1.0
    assert gaussian_delta(1.0, 1e9) == 0.0
    assert gaussian_delta(2.0, 0.0) == pytest.approx(2 * stats.norm.cdf(1.0) - 1)  # total variation
    assert gaussian_delta(gaussian_mu(0.0, 0.3), 0.0) == pytest.approx(0.3)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, 1e10])
def test_refused_values(wrong: float) -> None:
    calls: list[Callable[[], float]] = [
        lambda: gaussian_delta(wrong, 1.0),
        lambda: gaussian_delta(1.0, wrong),
        lambda: gaussian_epsilon(wrong, 0.1),
        lambda: gaussian_epsilon(1.0, wrong),
        lambda: gaussian_mu(wrong, 0.1),
        lambda: gaussian_mu(1.0, wrong),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="gaussian dp: "):
            call()


# --- calibration of noise, and Renyi divergences ---------------------------------------------------------


def delta_of(eps: float, sigma: float) -> float:
    """Theorem 8 of Balle & Wang, for a shift of 1."""
    return precise_delta(1 / sigma, eps)


@settings(max_examples=60, derandomize=True)
@given(
    log_eps=st.floats(-6.0, 3.0), log_delta=st.floats(-30.0, -0.01), sensitivity=st.sampled_from([1.0, 3.0])
)
def test_sigma_is_enough_and_hardly_more(log_eps: float, log_delta: float, sensitivity: float) -> None:
    eps, delta = 10.0**log_eps, 10.0**log_delta
    sigma = gaussian_sigma(eps, delta, sensitivity) / sensitivity
    assert delta_of(eps, sigma) <= delta
    assert delta_of(eps, sigma) > delta * (1 - 1e-5)
    assert delta_of(eps, 0.99 * sigma) > delta, "one per cent less is too little"


def test_published_sigmas() -> None:
    """eps 1, delta 1e-5: 3.73 by the analytic calibration, 4.84 by the classical one (Balle & Wang 2018)."""
    assert gaussian_sigma(1.0, 1e-5, 1.0) == pytest.approx(3.7306, abs=1e-3)
    assert classical_gaussian_sigma(1.0, 1e-5, 1.0) == pytest.approx(4.8448, abs=1e-3)
    assert classical_gaussian_sigma(0.5, 1e-5, 3.0) == pytest.approx(6 * 4.8448, abs=1e-2)


@pytest.mark.parametrize("sigma", [0.5, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
def test_renyi_divergences_give_an_epsilon_that_is_never_too_small(sigma: float, delta: float) -> None:
    found = epsilon_of_renyi(lambda order: order / (2 * sigma**2), delta)
    if delta_of(0.0, sigma) <= delta:
        assert 0.0 <= found < 0.05, "the exact one is 0"
        return
    exact = optimize.brentq(lambda eps: gaussian_delta(1.0 / sigma, eps) - delta, 0.0, 100.0)
    assert exact <= found <= 1.5 * exact
    assert epsilon_of_renyi(lambda order: 0.5 * order / (2 * sigma**2), delta) < found


def test_no_divergence_is_no_epsilon() -> None:
    assert epsilon_of_renyi(lambda order: 0.0, 0.5) == 0.0
    assert np.isinf(epsilon_of_renyi(lambda order: math.inf, 1e-5))
