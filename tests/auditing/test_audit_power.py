"""The benchmark of audits: its scores are those of the mechanisms, its yardsticks those of the books."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from benchmarks.audit_optimum import (
    laplace_losses,
    log_ratios,
    median_level,
    normal_optimum,
    pure_optimum,
    response_losses,
)
from benchmarks.audit_power import MECHANISMS, Mechanism, bounds
from foltr_audit.auditing.evaluation import split
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats


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


def medians(mechanism: Mechanism, trials: int, runs: int) -> dict[str, float]:
    """Medians of the bounds over some runs; `plain` is the estimate without any confidence."""
    found: dict[str, list[float]] = {}
    for run in range(runs):
        streams = Streams(trials, run)
        zero, one = mechanism.scores(streams, trials + 100)
        told = mechanism.eps - 1e-6 if mechanism.share else 0.5
        found.setdefault("plain", []).append(math.log((one >= told).sum() / max(1, (zero >= told).sum())))
        for name, bound in bounds(mechanism, split(np.stack([zero, one]), 100, independent=True), streams):
            found.setdefault(name, []).append(bound)
    return {name: float(np.median(each)) for name, each in found.items()}


@pytest.mark.parametrize("place", [0, 3])
def test_no_estimator_beats_the_optimum(place: int) -> None:
    """One without confidence does, and so would one whose confidence is far too small."""
    mechanism = MECHANISMS[place]
    optimum, found = mechanism.optimum(200), medians(mechanism, 200, 60)
    assert optimum is not None
    most = max(found[name] for name in ("clopper-pearson", "one-run", "betting"))
    assert found[mechanism.default] == most < optimum, "the default is the best of them"
    assert found["plain"] > optimum
    assert found["clopper-pearson"] > 0.7 * optimum


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


@pytest.mark.parametrize(("eps", "smaller"), [(1.2, 0.9), (3.0, 2.0)])
def test_the_level_of_the_best_test_of_laplace_noise_by_simulation(eps: float, smaller: float) -> None:
    """Draws of the nearest pair refute as often as the lattice says."""
    n, law, rng = 60, laplace_losses(eps), np.random.default_rng(1)
    ratios = log_ratios(law, smaller)
    sums = {}
    for name, shares in (("true", law.shares), ("nearest", law.shares * np.exp(-ratios))):
        assert shares.sum() == pytest.approx(1.0, abs=1e-9)
        counts = rng.multinomial(n, shares / shares.sum(), size=3_000)
        sums[name] = counts @ ratios
    level = (sums["nearest"] >= np.median(sums["true"])).mean()
    expected = median_level(ratios, law.shares, n)
    assert abs(level - expected) < 5 * math.sqrt(4 * expected / 3_000)


def test_the_nearest_pair_keeps_the_smaller_eps_and_no_other_is_nearer() -> None:
    """Moving mass between two outputs and their mirror images, within the smaller eps, only increases it."""
    law, eps, smaller = laplace_losses(1.2), 1.2, 0.8
    mixture = law.shares * (1 + np.exp(-law.losses))  # of both hypotheses, by the loss
    share = 1 / (1 + np.exp(-np.clip(law.losses, -smaller, smaller)))
    nearest = mixture * share
    assert np.abs(np.log(nearest / nearest[::-1])).max() <= smaller + 1e-9 < eps

    def divergence(other: Floats) -> float:
        return float(law.shares @ np.log(law.shares / other))

    rng = np.random.default_rng(2)
    for _ in range(200):
        tilt = np.exp(0.3 * rng.normal(size=law.losses.size))
        mixed = mixture * (tilt + tilt[::-1])
        odds = np.clip(np.log(share / (1 - share)) * rng.uniform(0.8, 1.2), -smaller, smaller)
        half = 0.5 * (odds - odds[::-1])
        other = mixed / (1 + np.exp(-half))
        assert divergence(other / other.sum()) > divergence(nearest)


def test_the_optimum_for_normal_noise_is_where_half_of_the_best_tests_refute() -> None:
    rng = np.random.default_rng(3)
    n, rho, mu = 400, 0.9, 0.268048
    found = gaussian_mu(normal_optimum(1.0, 1e-5, n, rho, 0.95), 1e-5)
    shared, own = rng.normal(size=(2000, n)), rng.normal(size=(2000, 2, n))
    zero, one = (math.sqrt(rho) * shared + math.sqrt(1 - rho) * own[:, i] for i in (0, 1))
    gaps = one.mean(axis=1) - zero.mean(axis=1)
    threshold = np.quantile(gaps + found, 0.95)
    assert (gaps + mu >= threshold).mean() == pytest.approx(0.5, abs=0.08)
