"""Estimators on games whose true eps is known: below it, close to it, and rarely above it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from foltr_audit.auditing.estimators import ESTIMATORS, FOR_NORMAL, TrialScores, clopper_pearson_bound
from foltr_audit.auditing.estimators.repeated_trials import (
    Bets,
    ScoreTail,
    best_of_direction,
    best_tail,
    epsilon_of_rates,
    upper_rate,
    upper_rates,
    worth_in_epsilon,
)
from foltr_audit.core.results import LowerBound
from foltr_audit.errors import UsageError
from foltr_audit.privacy.gaussian_dp import gaussian_epsilon

Scores = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Scores, Scores]]

PARTS = ("choose_zero", "choose_one", "zero", "one")
NAMES = sorted(ESTIMATORS)
BY_RANKS = [name for name in NAMES if name != "gaussian-dp"]
BY_GAPS = ("one-run", "one-run-fdp")  # they divide a gap between scores in its middle
PROVEN = [name for name in NAMES if name not in FOR_NORMAL]
CEILING = {100: 3.3, 1000: 5.6, 10_000: 7.9}  # `docs/maths.md`, Auditing: Clopper-Pearson at 95 %


@dataclass(frozen=True)
class Mechanism:
    """A mechanism with its scores under both hypotheses, its delta and its true eps at that delta."""

    name: str
    draw: Draw
    true: float
    delta: float = 0.0

    def trials(self, rng: np.random.Generator, n: int, m: int | None = None) -> TrialScores:
        """A game of n evaluated trials, and m (else n) for choosing."""
        choose_zero, choose_one = self.draw(rng, m or n)
        zero, one = self.draw(rng, n)
        return TrialScores(
            choose_zero=choose_zero, choose_one=choose_one, zero=zero, one=one, independent=True
        )


def randomised_response(eps: float) -> Mechanism:
    def draw(rng: np.random.Generator, n: int) -> tuple[Scores, Scores]:
        lies = rng.random((2, n)) < 1 / (1 + math.exp(eps))
        return lies[0].astype(np.float64), 1.0 - lies[1]

    return Mechanism(f"response-{eps:g}", draw, eps)


def laplace(eps: float, *, clipped: bool = True) -> Mechanism:
    """Sensitivity 1. Clipped: the log likelihood ratio, rounded: its last digits tell the values apart."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Scores, Scores]:
        zero, one = rng.laplace(scale=1 / eps, size=(2, n)) + np.array([[0.0], [1.0]])
        if not clipped:
            return zero, one
        ratios = [np.round(eps * (np.abs(x) - np.abs(x - 1)), 9) for x in (zero, one)]
        return ratios[0], ratios[1]

    return Mechanism(f"laplace-{eps:g}{'' if clipped else '-raw'}", draw, eps)


def gaussian(mu: float, delta: float) -> Mechanism:
    def draw(rng: np.random.Generator, n: int) -> tuple[Scores, Scores]:
        zero, one = rng.normal(size=(2, n)) + np.array([[0.0], [mu]])
        return zero, one

    return Mechanism(f"gaussian-{mu:g}", draw, gaussian_epsilon(mu, delta), delta)


def bound(
    name: str, trials: TrialScores, delta: float = 0.0, confidence: float = 0.95, seed: int = 0
) -> LowerBound:
    return ESTIMATORS[name](trials, delta=delta, confidence=confidence, rng=np.random.default_rng(seed))


def parted(zero: Scores, one: Scores, m: int, *, independent: bool = False) -> TrialScores:
    """Trials of which the first m of each hypothesis are for choosing."""
    parts = {"choose_zero": zero[:m], "choose_one": one[:m], "zero": zero[m:], "one": one[m:]}
    return TrialScores(**parts, independent=independent)


def perfect(n: int, m: int | None = None) -> TrialScores:
    m = m or n
    return TrialScores(choose_zero=np.zeros(m), choose_one=np.ones(m), zero=np.zeros(n), one=np.ones(n))


# --- known mechanisms -----------------------------------------------------------------------------

TIGHT = [("clopper-pearson", make(eps)) for make in (laplace, randomised_response) for eps in (1.0, 2.0, 3.0)]
TIGHT += [("betting", laplace(1.0)), ("betting", randomised_response(3.0))]
TIGHT += [("one-run", randomised_response(1.0))]
TIGHT += [("gaussian-dp", gaussian(mu, 1e-5)) for mu in (0.5, 1.0, 3.0)]


@pytest.mark.parametrize(("name", "mechanism"), TIGHT, ids=lambda x: x if isinstance(x, str) else x.name)
def test_with_many_trials_the_bound_reaches_most_of_the_true_eps(name: str, mechanism: Mechanism) -> None:
    trials = mechanism.trials(np.random.default_rng(1), 100_000)
    found = bound(name, trials, mechanism.delta)
    assert 0.8 * mechanism.true <= found.epsilon <= mechanism.true
    assert found.trials == 100_000


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_gaussians_of_several_sigma_are_not_overstated(name: str, sigma: float) -> None:
    mechanism = gaussian(1 / sigma, 1e-5)
    found = bound(name, mechanism.trials(np.random.default_rng(2), 5000), 1e-5)
    assert 0 < found.epsilon <= mechanism.true


# --- ceilings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "published"), CEILING.items())
def test_published_ceilings(n: int, published: float) -> None:
    found = bound("clopper-pearson", perfect(n))
    assert found.epsilon == found.ceiling == pytest.approx(published, abs=0.05)
    rate = 1 - 0.025 ** (1 / n)
    assert found.ceiling == pytest.approx(math.log((1 - rate) / rate), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [10, 137, 2000])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("delta", [1e-5, 0.01])
def test_a_perfect_attack_reaches_the_ceiling(name: str, n: int, confidence: float, delta: float) -> None:
    found = bound(name, perfect(n), delta, confidence)
    assert found.epsilon == pytest.approx(found.ceiling, abs=1e-9)
    assert math.isfinite(found.ceiling)


# --- invariances ----------------------------------------------------------------------------------

some_scores = st.lists(
    st.one_of(st.integers(-8, 8).map(float), st.sampled_from([-math.inf, math.inf])), min_size=12, max_size=12
)


@st.composite
def games(draw: st.DrawFn) -> TrialScores:
    """Small games with ties and infinite scores; hypothesis 1 is moved upwards by some of them."""
    parts = [np.array(draw(some_scores)) for _ in range(4)]
    shift, copies = draw(st.integers(0, 12)), draw(st.integers(1, 6))
    zero, one, choose_zero, choose_one = (np.tile(part, copies) for part in parts)
    return TrialScores(choose_zero=choose_zero, choose_one=choose_one + shift, zero=zero, one=one + shift)


quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", NAMES)
@quick
@given(game=games(), delta=st.sampled_from([1e-6, 0.02]), confidence=st.sampled_from([0.5, 0.95]))
def test_finite_never_negative_and_never_above_the_ceiling(
    name: str, game: TrialScores, delta: float, confidence: float
) -> None:
    found = bound(name, game, delta, confidence)
    assert 0 <= found.epsilon <= found.ceiling + 1e-9
    assert math.isfinite(found.ceiling)
    assert (found.estimator, found.delta, found.confidence) == (name, delta, confidence)


@pytest.mark.parametrize("name", BY_RANKS)
@quick
@given(game=games())
def test_increasing_transformations_of_the_scores_change_nothing(name: str, game: TrialScores) -> None:
    def moved(scores: NDArray[np.float64]) -> NDArray[np.float64]:
        if name in BY_GAPS:  # of any increasing transformations only those that keep middles
            return 4 * scores - 3
        return np.asarray(np.sinh(np.arctan(scores) - 0.3) * 7 - 1)

    other = replace(game, **{part: moved(getattr(game, part)) for part in PARTS})  # type: ignore[arg-type]
    assert bound(name, other, 1e-5) == bound(name, game, 1e-5)


@pytest.mark.parametrize("name", ["clopper-pearson", "betting"])
@quick
@given(game=games())
def test_swapped_hypotheses_with_negated_scores_give_the_same_bound(name: str, game: TrialScores) -> None:
    worth = worth_in_epsilon(game.chosen_on, 1e-5, 0.025)
    above, below = (best_of_direction(game, worth, above=above) for above in (True, False))
    assume(name == "betting" or above.rank != below.rank)  # of equals one direction must be taken
    assert bound(name, game.mirrored(), 1e-5).epsilon == pytest.approx(
        bound(name, game, 1e-5).epsilon, abs=1e-9
    )


@pytest.mark.parametrize("mu", [0.7, 2.0])
def test_swapped_gaussians_give_the_same_bound(mu: float) -> None:
    game = gaussian(mu, 1e-5).trials(np.random.default_rng(5), 1001)
    assert bound("gaussian-dp", game.mirrored(), 1e-5) == bound("gaussian-dp", game, 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_bounds_fall_with_confidence_and_with_delta(name: str) -> None:
    game = randomised_response(2.0).trials(np.random.default_rng(6), 2000)
    by_confidence = [bound(name, game, 1e-4, confidence).epsilon for confidence in (0.5, 0.9, 0.99, 0.9999)]
    by_delta = [bound(name, game, delta).epsilon for delta in (1e-6, 1e-3, 0.05, 0.3)]
    for row in (by_confidence, by_delta):
        assert row == sorted(row, reverse=True)
        assert row[0] > row[-1]


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"zero": np.zeros(0)}, "zero of shape"),
        ({"choose_one": np.zeros(9)}, "at least 10"),
        ({"one": np.zeros((5, 5))}, r"shape \(5, 5\)"),
        ({"one": np.full(20, np.nan)}, "one holds NaN"),
        ({"one": np.zeros(21)}, "20 scores in zero, 21 in one"),
        ({"choose_one": np.zeros(21)}, "20 scores in choose_zero"),
    ],
)
def test_trials_that_are_refused(changed: dict[str, NDArray[np.float64]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(perfect(20), **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", [(-0.1, 0.95), (1.0, 0.95), (math.nan, 0.95), (0.1, 0.0), (0.1, 1.0)])
def test_levels_that_are_refused(name: str, level: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match=f"estimator {name}: "):
        bound(name, perfect(20), *level)


@pytest.mark.parametrize("name", FOR_NORMAL)
def test_a_gaussian_has_no_pure_eps(name: str) -> None:
    with pytest.raises(UsageError, match=f"estimator {name}: delta=0; expected delta > 0"):
        bound(name, perfect(20), 0.0)


def test_scores_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        perfect(20).zero[0] = 1.0


def test_what_is_taken_for_granted_is_said() -> None:
    assumed = {name: bound(name, perfect(20), 1e-5).assumes for name in NAMES}
    assert {name for name, text in assumed.items() if not text} == set(PROVEN)
    assert all("noise that is normal" in assumed[name] for name in FOR_NORMAL)


NOMINAL, ODDS = 0.05, 0.999
MECHANISMS = [randomised_response(1.0), randomised_response(3.0), laplace(1.0)]
GUARANTEED = [
    *(("clopper-pearson", each) for each in MECHANISMS),
    *(("one-run", each) for each in MECHANISMS),
    *(("betting", each) for each in MECHANISMS),
    ("one-run", gaussian(1.0, 0.01)),
    ("gaussian-dp", gaussian(1.0, 1e-5)),
    ("one-run-fdp", gaussian(1.0, 1e-5)),
]


def most(repetitions: int) -> int:
    """False alarms that a test of the nominal level exceeds once in a thousand times."""
    return int(stats.binom.ppf(ODDS, repetitions, NOMINAL))


def false_alarms(name: str, mechanism: Mechanism, repetitions: int, n: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    return sum(
        bound(name, mechanism.trials(rng, n), mechanism.delta, seed=repetition).epsilon > mechanism.true
        for repetition in range(repetitions)
    )


@pytest.mark.parametrize(("name", "mechanism"), GUARANTEED, ids=lambda x: x if isinstance(x, str) else x.name)
def test_false_alarms_stay_within_the_nominal_level(name: str, mechanism: Mechanism) -> None:
    assert false_alarms(name, mechanism, repetitions=150, n=64, seed=1) <= most(150)


kinds = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)
deltas = st.sampled_from([0.0, 1e-5, 0.1])


def counts(pairs: list[tuple[bool, bool]]) -> NDArray[np.int64]:
    """Kinds of pairs (right trial inside, wrong trial inside) after each of them."""
    rows = [[r and not w, w and not r, r and w, not (r or w)] for r, w in pairs]
    return np.cumsum(np.array(rows, dtype=np.int64), axis=0)


def equal(stakes: list[float]) -> NDArray[np.float64]:
    return np.full(len(stakes), 1 / len(stakes))


@settings(max_examples=60)
@given(pairs=kinds, eps=st.floats(0, 4), delta=deltas, stakes=st.lists(st.floats(1e-4, 0.9), min_size=1))
def test_wealth_against_a_loop_over_pairs(
    pairs: list[tuple[bool, bool]], eps: float, delta: float, stakes: list[float]
) -> None:
    fortunes, expected = [1.0 if s * (math.exp(eps) + delta) < 1 - 1e-12 else 0.0 for s in stakes], []
    for right, wrong in pairs:
        pays = right - math.exp(eps) * wrong - delta
        fortunes = [w * (1 + s * pays) for w, s in zip(fortunes, stakes, strict=True)]
        expected.append(math.fsum(fortunes) / len(fortunes))
    found = np.exp(Bets(np.array(stakes), equal(stakes), counts(pairs)).log_wealth(eps, delta))
    assert found == pytest.approx(np.array(expected), rel=1e-9, abs=1e-300)


@settings(max_examples=60)
@given(pairs=kinds, delta=deltas, stakes=st.lists(st.floats(1e-4, 0.9), min_size=1, max_size=5))
def test_wealth_never_grows_with_eps(
    pairs: list[tuple[bool, bool]], delta: float, stakes: list[float]
) -> None:
    bets = Bets(np.array(stakes), equal(stakes), counts(pairs))
    wealth = np.array([np.exp(bets.log_wealth(eps, delta)) for eps in np.linspace(0, 5, 60)])
    assert np.all(np.diff(wealth, axis=0) <= 1e-12 * wealth[:-1])


@settings(max_examples=60)
@given(wrong=st.floats(0, 1), eps=st.floats(0, 4), delta=deltas, stake=st.floats(1e-4, 0.9))
def test_a_pair_is_a_fair_game_at_the_true_eps_and_not_below(
    wrong: float, eps: float, delta: float, stake: float
) -> None:
    right = min(1.0, math.exp(eps) * wrong + delta)
    chances = [right * (1 - wrong), wrong * (1 - right), right * wrong, (1 - right) * (1 - wrong)]

    def mean(against: float) -> float:
        bets = (Bets(np.array([stake]), np.ones(1), row[np.newaxis]) for row in np.eye(4, dtype=np.int64))
        after = [float(np.exp(each.log_wealth(against, delta))[0]) for each in bets]
        return math.fsum(p * w for p, w in zip(chances, after, strict=True))

    assert mean(eps) <= 1 + 1e-12
    if wrong > 0.01 and right < 1 and eps > 0.1 and stake * (math.exp(eps) + delta) < 0.99:
        assert mean(eps - 0.1) > 1


@pytest.mark.parametrize("n", [200, 3000])
def test_more_pairs_never_take_a_bound_back(n: int) -> None:
    """So the bound of all pairs is the best of all moments at which one could have stopped."""
    rng = np.random.default_rng(1)
    game = laplace(2.0).trials(rng, n, m=500)

    def after(t: int) -> float:
        return bound("betting", replace(game, zero=game.zero[:t], one=game.one[:t])).epsilon

    bounds = [after(t) for t in range(20, n + 1, n // 20)]
    assert all(
        b <= later + 0.02 for b, later in pairwise(bounds)
    )  # between two looks, at most 1/32 of the pairs apart, a little may be lost
    if n <= 256:
        assert all(b <= later + 1e-9 for b, later in pairwise(bounds))
    assert bounds[-1] > bounds[0]


def test_a_stream_that_turns_useless_keeps_its_bound() -> None:
    rng = np.random.default_rng(2)
    game = randomised_response(3.0).trials(rng, 256)
    noise = rng.integers(0, 2, size=(2, 5000)).astype(np.float64)
    zero, one = np.append(game.zero, noise[0]), np.append(game.one, noise[1])
    longer = replace(game, zero=zero, one=one)
    assert bound("betting", longer).epsilon == pytest.approx(bound("betting", game).epsilon, abs=1e-9)
    assert bound("betting", game).epsilon > 2
    assert ESTIMATORS["clopper-pearson"](longer, delta=0.0, confidence=0.95, rng=rng).epsilon < 0.5


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
