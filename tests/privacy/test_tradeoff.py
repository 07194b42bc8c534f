"""Trade-off curves, and the largest epsilon within a limit: closed forms, brute force, and riskcal."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from foltr_audit.errors import UsageError
from foltr_audit.privacy.accounting import AccountingContext, SumMembers, trade_off
from foltr_audit.privacy.events import NoiseAddition, NormBound, PrivacyEvent
from foltr_audit.privacy.noise import AdditiveNoise, GammaShare
from foltr_audit.privacy.tradeoff import TradeOff, epsilon_of_accuracy, epsilon_of_auc, pooled_curve

ABOVE = 1e-12  # rounding
EPSILONS = st.just(0.0) | st.floats(1e-3, 6.0)
DELTAS = st.floats(0.0, 0.3)


def rates_of(zero: list[float], one: list[float]) -> list[tuple[float, float]]:
    """False and true positive rate of every set of outcomes that a test may call "1"."""
    sets = itertools.product((0, 1), repeat=len(zero))
    return [(float(np.dot(each, zero)), float(np.dot(each, one))) for each in sets]


def extreme_mechanism(eps: float, delta: float) -> tuple[list[float], list[float]]:
    """The outcomes to which every (eps, delta)-DP mechanism reduces, Kairouz et al. 2015, theorem 2."""
    p = (1 - delta) / (1 + math.exp(eps))
    return [delta, p * math.exp(eps), p, 0.0], [0.0, p, p * math.exp(eps), delta]


@given(EPSILONS, DELTAS)
def test_the_extreme_mechanism_reaches_the_curve_and_no_test_exceeds_it(eps: float, delta: float) -> None:
    curve, reached = TradeOff.of_epsilon(eps, delta), rates_of(*extreme_mechanism(eps, delta))
    rates, powers = np.array(reached).T
    assert np.all(powers <= curve.power(rates) + ABOVE)
    for rate, power in zip(curve.false_positive, curve.true_positive, strict=True):
        assert any(abs(a - rate) < 1e-9 and abs(b - power) < 1e-9 for a, b in reached)


@pytest.mark.parametrize(("eps", "auc"), [(0.405, 0.600), (1.2, 0.769), (2.3, 0.909), (4.5, 0.989)])
def test_auc_of_pure_epsilon(eps: float, auc: float) -> None:
    assert TradeOff.of_epsilon(eps).auc == pytest.approx(1 / (1 + math.exp(-eps)), rel=1e-12)
    assert TradeOff.of_epsilon(eps).auc == pytest.approx(auc, abs=5e-4)


def test_auc_is_the_same_with_any_number_of_threads() -> None:
    rates = np.linspace(0.0, 1.0, 30_011)  # as many bends as BLAS shares among threads
    found = set()
    for threads in (1, 2, 3, 7):
        with threadpool_limits(threads, "blas"):
            found.add(TradeOff(rates, np.sqrt(rates)).auc)
    assert len(found) == 1


@given(EPSILONS, DELTAS, st.floats(0.0, 1.0))
def test_power_by_its_formula(eps: float, delta: float, rate: float) -> None:
    formula = min(1.0, math.exp(eps) * rate + delta, 1.0 - math.exp(-eps) * (1.0 - delta - rate))
    assert float(TradeOff.of_epsilon(eps, delta).power(rate)) == pytest.approx(formula, abs=1e-9)


@pytest.mark.parametrize("mu", [0.0, 0.01, 0.5, 1.0, 3.0, 20.0])
def test_gaussian_curve_by_its_closed_form(mu: float) -> None:
    curve, rates = TradeOff.of_mu(mu), np.array([1e-6, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.999])
    exact = norm.cdf(mu - norm.isf(rates))
    assert np.all(curve.power(rates) >= exact - 1e-12)
    assert np.all(curve.power(rates) <= exact + 2e-4)
    assert norm.cdf(mu / math.sqrt(2)) <= curve.auc + 1e-12 <= norm.cdf(mu / math.sqrt(2)) + 1e-4


@given(EPSILONS, DELTAS, st.floats(0.0, 1.0))
def test_accuracy_by_every_test_of_the_extreme_mechanism(eps: float, delta: float, prior: float) -> None:
    reached = rates_of(*extreme_mechanism(eps, delta))
    best = max((1 - prior) * (1 - rate) + prior * power for rate, power in reached)
    assert float(TradeOff.of_epsilon(eps, delta).accuracy(prior)) == pytest.approx(best, abs=1e-9)


@given(EPSILONS, st.floats(0.001, 0.999))
def test_success_by_the_growth_of_odds(eps: float, prior: float) -> None:
    odds, curve = math.exp(eps) * prior / (1 - prior), TradeOff.of_epsilon(eps)
    if prior <= 0.5:
        assert float(curve.success(prior)) == pytest.approx(odds / (1 + odds), rel=1e-9)
    assert prior - 1e-9 <= float(curve.success(prior)) <= odds / (1 + odds) + 1e-9
    assert float(curve.success(max(prior, 1 - prior))) >= float(curve.accuracy(prior)) - 1e-9
    assert float(curve.success(prior)) <= float(curve.power(prior)) + 1e-9


@pytest.mark.parametrize("values", [2, 3, 10])
@pytest.mark.parametrize("eps", [0.3, 1.2, 4.0])
def test_randomised_response_of_many_values_reaches_the_success(values: int, eps: float) -> None:
    """The truth with e^eps times the probability of every other value, and the guess that believes it."""
    right = math.exp(eps) / (math.exp(eps) + values - 1)
    assert float(TradeOff.of_epsilon(eps).success(1 / values)) == pytest.approx(right, rel=1e-9)


@given(st.lists(st.floats(0.02, 0.98), min_size=2, max_size=2), st.floats(0.0, 3.0))
def test_pooled_auc_by_every_order_of_outcomes(priors: list[float], eps: float) -> None:
    """Two documents with a coin each: the best of all 24 orders of the four pairs of document and outcome."""
    coin = 1 / (1 + math.exp(-eps))
    points = [
        (prior * p_one, (1 - prior) * p_zero)
        for prior in priors
        for p_zero, p_one in ((1 - coin, coin), (coin, 1 - coin))
    ]
    best = 0.0
    for order in itertools.permutations(points):
        area = hits = 0.0
        for clicked, unclicked in order:
            area += unclicked * (hits + clicked / 2)
            hits += clicked
        best = max(best, area / hits / sum(unclicked for _, unclicked in points))
    assert pooled_auc(TradeOff.of_epsilon(eps), priors) == pytest.approx(best, abs=1e-9)


def pooled_auc(curve: TradeOff, priors: list[float]) -> float:
    pooled = pooled_curve(curve, priors)
    assert pooled is not None
    return pooled.auc


def test_several_bounds_are_their_smallest() -> None:
    bounds, rates = [(0.5, 0.1), (1.5, 0.01), (3.0, 0.0)], np.linspace(0, 1, 101)
    each = [TradeOff.of_epsilon(*bound).power(rates) for bound in bounds]
    np.testing.assert_allclose(TradeOff.of_bounds(bounds).power(rates), np.min(each, axis=0), atol=1e-12)


def test_nothing_proven_promises_nothing() -> None:
    for curve in (TradeOff.of_bounds([]), TradeOff.of_epsilon(math.inf), TradeOff.of_epsilon(1.0, 1.0)):
        assert curve.auc == 1.0
        assert float(curve.power(0.0)) == 1.0


@pytest.mark.parametrize("bound", [(-1.0, 0.0), (math.nan, 0.0), (1.0, -0.1), (1.0, 1.1)])
def test_refuses_what_is_no_bound(bound: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="expected eps >= 0"):
        TradeOff.of_bounds([bound])


def clipped(norm: float, order: int, law: AdditiveNoise) -> list[PrivacyEvent]:
    """A model in a ball, with noise on it."""
    return [NormBound(norm=norm, ord=order, of="model"), NoiseAddition(law=law)]


SITUATION = AccountingContext(
    view="individual",
    unit="interaction",
    parameters=1,
    members=SumMembers(cohort=10),
)


def test_curve_of_laplace_noise_by_its_closed_form() -> None:
    """The AUC of Laplace noise moved by eps scales: 1 - e^-eps (2 + eps) / 4."""
    chain = clipped(0.6, 1, GammaShare(n=1, scale=1.0))
    exact = 1 - math.exp(-1.2) * (2 + 1.2) / 4
    assert exact <= trade_off(chain, SITUATION).auc + 1e-12 <= exact + 2e-3


def test_curve_of_a_chain_without_a_proof() -> None:
    assert trade_off([], SITUATION).auc == 1.0


def test_participations_limit_the_rounds_that_compose() -> None:
    chain, whole = clipped(0.5, 1, GammaShare(n=1, scale=2.0)), replace(SITUATION, unit="client", rounds=8)
    some, two = replace(whole, participations=2), replace(whole, rounds=2)
    assert trade_off(chain, some).auc == trade_off(chain, two).auc < trade_off(chain, whole).auc


# --- the largest epsilon that keeps to a limit -----------------------------------------------------------


@given(st.floats(0.0, 15.0), st.floats(0.0, 0.3))
def test_the_largest_epsilon_inverts_the_curve(eps: float, delta: float) -> None:
    curve = TradeOff.of_epsilon(eps, delta)
    assert epsilon_of_auc(max(curve.auc, 0.5), delta) == pytest.approx(eps, abs=1e-6)
    assert epsilon_of_accuracy(max(float(curve.accuracy()), 0.5), delta) == pytest.approx(eps, abs=1e-6)


def test_the_least_limit_that_is_named_is_one() -> None:
    """Delta .1 alone reaches an AUC of 1 - .9^2 / 2 and an accuracy of .55."""
    with pytest.raises(UsageError, match=r"--auc: 0\.52; expected at least 0\.595"):
        epsilon_of_auc(0.52, 0.1)
    with pytest.raises(UsageError, match=r"--accuracy: 0\.52; expected at least 0\.55, "):
        epsilon_of_accuracy(0.52, 0.1)
    assert epsilon_of_auc(0.595, 0.1) == pytest.approx(0.0, abs=1e-9)
    assert epsilon_of_accuracy(0.55, 0.1) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("limit", [0.49, 1.0, math.nan])
@pytest.mark.parametrize("invert", [epsilon_of_auc, epsilon_of_accuracy])
def test_limits_out_of_range(invert: Any, limit: float) -> None:
    with pytest.raises(UsageError, match="below 1"):
        invert(limit)
    with pytest.raises(UsageError, match="delta"):
        invert(0.6, 1.0)
