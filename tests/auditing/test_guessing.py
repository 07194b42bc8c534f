"""Rules for guesses of coins: what a perfect attack shows, gaps between scores, tails of uncertain size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from foltr_audit.auditing.estimators import ESTIMATORS, TrialScores, one_run_bound
from foltr_audit.auditing.estimators.one_run import (
    _MARGINS,
    GuessRule,
    _with_margins,
    canaries_of,
    choose_guessing,
    guesses,
)
from tests.auditing.test_estimators import parted

Scores = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Scores]


def constant(value: float) -> Draw:
    return lambda rng, n: np.full(n, value)


def spread(mean: float) -> Draw:
    return lambda rng, n: rng.normal(size=n) + mean


def rarely(share: float) -> Draw:
    """A score that gives hypothesis 1 away in a share of the trials."""
    return lambda rng, n: np.where(rng.random(n) < share, 9.0, rng.normal(size=n))


def game(seed: int, zero: Draw, one: Draw, n: int, *, independent: bool = True) -> TrialScores:
    rng = np.random.default_rng(seed)
    choosing = max(60, n // 4)
    return parted(zero(rng, n + choosing), one(rng, n + choosing), choosing, independent=independent)


@pytest.mark.parametrize("independent", [True, False])
@pytest.mark.parametrize("n", [50, 1000, 10_000])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("name", ["zero", "one", "both", "neither"])
def test_scores_that_never_overlap_show_the_most_that_trials_can(
    name: str, n: int, delta: float, independent: bool
) -> None:
    """Where scores vary, later ones lie outside the range of those for choosing, also in the gap."""
    zero = spread(0.0) if name in ("zero", "both") else constant(0.0)
    one = spread(50.0) if name in ("one", "both") else constant(50.0)
    trials = game(1, zero, one, n, independent=independent)
    found = ESTIMATORS["one-run"](trials, delta=delta, confidence=0.95, rng=np.random.default_rng(2))
    m = canaries_of(trials)
    assert found.epsilon == found.ceiling == one_run_bound(m, m, m, delta, 0.95)


def test_a_score_in_a_gap_is_guessed_by_the_nearer_side() -> None:
    zero, one = np.arange(10.0), np.arange(90.0, 100.0)
    coins = np.array([False, True] * 5)
    rule = GuessRule(low=0.5, high=0.5, share=1.0)
    for below, above, right in ((40.0, 60.0, 10), (60.0, 40.0, 0), (40.0, 40.0, 5), (-np.inf, np.inf, 10)):
        trials = TrialScores(
            choose_zero=zero, choose_one=one, zero=np.full(10, below), one=np.full(10, above)
        )
        assert guesses(trials, coins, rule) == (10, right)
    ends = TrialScores(
        choose_zero=np.full(10, -np.inf), choose_one=np.full(10, np.inf), zero=zero, one=one, independent=True
    )
    assert guesses(ends, coins, rule)[0] == 10, "infinitely far from both: no side is nearer"


def test_no_more_is_guessed_than_a_tail_surely_holds() -> None:
    """Coins and trials decide how many canaries are in a tail; guesses beyond it would be wrong."""
    careful: list[float] = []
    careless: list[float] = []
    for seed in range(20):
        trials = game(seed, spread(0.0), rarely(0.9), 1000)
        rule = choose_guessing(trials, 0.95)
        assert rule.share < rule.low + rule.high
        coins = np.random.default_rng(100 + seed).random(canaries_of(trials)) < 0.5
        for each, found in ((rule, careful), (rule._replace(share=rule.low + rule.high), careless)):
            found.append(one_run_bound(coins.size, *guesses(trials, coins, each), 0.0, 0.95))
    assert np.quantile(careful, 0.2) > 5
    assert np.quantile(careless, 0.2) < 4.5


@pytest.mark.parametrize(("z", "mean"), _MARGINS)
def test_how_many_guesses_lie_beyond_a_margin(z: float, mean: float) -> None:
    assert mean == pytest.approx(stats.norm.expect(lambda x: x - z, lb=z), abs=1e-4)


def test_margins_by_drawing_tails() -> None:
    """A tail holds a fifth of 3000 canaries, 90 % of which it guesses right."""
    shares, right = _with_margins(np.array([0.2]), np.array([0.9]), 1 / 3000)
    inside = np.random.default_rng(4).binomial(3000, 0.2, size=200_000) / 3000
    for share, expected in zip(shares[:, 0], right[:, 0], strict=True):
        mean = np.mean(0.9 * np.minimum(inside, share) + 0.5 * np.maximum(share - inside, 0.0))
        assert mean == pytest.approx(expected, rel=0.01)
    assert shares[0, 0] == 0.2
    assert np.all(np.diff(shares[:, 0]) < 0)
    whole = _with_margins(np.array([1.0]), np.array([0.7]), 1 / 3000)
    assert np.array_equal(whole[0], np.ones((3, 1))), "all canaries are a number without chance"
    assert whole[1] == pytest.approx(0.7)


@pytest.mark.parametrize("shifts", [np.array([2.0]), 2.2 * 0.7 ** np.arange(20)])
def test_where_a_pair_shares_its_noise_guesses_still_show_more_than_error_rates(shifts: Scores) -> None:
    """One trial of each pair is read, as in a sum; Clopper-Pearson reads both."""
    shown: dict[str, list[float]] = {"one-run": [], "clopper-pearson": []}
    for seed in range(30):
        noise = np.random.default_rng(seed).laplace(size=(1250, shifts.size))
        zero, one = ((np.abs(x) - np.abs(x - shifts)).sum(axis=1).round(9) for x in (noise, noise + shifts))
        trials = parted(zero, one, 250)
        for name, found in shown.items():
            rng = np.random.default_rng(1000 + seed)
            found.append(ESTIMATORS[name](trials, delta=0.0, confidence=0.95, rng=rng).epsilon)
    assert np.median(shown["one-run"]) > np.median(shown["clopper-pearson"])
    assert max(np.median(found) for found in shown.values()) < shifts.sum()
