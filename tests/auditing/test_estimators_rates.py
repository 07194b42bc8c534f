"""Rates and tails of the estimators against exact sums and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from foltr_audit.auditing.estimators import ESTIMATORS, TrialScores, clopper_pearson_bound
from foltr_audit.auditing.estimators.repeated_trials import (
    ScoreTail,
    best_tail,
    epsilon_of_rates,
    upper_rate,
    upper_rates,
    worth_in_epsilon,
)
from tests.auditing.test_estimators import parted

BY_COUNTS = sorted({*ESTIMATORS} - {"gaussian-dp"})

# --- Clopper-Pearson ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 17, 400])
@pytest.mark.parametrize("alpha", [0.025, 0.3])
def test_upper_rates_are_where_the_binomial_tail_is_alpha(n: int, alpha: float) -> None:
    x = np.arange(n + 1)
    rates = upper_rate(x, n, alpha)
    assert rates[n] == 1.0
    assert stats.binom.cdf(x[:n], n, rates[:n]) == pytest.approx(alpha, rel=1e-9)
    assert upper_rates(n, alpha) == pytest.approx(stats.beta.ppf(1 - alpha, x + 1, np.maximum(n - x, 1e-12)))


@pytest.mark.parametrize("truth", [0.003, 0.1, 0.5, 0.93])
def test_upper_rates_fail_no_more_often_than_alpha_by_exact_sum(truth: float) -> None:
    n, alpha = 150, 0.025
    weight = stats.binom.pmf(np.arange(n + 1), n, truth)
    assert weight[upper_rates(n, alpha) < truth].sum() <= alpha
    one_event_less = np.concatenate([[0.0], upper_rates(n, alpha)[:-1]])  # P[X < x] instead of P[X <= x]
    assert weight[one_event_less < truth].sum() > alpha


@pytest.mark.parametrize("delta", [0.0, 0.01])
@pytest.mark.parametrize(("eps", "n"), [(1.0, 60), (3.0, 60), (1.0, 250)])
def test_false_alarms_on_randomised_response_by_exact_sum(eps: float, n: int, delta: float) -> None:
    """Both rates are (1 - delta) / (1 + e^eps): the mechanism that is as telling as (eps, delta) allows."""
    counts = stats.binom.pmf(np.arange(n + 1), n, (1 - delta) / (1 + math.exp(eps)))
    rates = upper_rates(n, 0.025)
    both = np.stack(np.broadcast_arrays(rates[:, np.newaxis], rates))
    found = epsilon_of_rates(both, both[::-1], delta).max(axis=0)
    assert np.outer(counts, counts)[found > eps].sum() <= 0.05
    seen = np.arange(n + 1) / n  # shares that were seen instead of bounds
    naive = np.stack(np.broadcast_arrays(seen[:, np.newaxis], seen)).clip(1e-9)
    too_large = epsilon_of_rates(naive, naive[::-1], delta).max(axis=0) > eps
    assert np.outer(counts, counts)[too_large].sum() > 0.05


def test_the_bound_of_counts_by_the_formula() -> None:
    few, many = stats.beta.ppf(0.975, 13 + 1, 500 - 13), stats.beta.ppf(0.975, 70 + 1, 500 - 70)
    expected = math.log((1 - many - 0.01) / few)
    for counts in ((13, 70), (70, 13)):
        assert clopper_pearson_bound(*counts, 500, delta=0.01, confidence=0.95) == pytest.approx(expected)
    assert clopper_pearson_bound(250, 250, 500, delta=0.0, confidence=0.95) == 0.0
    assert clopper_pearson_bound(0, 500, 500, delta=0.0, confidence=0.95) == 0.0


# --- thresholds -----------------------------------------------------------------------------------

values = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf])
parts = st.lists(values, min_size=15, max_size=15).map(np.array)


@settings(max_examples=60)
@given(zero=parts, one=parts, delta=st.sampled_from([0.0, 0.05]))
def test_no_other_threshold_is_worth_more(
    zero: NDArray[np.float64], one: NDArray[np.float64], delta: float
) -> None:
    trials = TrialScores(choose_zero=zero, choose_one=one, zero=zero, one=one)
    alpha = 0.025

    def worth(tail: ScoreTail) -> float:
        right, wrong = (one, zero) if tail.above else (zero, one)
        inside = sum(bool(x >= tail.threshold if tail.above else x <= tail.threshold) for x in wrong)
        missing = sum(not (x >= tail.threshold if tail.above else x <= tail.threshold) for x in right)
        upper = [stats.beta.ppf(1 - alpha, k + 1, 15 - k) if k < 15 else 1.0 for k in (inside, missing)]
        return math.log((1 - upper[1] - delta) / upper[0]) if upper[1] + delta < 1 else -math.inf

    every = [ScoreTail(float(t), above) for t in {*zero, *one} for above in (True, False)]
    chosen = best_tail(trials, worth_in_epsilon(15, delta, alpha))
    assert worth(chosen) == pytest.approx(max(map(worth, every)), rel=1e-9)
    fp, fn = chosen.errors(trials)
    says_one = [
        scores >= chosen.threshold if chosen.above else scores > chosen.threshold for scores in (zero, one)
    ]
    assert (fp, fn) == (says_one[0].sum(), 15 - says_one[1].sum())


@pytest.mark.parametrize("far", [math.inf, -math.inf])
@pytest.mark.parametrize("name", BY_COUNTS)
def test_atoms_at_either_end_are_reached(name: str, far: float) -> None:
    """One hypothesis gives an infinite score in a third of the trials, the other never: no eps at all."""
    rng = np.random.default_rng(1)
    blind, telling = rng.normal(size=4000), np.where(rng.random(4000) < 1 / 3, far, rng.normal(size=4000))
    zero, one = (blind, telling) if far > 0 else (telling, blind)
    assert ESTIMATORS[name](parted(zero, one, 2000), delta=1e-6, confidence=0.95, rng=rng).epsilon > 3.5


def test_a_threshold_is_chosen_on_its_own_part_only() -> None:
    rng = np.random.default_rng(2)
    zero, one = rng.normal(size=300), rng.normal(size=300) + 1
    game = TrialScores(choose_zero=np.full(50, 0.2), choose_one=np.full(50, 0.8), zero=zero, one=one)
    found = ESTIMATORS["clopper-pearson"](game, delta=0.01, confidence=0.95, rng=rng)
    counts = int((zero >= 0.8).sum()), int((one < 0.8).sum())
    assert found.epsilon == clopper_pearson_bound(*counts, 300, delta=0.01, confidence=0.95) > 0
    misled = TrialScores(choose_zero=np.full(50, 1.5), choose_one=np.full(50, 4.0), zero=zero, one=one)
    for name in BY_COUNTS:
        better, worse = (
            ESTIMATORS[name](each, delta=0.01, confidence=0.95, rng=np.random.default_rng(3)).epsilon
            for each in (game, misled)
        )
        assert better > worse, name
