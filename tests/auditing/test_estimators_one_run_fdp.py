"""Guesses of coins under a trade-off function: linear programs over laws of counts, and over mechanisms."""

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

from foltr_audit.auditing.estimators.one_run import gaussian_inverse, least_total, most_likely, one_run_mu
from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_delta

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
def test_counts_that_do_not_fit(counts: tuple[int, int, int]) -> None:
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
