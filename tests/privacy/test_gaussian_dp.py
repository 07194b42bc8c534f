"""Gaussian DP: delta, eps and mu against integrals, high precision, another library and each other."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import pytest
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon, gaussian_mu

mus = st.floats(0.01, 40)
small_deltas = st.floats(-40, -0.5).map(math.exp)


def precise_delta(mu: float, eps: float) -> float:
    """The formula as it stands, with 200 digits."""
    with mpmath.workdps(200):
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


@settings(max_examples=80)
@given(mu=st.floats(1e-3, 60), ratio=st.floats(0, 30))
def test_delta_with_many_digits(mu: float, ratio: float) -> None:
    eps = mu * ratio
    assert gaussian_delta(mu, eps) == pytest.approx(precise_delta(mu, eps), rel=1e-9, abs=1e-300)


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


@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
def test_another_library_agrees(sigma: float, delta: float) -> None:
    eps = get_epsilon_gaussian(sigma, delta)
    assert gaussian_epsilon(1 / sigma, delta) == pytest.approx(eps, rel=1e-6)
    assert 1 / gaussian_mu(eps, delta) == pytest.approx(get_sigma_gaussian(eps, delta), rel=1e-6)


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
