"""The one-run bound: its test by brute force, its false alarms by exact sums; guesses by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from foltr_audit.auditing.estimators import TrialScores, one_run_bound
from foltr_audit.auditing.estimators.one_run import (
    GuessRule,
    binomial_bound,
    canaries_of,
    choose_guessing,
    guesses,
    most_likely,
    one_run,
)
from foltr_audit.errors import UsageError
from tests.auditing.test_estimators import parted


def test_a_chance_below_the_smallest_number_is_no_bound_and_warns_of_nothing() -> None:
    with np.errstate(all="raise"):
        assert binomial_bound(0.001, 0.001, 0.05) == -math.inf


def chance(eps: float) -> float:
    return 1 / (1 + math.exp(-eps))


def at_most(pmf: NDArray[np.float64], v: int, weight: float) -> float:
    """The formula of `most_likely`, from the probabilities of every number of right guesses."""
    above = float(pmf[v:].sum())
    return min(1.0, above + weight * float(pmf[:v].sum()) * above / (v * float(pmf[v])))


# --- the test -------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(guessed=st.integers(1, 60), data=st.data(), eps=st.floats(0, 8), weight=st.floats(0, 20))
def test_the_chance_of_right_guesses_against_every_term(
    guessed: int, data: st.DataObject, eps: float, weight: float
) -> None:
    v = data.draw(st.integers(1, guessed))
    pmf = stats.binom.pmf(np.arange(guessed + 1), guessed, chance(eps))
    assert most_likely(guessed, v, eps, weight) == pytest.approx(at_most(pmf, v, weight), rel=1e-9, abs=1e-13)


def test_far_tails_do_not_underflow() -> None:
    """At 2,000 of 2,000 right by chance, P[W >= v] is 0 in float64, and its ratio to P[W = v] is 1."""
    assert most_likely(2000, 2000, 0.0, 0.5) == pytest.approx(0.5 / 2000)
    assert most_likely(2000, 1, 30.0, 0.5) == 1.0


@settings(max_examples=60)
@given(guessed=st.integers(1, 200), data=st.data(), weight=st.floats(0, 30))
def test_what_is_refuted_is_an_interval_from_0(guessed: int, data: st.DataObject, weight: float) -> None:
    """The search takes the first crossing: p grows with eps wherever it is below usual levels."""
    v = data.draw(st.integers(1, guessed))
    p = np.array([most_likely(guessed, v, eps, weight) for eps in np.linspace(0, 8, 80)])
    assert np.all(np.diff(p) >= -1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize(("guessed", "right"), [(100, 71), (300, 300), (250, 210), (40, 10), (5, 5)])
def test_the_bound_is_where_the_test_no_longer_refutes(guessed: int, right: int, delta: float) -> None:
    found = one_run_bound(300, guessed, right, delta, 0.95)
    pmf = stats.binom.pmf(np.arange(guessed + 1), guessed, chance(found))
    p = at_most(pmf, right, 300 * delta)
    assert p == pytest.approx(0.05, rel=1e-6) if found > 0 else p > 0.05


def test_known_values() -> None:
    assert one_run_bound(1000, 1000, 1000, 0.0, 0.95) == pytest.approx(-math.log(20 ** (1 / 1000) - 1))
    assert one_run_bound(100, 100, 50, 0.0, 0.95) == one_run_bound(100, 0, 0, 0.0, 0.95) == 0.0
    assert one_run_bound(10**5, 10**5, 10**5, 1e-5, 0.95) < one_run_bound(10**5, 10**5, 10**5, 0.0, 0.95)


@settings(max_examples=60)
@given(canaries=st.integers(2, 400), data=st.data(), delta=st.sampled_from([0.0, 1e-5, 1e-3, 0.05]))
def test_no_guesses_beat_all_of_them_right(canaries: int, data: st.DataObject, delta: float) -> None:
    guessed = data.draw(st.integers(1, canaries))
    right = data.draw(st.integers(0, guessed))
    ceiling = one_run_bound(canaries, canaries, canaries, delta, 0.95)
    assert 0 <= one_run_bound(canaries, guessed, right, delta, 0.95) <= ceiling + 1e-9


@pytest.mark.parametrize("counts", [(10, 11, 5), (10, 5, 6), (10, 5, -1)])
def test_counts_that_do_not_fit(counts: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="estimator one-run: "):
        one_run_bound(*counts, 0.0, 0.95)


# --- false alarms, by exact sums ------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("n", [20, 101, 500])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_false_alarms_on_randomised_response_are_exact(eps: float, n: int, confidence: float) -> None:
    """Every canary guessed: v is binomial. P[W > v] for P[W >= v], a tail too short, is caught."""
    pmf = stats.binom.pmf(np.arange(n + 1), n, chance(eps))
    found = np.array([one_run_bound(n, n, v, 0.0, confidence) for v in range(n + 1)])
    assert np.all(np.diff(found) >= 0)
    false_alarms = pmf[found > eps].sum()
    assert false_alarms <= 1 - confidence
    assert false_alarms + pmf[found <= eps][-1] > 1 - confidence  # one more count would be too many
    short_tail = np.append(found[1:], np.inf)
    assert pmf[short_tail > eps].sum() > 1 - confidence


@pytest.mark.parametrize("delta", [1e-3, 0.01, 0.05])
def test_false_alarms_where_delta_reveals_many_coins_at_once(delta: float) -> None:
    """With probability m delta / i, i random canaries are revealed: (eps, delta)-DP for each of them."""
    m, eps, alpha = 60, 1.0, 0.05
    found = np.array([one_run_bound(m, m, v, delta, 1 - alpha) for v in range(m + 1)])
    without = np.array([one_run_bound(m, m, v, 0.0, 1 - alpha) for v in range(m + 1)])
    worst = worst_without = 0.0
    for i in range(math.ceil(m * delta), m + 1):
        if i == 0:
            continue
        often = m * delta / i
        revealed = np.zeros(m + 1)
        revealed[i:] = stats.binom.pmf(np.arange(m - i + 1), m - i, chance(eps))
        pmf = (1 - often) * stats.binom.pmf(np.arange(m + 1), m, chance(eps)) + often * revealed
        worst = max(worst, pmf[found > eps].sum())
        worst_without = max(worst_without, pmf[without > eps].sum())
    assert worst <= alpha
    if delta >= 0.01:
        assert worst_without > alpha


# --- guesses --------------------------------------------------------------------------------------


def test_the_most_extreme_canaries_are_guessed() -> None:
    ranks = [float(x) for x in range(20)]
    zero, one = ranks[::2] + [0.0] * 5 + [9.0] * 5, ranks[1::2] + [19.0] * 5 + [12.0] * 5
    trials = parted(np.array(zero), np.array(one), 10)
    coins = np.array([True, False] * 5)
    # scores 19 0 19 0 19 9 12 9 12 9: ranks .975 .025 .975 .025 .975 .475 .625 .475 .625 .475
    assert guesses(trials, coins, GuessRule(low=0.2, high=0.2, share=0.5)) == (5, 5)
    assert guesses(trials, coins, GuessRule(low=0.5, high=0.5, share=1.0)) == (10, 10)
    assert guesses(trials, coins, GuessRule(low=0.9, high=0.1, share=1.0)) == (10, 8)
    assert guesses(trials, ~coins, GuessRule(low=0.5, high=0.5, share=0.3)) == (3, 3)


def test_the_number_of_guesses_does_not_depend_on_the_scores() -> None:
    rng = np.random.default_rng(1)
    rule = GuessRule(low=0.25, high=0.1, share=0.35)
    for scores in (np.zeros(40), rng.normal(size=40), np.full(40, np.inf)):
        both = np.append(np.arange(10.0), scores)
        trials = parted(both, both, 10)
        assert guesses(trials, rng.random(40) < 0.5, rule)[0] == 14


def test_where_nothing_is_told_in_the_middle_nothing_is_guessed() -> None:
    """A fifth of each hypothesis is told apart, the rest is blank."""
    rng = np.random.default_rng(2)
    zero, one = (np.where(rng.random(2000) < 0.2, s * 5.0, rng.normal(size=2000) / 9) for s in (-1, 1))
    trials = TrialScores(choose_zero=zero, choose_one=one, zero=zero, one=one)
    for worth in (None, lambda m, r, v, sure: one_run_bound(m, r, v, 1e-6, sure)):
        rule = choose_guessing(trials, 0.95, worth)
        assert rule.share == pytest.approx(0.2, abs=0.06)
        assert rule.low == pytest.approx(0.1, abs=0.03)
        assert rule.high == pytest.approx(0.1, abs=0.03)


# --- canaries -------------------------------------------------------------------------------------


def alone(n: int, *, independent: bool = True) -> TrialScores:
    """Scores 0, 1, ... of hypothesis 0 and 1000, 1001, ... of hypothesis 1."""
    zero = np.arange(float(n))
    return TrialScores(
        choose_zero=zero, choose_one=1000 + zero, zero=zero, one=1000 + zero, independent=independent
    )


@pytest.mark.parametrize("n", [10, 60, 1000, 20_000])
def test_as_many_canaries_as_coins_rarely_ask_for_too_many_trials(n: int) -> None:
    m = canaries_of(alone(n))
    assert 2 * stats.binom.sf(n, m, 0.5) <= 1e-4 < 2 * stats.binom.sf(n, m + 1, 0.5)
    assert canaries_of(alone(n, independent=False)) == n
    if n >= 1000:
        assert m > 1.8 * n


def test_every_canary_has_a_trial_of_its_own() -> None:
    """Half of the canaries with the highest scores are guessed in: those whose coin is 1, in any order."""
    trials = alone(10)
    rule = GuessRule(low=0.5, high=0.5, share=1.0)
    coins = np.array([True] * 10 + [False] * 4)
    assert guesses(trials, coins, rule) == (14, 14)
    assert guesses(trials, coins[::-1], rule) == (14, 14)
    useless = TrialScores(
        choose_zero=trials.zero, choose_one=trials.one, zero=trials.one, one=trials.zero, independent=True
    )
    assert guesses(useless, coins, rule) == (14, 0)


def test_coins_that_ask_for_too_many_trials_show_nothing() -> None:
    coins = np.array([True] * 11 + [False] * 2)
    assert guesses(alone(10), coins, GuessRule(low=0.5, high=0.5, share=1.0)) == (13, 0)


def test_trials_that_share_noise_are_not_both_read() -> None:
    """Where a pair's common noise tells both coins of a pair apart, reading both would reveal too much."""
    rng = np.random.default_rng(3)
    alarms = {True: 0, False: 0}
    for independent in alarms:
        for _ in range(200):
            common = rng.integers(0, 2, size=400) * 10.0
            zero, one = common + (rng.random((2, 400)) < [[0.269], [0.731]])
            trials = parted(zero % 10, one % 10, 100, independent=independent)
            found = one_run(trials, delta=0.0, confidence=0.95, rng=rng).epsilon
            alarms[independent] += found > 1.0
    assert max(alarms.values()) <= stats.binom.ppf(0.9999, 200, 0.05)
