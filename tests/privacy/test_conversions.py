"""Gaussian calibration against mpmath and integrals; Renyi conversion against the exact epsilon."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from foltr_audit.privacy.gaussian_dp import gaussian_delta
from foltr_audit.privacy.loss.composition import classical_gaussian_sigma, epsilon_of_renyi, gaussian_sigma

mpmath: Any = pytest.importorskip("mpmath")  # comes with dp-accounting


def exact_delta(eps: float, sigma: float) -> float:
    """Theorem 8 of Balle & Wang in 60 digits, for a shift of 1."""
    with mpmath.workdps(60):
        e, s = mpmath.mpf(eps), mpmath.mpf(sigma)
        return float(mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s))


@pytest.mark.parametrize("eps", [0.01, 0.5, 1.2, 4.0])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0])
def test_delta_is_the_mass_that_exceeds_the_loss(eps: float, sigma: float) -> None:
    """By its definition: the integral of max(0, p - e^eps q) over two normal densities."""
    one, other = stats.norm(loc=1.0, scale=sigma), stats.norm(scale=sigma)
    edge = eps * sigma**2 + 0.5
    found, _ = integrate.quad(
        lambda x: one.pdf(x) - math.exp(eps) * other.pdf(x), edge, edge + 30 * sigma, epsabs=1e-14, limit=200
    )
    assert gaussian_delta(1.0 / sigma, eps) == pytest.approx(found, abs=1e-12)


@settings(max_examples=60, derandomize=True)
@given(
    log_eps=st.floats(-6.0, 3.0), log_delta=st.floats(-30.0, -0.01), sensitivity=st.sampled_from([1.0, 3.0])
)
def test_sigma_is_enough_and_hardly_more(log_eps: float, log_delta: float, sensitivity: float) -> None:
    eps, delta = 10.0**log_eps, 10.0**log_delta
    sigma = gaussian_sigma(eps, delta, sensitivity) / sensitivity
    assert exact_delta(eps, sigma) <= delta
    assert exact_delta(eps, sigma) > delta * (1 - 1e-5)
    assert exact_delta(eps, 0.99 * sigma) > delta, "one per cent less is too little"


def test_published_sigmas() -> None:
    """eps 1, delta 1e-5: 3.73 by the analytic calibration, 4.84 by the classical one (Balle & Wang 2018)."""
    assert gaussian_sigma(1.0, 1e-5, 1.0) == pytest.approx(3.7306, abs=1e-3)
    assert classical_gaussian_sigma(1.0, 1e-5, 1.0) == pytest.approx(4.8448, abs=1e-3)
    assert classical_gaussian_sigma(0.5, 1e-5, 3.0) == pytest.approx(6 * 4.8448, abs=1e-2)


@pytest.mark.parametrize("delta", [1e-30, 1e-10, 1e-5, 1e-2, 0.3, 0.999])
def test_the_classical_calibration_holds_up_to_one_and_not_far_above(delta: float) -> None:
    for eps in (1e-6, 0.01, 0.5, 1.0):
        assert exact_delta(eps, classical_gaussian_sigma(eps, delta, 1.0)) <= delta
    for eps in (1.0000001, 8.0, math.nan):
        with pytest.raises(ValueError, match="classical calibration holds up to 1"):
            classical_gaussian_sigma(eps, delta, 1.0)
    far = 1000.0
    assert exact_delta(far, math.sqrt(2 * math.log(1.25 / delta)) / far) > delta, "why it is refused"


@pytest.mark.parametrize("sigma", [0.5, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
def test_renyi_divergences_give_an_epsilon_that_is_never_too_small(sigma: float, delta: float) -> None:
    found = epsilon_of_renyi(lambda order: order / (2 * sigma**2), delta)
    if exact_delta(0.0, sigma) <= delta:
        assert 0.0 <= found < 0.05, "the exact one is 0"
        return
    exact = optimize.brentq(lambda eps: gaussian_delta(1.0 / sigma, eps) - delta, 0.0, 100.0)
    assert exact <= found <= 1.5 * exact
    assert epsilon_of_renyi(lambda order: 0.5 * order / (2 * sigma**2), delta) < found


def test_no_divergence_is_no_epsilon() -> None:
    assert epsilon_of_renyi(lambda order: 0.0, 0.5) == 0.0
    assert np.isinf(epsilon_of_renyi(lambda order: math.inf, 1e-5))
