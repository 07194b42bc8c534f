"""The betting bound: its fortune against a loop over pairs, fair games, prefixes."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.auditing.estimators import ESTIMATORS
from foltr_audit.auditing.estimators.repeated_trials import Bets
from tests.auditing.test_estimators import bound, laplace, randomised_response

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
