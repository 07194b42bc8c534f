"""The one-run bounds: their tests by brute force, false alarms by exact sums, guesses by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, stats

from foltr_audit.auditing.estimators import ESTIMATORS, TrialScores, one_run_bound
from foltr_audit.auditing.estimators.one_run import (
    _MARGINS,
    GuessRule,
    _with_margins,
    binomial_bound,
    canaries_of,
    choose_guessing,
    gaussian_inverse,
    guesses,
    least_total,
    most_likely,
    one_run,
    one_run_mu,
)
from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_delta
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


Lines = list[tuple[float, float]]
"""Lines (slope, intercept) whose least one is 1 - f: each (eps, delta) gives e^eps x + delta."""


def inverse_of(lines: Lines) -> Callable[[float], float]:
    return lambda y: max(0.0, *((y - intercept) / slope for slope, intercept in lines))


def gaussian_lines(mu: float) -> Lines:
    """(eps, delta) of Gaussian DP at some eps of both signs: it allows a little more than mu-GDP."""
    half = [(math.exp(eps), gaussian_delta(mu, eps)) for eps in np.linspace(0, 4 * mu, 7)]
    return half + [(1 / slope, 1 - (1 - intercept) / slope) for slope, intercept in half]


def pure_lines(eps: float, delta: float) -> Lines:
    return [(math.exp(eps), delta), (math.exp(-eps), 1 - (1 - delta) * math.exp(-eps))]


# --- programs -------------------------------------------------------------------------------------


def likeliest_law(m: int, r: int, v: int, lines: Lines, events: list[tuple[int, ...]]) -> float:
    """The largest P[R >= v] of a law of counts 0 ... r that meets the inequality of each event of counts."""
    rows, limits = [], []
    for event in events:
        mine, other = np.zeros(r + 1), np.zeros(r + 1)
        for i in event:
            mine[i] += i / m
            other[i - 1] += (r - i + 1) / m
        for slope, intercept in lines:
            rows.append(mine - slope * other)
            limits.append(intercept)
    gain = -(np.arange(r + 1) >= v).astype(np.float64)
    done = optimize.linprog(gain, np.array(rows), np.array(limits), np.ones((1, r + 1)), [1.0])
    assert done.success
    assert done.fun is not None
    return float(-done.fun)


def tails(r: int) -> list[tuple[int, ...]]:
    return [tuple(range(i, r + 1)) for i in range(1, r + 1)]


def subsets(r: int) -> list[tuple[int, ...]]:
    return [event for size in range(1, r + 1) for event in combinations(range(1, r + 1), size)]


def answers(m: int, r: int) -> Iterator[tuple[int, ...]]:
    """All guesses of m coins that guess r of them; -1: not guessed."""
    return (each for each in product((-1, 0, 1), repeat=m) if sum(guess >= 0 for guess in each) == r)


def likeliest_mechanism(m: int, r: int, v: int, lines: Lines) -> float:
    """The largest chance of v right guesses that any mechanism has that obeys the lines for every coin.

    Variables: the probability of each answer for each of the 2^m coins, and for each neighbouring pair of
    inputs and line the excess of each answer, whose sum is at most the intercept.
    """
    coins, outputs = list(product((0, 1), repeat=m)), list(answers(m, r))
    k = len(outputs)
    pairs = [(i, j) for i, a in enumerate(coins) for j, b in enumerate(coins) if math.dist(a, b) == 1]
    size, blocks = len(coins) * k, len(pairs) * len(lines)
    upper, limits = np.zeros((blocks * (k + 1), size + blocks * k)), np.zeros(blocks * (k + 1))
    for block, ((i, j), (slope, intercept)) in enumerate(product(pairs, lines)):
        first, excess = block * (k + 1), size + block * k
        for o in range(k):
            upper[first + o, [i * k + o, j * k + o, excess + o]] = 1.0, -slope, -1.0
        upper[first + k, excess : excess + k] = 1.0
        limits[first + k] = intercept
    total = np.zeros((len(coins), size + blocks * k))
    gain = np.zeros(size + blocks * k)
    for i, truth in enumerate(coins):
        total[i, i * k : (i + 1) * k] = 1.0
        for o, answer in enumerate(outputs):
            right = sum(guess == coin for guess, coin in zip(answer, truth, strict=True))
            gain[i * k + o] = -(right >= v) / len(coins)
    done = optimize.linprog(gain, upper, limits, total, np.ones(len(coins)))
    assert done.success
    assert done.fun is not None
    return float(-done.fun)


def likeliest(m: int, r: int, v: int, inverse: Callable[[float], float]) -> float:
    """The chance of v right guesses that the recursion allows at most."""
    if least_total(m, r, v, 1.0, inverse) <= 1.0:
        return 1.0
    return float(optimize.brentq(lambda p: least_total(m, r, v, p, inverse) - 1.0, 1e-12, 1.0, xtol=1e-13))


# --- laws of counts -------------------------------------------------------------------------------

sizes = st.integers(1, 7).flatmap(
    lambda r: st.tuples(st.integers(r, r + 4), st.just(r), st.integers(1, r))
)  # canaries, guesses, right guesses


@settings(max_examples=60)
@given(sizes=sizes, mu=st.floats(0.1, 3.0))
def test_the_recursion_finds_the_likeliest_law_of_counts(sizes: tuple[int, int, int], mu: float) -> None:
    m, r, v = sizes
    lines = gaussian_lines(mu)
    expected = likeliest_law(m, r, v, lines, tails(r))
    # `least_total` stops above 1, so its root is found from below.
    assert likeliest(m, r, v, inverse_of(lines)) == pytest.approx(expected, abs=1e-7)


@settings(max_examples=60)
@given(sizes=sizes, eps=st.floats(0.05, 3.0), delta=st.sampled_from([0.0, 1e-3, 0.02, 0.1]))
def test_eps_and_delta_in_closed_form_find_it_for_all_events(
    sizes: tuple[int, int, int], eps: float, delta: float
) -> None:
    m, r, v = sizes
    expected = likeliest_law(m, r, v, [(math.exp(eps), delta)], subsets(r))
    found = most_likely(r, v, eps, m * delta)
    assert found == pytest.approx(expected, abs=1e-7) if found < 1.0 else expected > 0.9
    assert found <= likeliest(m, r, v, inverse_of(pure_lines(eps, delta))) + 1e-9 or delta > 0.01


def test_more_right_guesses_and_less_mu_are_never_likelier() -> None:
    chances = np.array(
        [
            [likeliest(60, 40, v, gaussian_inverse(mu)) for v in range(20, 41, 4)]
            for mu in (0.1, 0.4, 1.0, 2.0)
        ]
    )
    assert np.all(np.diff(chances, axis=1) <= 1e-12)
    assert np.all(np.diff(chances, axis=0) >= -1e-12)


# --- all mechanisms -------------------------------------------------------------------------------

GAMES = [(2, 1, 1), (2, 2, 1), (2, 2, 2), (3, 2, 2), (3, 3, 2), (3, 3, 3)]


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_no_mechanism_beats_the_recursion(game: tuple[int, int, int], mu: float) -> None:
    """Where all guesses are right, a recursion for 0.7 mu is caught; fewer right guesses leave it room."""
    _, r, v = game
    lines = gaussian_lines(mu)
    worst = likeliest_mechanism(*game, lines)
    assert worst <= likeliest(*game, inverse_of(lines)) + 1e-9
    assert worst > likeliest(*game, gaussian_inverse(0.7 * mu)) or v < r


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize(("eps", "delta"), [(1.0, 0.0), (0.5, 0.01), (2.0, 0.05)])
def test_no_mechanism_beats_the_closed_form(game: tuple[int, int, int], eps: float, delta: float) -> None:
    """Without a delta randomised response attains it."""
    m, r, v = game
    worst, found = likeliest_mechanism(*game, pure_lines(eps, delta)), most_likely(r, v, eps, m * delta)
    assert worst <= found + 1e-9
    assert worst == pytest.approx(stats.binom.sf(v - 1, r, 1 / (1 + math.exp(-eps))), abs=1e-9) or delta > 0
    assert worst > most_likely(r, v, eps, 0.3 * m * delta) or delta == 0


# --- the bound ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "r", "v"), [(1000, 1000, 551), (1000, 100, 65), (5000, 500, 321), (40, 40, 40)]
)
def test_the_bound_is_where_the_recursion_no_longer_refutes(m: int, r: int, v: int) -> None:
    found = one_run_mu(m, r, v, 0.95)
    assert least_total(m, r, v, 0.05, gaussian_inverse(found)) > 1.0
    assert least_total(m, r, v, 0.05, gaussian_inverse(found + 1e-9)) <= 1.0


def test_bounds_without_evidence() -> None:
    assert (
        one_run_mu(100, 0, 0, 0.95) == one_run_mu(100, 100, 0, 0.95) == one_run_mu(100, 100, 50, 0.95) == 0.0
    )
    assert one_run_mu(10**5, 10**5, 10**5, 0.95) < 8


@pytest.mark.parametrize("counts", [(10, 11, 5), (10, 5, 6), (10, 5, -1)])
def test_counts_of_trade_offs_that_do_not_fit(counts: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="estimator one-run-fdp: "):
        one_run_mu(*counts, 0.95)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("m", "r"), [(30, 30), (200, 200), (200, 50)])
def test_false_alarms_on_independent_normal_noise_are_few(mu: float, m: int, r: int) -> None:
    """Exact for independent canaries, all or the first r of which are guessed: v is binomial."""
    pmf: NDArray[np.float64] = stats.binom.pmf(np.arange(r + 1), r, stats.norm.cdf(mu / 2))
    found = np.array([one_run_mu(m, r, v, 0.95, precision=1e-6) for v in range(r + 1)])
    assert np.all(np.diff(found) >= -1e-5)
    assert pmf[found > mu].sum() <= 0.05
