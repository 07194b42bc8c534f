"""Estimators on games whose true eps is known: below it, close to it, and blind to how scores are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.auditing.estimators import ESTIMATORS, FOR_NORMAL, TrialScores
from foltr_audit.auditing.estimators.repeated_trials import best_of_direction, worth_in_epsilon
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


@pytest.mark.parametrize("name", PROVEN)
def test_scores_without_meaning_show_nothing_or_little(name: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        assert bound(name, parted(rng.normal(size=800), rng.normal(size=800), 400)).epsilon < 0.1


def test_the_last_digits_of_a_likelihood_ratio_are_found() -> None:
    """Shifted float64 noise lies on a coarser grid (Mironov 2012): unrounded ratios exceed the true eps."""
    zero, one = np.random.default_rng(4).laplace(size=(2, 20_000)) + np.array([[0.0], [1.0]])
    scores = [np.abs(x) - np.abs(x - 1) for x in (zero, one)]
    for digits, above in ((17, True), (9, False)):
        a, b = (np.round(x, digits) if digits < 17 else x for x in scores)
        assert (bound("clopper-pearson", parted(a, b, 10_000)).epsilon > 1.0) is above


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
