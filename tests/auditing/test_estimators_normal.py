"""The bound for normal noise: the noncentral t law, correlated trials, and noise that is nearly normal."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from foltr_audit.auditing.estimators import TrialScores, nearly_normal
from foltr_audit.auditing.estimators.repeated_trials import (
    bound_at,
    mu_bound,
    noncentrality_bound,
    tail_probability,
)
from foltr_audit.auditing.trial_scores import log_ratio
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon
from foltr_audit.privacy.noise import DiscreteGaussian, GammaShare, Gaussian, Skellam
from foltr_audit.utils.arrays import Floats
from tests.auditing.test_estimators import bound, most
from tests.fixtures.lattice_losses import Law, exact_epsilon

MU = 0.268048  # eps 1 at delta 1e-5


def normal_scores(rng: np.random.Generator, mu: float, rho: float, n: int) -> tuple[Floats, Floats]:
    """Normal scores mu apart; those at the same place are correlated by rho."""
    shared, zero, one = rng.normal(size=(3, n))
    return (
        math.sqrt(rho) * shared + math.sqrt(1 - rho) * zero,
        math.sqrt(rho) * shared + math.sqrt(1 - rho) * one + mu,
    )


def evaluated(zero: Floats, one: Floats) -> TrialScores:
    """A game whose part for choosing is of no use."""
    return TrialScores(choose_zero=np.zeros(10), choose_one=np.zeros(10), zero=zero, one=one)


# --- the noncentral t law -------------------------------------------------------------------------


def precise_tail(t: float, degrees: float, noncentrality: float) -> float:
    """P[T >= t] = integral of the density of S times Phi(c - t s), with 30 digits."""
    with mpmath.workdps(30):
        half, c = mpmath.mpf(degrees) / 2, mpmath.mpf(noncentrality)
        constant = mpmath.log(2) + half * mpmath.log(half) - mpmath.loggamma(half)

        def integrand(s: mpmath.mpf) -> mpmath.mpf:
            density = mpmath.exp(constant + (2 * half - 1) * mpmath.log(s) - half * s * s)
            return density * mpmath.ncdf(c - t * s)

        wide, narrow, middle = 2 / math.sqrt(2 * degrees), 2 / t, noncentrality / t
        points = [1 + k * wide for k in range(-10, 11)] + [middle + k * narrow for k in range(-6, 7)]
        start = max(0.0, 1 - 20 * wide)
        inside = sorted({point for point in points if point > start})
        return float(mpmath.quad(integrand, [start, *inside, max(inside) + 10 * wide]))


TAILS = [(1.7, 18, 0.0), (5, 18, 2.8), (40, 18, 20), (30, 9.3, 12), (7, 798, 5)]
TAILS += [(60, 19_998, 58), (1e3, 19_998, 990), (1.7, 2e6, 0.05), (7e5, 2e6, 6.99e5)]


@pytest.mark.parametrize(("t", "degrees", "noncentrality"), TAILS)
def test_the_tail_with_many_digits(t: float, degrees: float, noncentrality: float) -> None:
    found = tail_probability(t, degrees, noncentrality)
    assert found == pytest.approx(precise_tail(t, degrees, noncentrality), rel=1e-9, abs=1e-14)


@settings(max_examples=60)
@given(t=st.floats(0.01, 60), degrees=st.floats(5, 1000), noncentrality=st.floats(0, 50))
def test_the_tail_against_scipy_where_that_is_good(t: float, degrees: float, noncentrality: float) -> None:
    expected = stats.nct.sf(t, degrees, noncentrality)
    assert tail_probability(t, degrees, noncentrality) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@settings(max_examples=60)
@given(log_t=st.floats(-3, 9), log_degrees=st.floats(2, 15), alpha=st.sampled_from([1e-4, 0.049, 0.3, 0.9]))
def test_the_bound_is_the_largest_whose_tail_is_alpha(log_t: float, log_degrees: float, alpha: float) -> None:
    t, degrees = math.exp(log_t), math.exp(log_degrees)
    found = noncentrality_bound(t, degrees, alpha)
    if found == 0:
        assert tail_probability(t, degrees, 0.0) >= alpha
    else:
        assert tail_probability(t, degrees, found) <= alpha
        assert tail_probability(t, degrees, found * (1 + 1e-9)) >= alpha * (1 - 1e-12)
    assert noncentrality_bound(1.1 * t, degrees, alpha) >= found
    assert noncentrality_bound(t, degrees, min(1.1 * alpha, 0.99)) >= found
    assert noncentrality_bound(-t, degrees, alpha) == 0.0


# --- the bound on mu ------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.4, 2.0])
def test_without_correlation_it_is_the_bound_of_the_t_test(mu: float) -> None:
    """By SciPy's law and its own root finder; the correlation of these scores is below 0, so it is none."""
    n = 300
    zero, one = normal_scores(np.random.default_rng(1), mu, 0.0, n)
    zero = zero - zero.mean() - (one - one.mean()) * 0.5  # far below 0
    t = stats.ttest_ind(one, zero).statistic
    scaled = optimize.brentq(lambda c: stats.nct.sf(t, 2 * n - 2, c) - 0.98 * 0.05, 0.0, t)
    assert mu_bound(zero, one, 0.05) == pytest.approx(scaled * math.sqrt(2 / n), rel=1e-8)


def test_where_all_noise_is_shared_only_the_variance_is_uncertain() -> None:
    noise = np.random.default_rng(2).normal(size=200)
    mu = 0.7 / noise.std(ddof=1)
    expected = mu * math.sqrt(stats.chi2.ppf(0.98 * 0.05, 199) / 199)
    assert mu_bound(noise, noise + 0.7, 0.05) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [10, 50, 2000])
def test_a_bound_for_correlations_in_between_is_never_below_those_at_the_ends(n: int) -> None:
    rng = np.random.default_rng(3)
    for distance in (0.3, 1.0, 2.8, 3.5, 8.0):
        for low, high in np.sort(rng.random((6, 2)), axis=1):
            ends = [bound_at(float(rho), distance, n, 0.049) for rho in (low, high)]
            inside = [bound_at(float(rho), distance, n, 0.049) for rho in np.linspace(low, high, 7)]
            assert min(inside) >= min(ends) * (1 - 1e-9)
    assert bound_at(1.0, 3.0, n, 0.049) == pytest.approx(bound_at(1 - 1e-9, 3.0, n, 0.049), rel=1e-4)


@pytest.mark.parametrize(("mu", "rho"), [(0.0, 0.0), (0.5, 0.0), (0.5, 0.6), (6.0, 1.0)])
def test_the_bound_is_too_large_no_more_often_than_alpha(mu: float, rho: float) -> None:
    rng = np.random.default_rng(4)
    found = [mu_bound(*normal_scores(rng, mu, rho, 40), 0.05) for _ in range(1000)]
    alarms = sum(one > mu for one in found)
    assert alarms <= most(1000)
    if rho in (0.0, 1.0):
        assert alarms >= 25, "it is exact there"


def test_shared_noise_makes_the_bound_tighter() -> None:
    rng = np.random.default_rng(6)
    alone, shared = (normal_scores(rng, 0.3, rho, 2000) for rho in (0.0, 0.98))
    assert mu_bound(*alone, 0.05) < 0.26
    assert 0.27 < mu_bound(*shared, 0.05) < 0.3


@settings(max_examples=60)
@given(shift=st.floats(-1e3, 1e3), log_scale=st.floats(-200, 200), seed=st.integers(0, 1000))
def test_only_distances_in_standard_deviations_count(shift: float, log_scale: float, seed: int) -> None:
    zero, one = normal_scores(np.random.default_rng(seed), 1.0, 0.3, 50)
    scale = math.exp(log_scale)
    moved = mu_bound(scale * (zero + shift), scale * (one + shift), 0.05)
    assert moved == pytest.approx(mu_bound(zero, one, 0.05), rel=1e-9, abs=1e-12)


def test_scores_without_noise_and_scores_that_are_infinite() -> None:
    constant, noise = np.full(20, 0.1), np.random.default_rng(7).normal(size=20)
    assert mu_bound(constant, constant + 0.2, 0.05) == math.inf
    assert mu_bound(constant, constant, 0.05) == mu_bound(constant, constant - 0.2, 0.05) == 0.0
    assert mu_bound(noise, noise - 1, 0.05) == mu_bound(noise + 5, noise, 0.05) == 0.0
    assert mu_bound(noise, np.where(noise > 0, np.inf, noise), 0.05) == 0.0
    assert mu_bound(np.full(20, -1.7e308), np.full(20, 1.7e308), 0.05) == math.inf


# --- the estimator --------------------------------------------------------------------------------


def test_eps_and_ceiling_by_the_formulas() -> None:
    zero, one = normal_scores(np.random.default_rng(8), 1.0, 0.0, 500)
    found = bound("gaussian-dp", evaluated(zero, one), 1e-3)
    assert found.epsilon == pytest.approx(gaussian_epsilon(mu_bound(zero, one, 0.05), 1e-3), abs=1e-9)
    rate = stats.beta.ppf(0.975, 1, 500)  # of errors, where none was seen
    assert found.ceiling == pytest.approx(gaussian_epsilon(2 * stats.norm.ppf(1 - rate), 1e-3))
    assert bound("gaussian-dp", evaluated(zero, one + 1e6), 1e-3).epsilon == found.ceiling


@pytest.mark.parametrize(("trials", "least"), [(400, 0.5), (2000, 0.75), (10_000, 0.88)])
def test_most_of_the_exact_bound_is_found(trials: int, least: float) -> None:
    """Normal noise of eps 1 at delta 1e-5; the means of the exact t-bound are .54, .79 and .90."""
    rng = np.random.default_rng(9)
    assert gaussian_epsilon(MU, 1e-5) == pytest.approx(1.0, abs=1e-4)
    games = [evaluated(*normal_scores(rng, MU, 0.0, trials)) for _ in range(60)]
    assert np.mean([bound("gaussian-dp", game, 1e-5).epsilon for game in games]) > least


# --- noise that is nearly normal ------------------------------------------------------------------

EDGE = 100_000.0  # variance in squared steps


def test_which_noise_is_nearly_normal() -> None:
    assert nearly_normal(Gaussian(sigma=1e-9))
    for law in (Skellam, DiscreteGaussian):
        assert nearly_normal(law(sigma=1.0, step=1.0 / 317))
        assert not nearly_normal(law(sigma=1.0, step=1.0 / 316))
        assert not nearly_normal(law(sigma=1.0, step=1.0 / 512), rounded_to=1.0 / 256)
    assert nearly_normal(Gaussian(sigma=317.0), rounded_to=1.0)
    assert not nearly_normal(Gaussian(sigma=316.0), rounded_to=1.0)
    share = Skellam(sigma=100.0, step=1.0)
    assert not nearly_normal(share)
    assert nearly_normal(share.summed(10))
    assert not any(nearly_normal(law) for law in (None, GammaShare(n=1, scale=1), GammaShare(n=9, scale=1)))


LAWS: list[Law] = [law(sigma=math.sqrt(EDGE), step=1.0) for law in (Skellam, DiscreteGaussian)]
LAWS += [Gaussian(sigma=math.sqrt(EDGE))]


def skellam_scores(
    rng: np.random.Generator, v: float, steps: int, rho: float, n: int
) -> tuple[Floats, Floats]:
    """Skellam noise of one coordinate, a share rho of its variance that of other clients."""
    shares = [(1 - rho) * v, (1 - rho) * v, rho * v]
    zero, one, others = (rng.poisson(s / 2, size=n) - rng.poisson(s / 2, size=n) + 0.0 for s in shares)
    return zero + others, one + others + steps


def test_noise_at_the_edge_of_the_criterion_raises_no_more_false_alarms() -> None:
    """Bounds above the exact eps."""
    rng, true = np.random.default_rng(11), exact_epsilon(Skellam(sigma=math.sqrt(EDGE), step=1.0), 316, 1e-5)
    games = (evaluated(*skellam_scores(rng, EDGE, 316, 0.0, 400)) for _ in range(1000))
    assert sum(bound("gaussian-dp", game, 1e-5).epsilon > true for game in games) <= most(1000)


@pytest.mark.parametrize("make", [Skellam, DiscreteGaussian])
def test_the_log_likelihood_ratio_of_nearly_normal_noise_is_as_good_as_linear(
    make: type[Skellam] | type[DiscreteGaussian],
) -> None:
    rng, means = np.random.default_rng(13), np.array([[0.0], [316.0]])
    seen = skellam_scores(rng, EDGE, 316, 0.5, 400)
    law = make(sigma=math.sqrt(EDGE), step=1.0)
    ratios = [log_ratio(law, scores[:, np.newaxis], means) for scores in seen]
    assert mu_bound(ratios[0], ratios[1], 0.05) == pytest.approx(mu_bound(*seen, 0.05), rel=1e-4)
