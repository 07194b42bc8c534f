"""The benchmark of audits: its scores are those of the mechanisms, its yardsticks those of the books."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from benchmarks.audit_optimum import (
    normal_optimum,
    pure_optimum,
    response_losses,
)
from benchmarks.audit_power import MECHANISMS, Mechanism
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu
from foltr_audit.rng import Streams


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: f"{each.name}-{each.eps:g}")
def test_scores_have_the_true_eps(mechanism: Mechanism) -> None:
    n = 20_000
    zero, one = mechanism.scores(Streams(1), n)
    if mechanism.delta > 0:
        sigma = math.sqrt(0.5 * (zero.var() + one.var()))
        mu = (one.mean() - zero.mean()) / sigma
        assert gaussian_epsilon(mu, mechanism.delta) == pytest.approx(mechanism.eps, rel=0.15)
        assert sigma == pytest.approx(1 / 0.268048, rel=0.03), "eps 1 at delta 1e-5"
        shared = 1 - 1 / mechanism.clients
        assert np.corrcoef(zero, one)[0, 1] == pytest.approx(shared, abs=0.03)
    else:
        told = mechanism.eps - 1e-6 if mechanism.share else 0.5
        rates = (one >= told).mean(), (zero >= told).mean()
        expected = 0.5 if mechanism.share else 1 / (1 + math.exp(-mechanism.eps))
        assert rates == pytest.approx((expected, expected * math.exp(-mechanism.eps)), abs=0.015)


@pytest.mark.parametrize(("eps", "n"), [(1.2, 200), (3.0, 50), (0.3, 1000)])
def test_the_optimum_for_randomised_response_by_binomials(eps: float, n: int) -> None:
    """The most powerful test counts right answers in 2n trials; a coin decides at its threshold."""
    truth = stats.binom(2 * n, 1 / (1 + math.exp(-eps)))
    v = int(truth.median())
    toss = (0.5 - truth.sf(v)) / truth.pmf(v)

    def level(smaller: float) -> float:
        null = stats.binom(2 * n, 1 / (1 + math.exp(-smaller)))
        return float(null.sf(v) + toss * null.pmf(v))

    expected = optimize.brentq(lambda smaller: level(smaller) - 0.05, 0.0, eps)
    assert pure_optimum(response_losses(eps), n, 0.95) == pytest.approx(expected, abs=3e-4)


def test_the_optimum_for_normal_noise_is_where_half_of_the_best_tests_refute() -> None:
    rng = np.random.default_rng(3)
    n, rho, mu = 400, 0.9, 0.268048
    found = gaussian_mu(normal_optimum(1.0, 1e-5, n, rho, 0.95), 1e-5)
    shared, own = rng.normal(size=(2000, n)), rng.normal(size=(2000, 2, n))
    zero, one = (math.sqrt(rho) * shared + math.sqrt(1 - rho) * own[:, i] for i in (0, 1))
    gaps = one.mean(axis=1) - zero.mean(axis=1)
    threshold = np.quantile(gaps + found, 0.95)
    assert (gaps + mu >= threshold).mean() == pytest.approx(0.5, abs=0.08)
