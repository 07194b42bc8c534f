"""Audits of recorded coins: sound for correct noise, able to refute, and functions of the output alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from foltr_audit.auditing.coin_audit import CoinAudit, CoinFinding
from foltr_audit.auditing.coin_bounds import guessed
from foltr_audit.auditing.coin_scores import CoinScores, _beyond, _estimated, score_coins
from foltr_audit.core.client_steps.function_step import as_client_step
from foltr_audit.errors import UsageError
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.round_sums import RoundSums, SumObserver
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import MemoryRoundStore
from foltr_audit.utils.arrays import Floats
from tests.fixtures import coin_trace, foreign_trace
from tests.fixtures.coin_trace import CoinSystem

MILLIONTH = 1.0 - 1e-7  # of each run: all tests here together are wrong once in a million


def store(system: CoinSystem, **facts: object) -> MemoryRoundStore:
    stated = {"noise": f"laplace:scale={system.scale}" if system.scale else "none", **facts}
    made = MemoryRoundStore(foreign_trace.header(system.declared, facts=stated))
    for record, truth in coin_trace.records(system):
        made.write(record, truth)
    return made


def found(
    system: CoinSystem, claimed: float, view: str = "individual", confidence: float = MILLIONTH
) -> CoinFinding:
    recorded = store(system)
    audit = CoinAudit(
        claimed=claimed, delta=0.0, confidence=confidence, estimator="one-run", streams=Streams(1)
    )
    return audit.finding(recorded, Observer(recorded.header, None), view)


def scores(system: CoinSystem, *, summed: bool = False) -> CoinScores:
    recorded = store(system)
    if summed:
        sums = RoundSums(recorded)
        return score_coins(sums, SumObserver(sums.header, None))
    return score_coins(recorded, Observer(recorded.header, None))


# --- claims ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("view", "shape"), [("individual", {"clients": 200}), ("aggregate", {"clients": 8, "rounds": 20})]
)
def test_a_claim_that_the_noise_keeps_is_not_refuted(seed: int, view: str, shape: dict[str, int]) -> None:
    shaped = replace(CoinSystem(), **shape, tossing=shape["clients"], seed=seed)
    loss = coin_trace.largest_loss(replace(shaped, scale=1.0))
    system = replace(shaped, scale=loss / 1.5)  # the largest loss of a coin is about 1.5
    result = found(system, claimed=1.1 * coin_trace.largest_loss(system), view=view)
    assert result.verdict == "not refuted"
    assert result.lower.epsilon <= 1.1 * coin_trace.largest_loss(system)


@pytest.mark.parametrize("view", ["individual", "aggregate"])
def test_noise_that_is_too_weak_is_refuted(view: str) -> None:
    clients = 200 if view == "individual" else 8
    system = CoinSystem(clients=clients, rounds=2 if clients == 200 else 30, scale=0.1, tossing=clients)
    assert coin_trace.largest_loss(system) > 20.0
    result = found(system, claimed=1.0, view=view, confidence=0.95)
    assert result.verdict == "refuted"
    assert 1.0 < result.lower.epsilon <= result.lower.ceiling


def test_more_noise_shows_less() -> None:
    shown = [
        found(CoinSystem(clients=300, scale=scale, tossing=300), math.inf, confidence=0.95).lower.epsilon
        for scale in (0.05, 1.0, 50.0)
    ]
    assert shown[0] > shown[1] > shown[2]


# --- scores ---------------------------------------------------------------------------------------


def test_estimates_are_least_squares_over_their_variance() -> None:
    rng = np.random.default_rng(2)
    differences, left = rng.normal(size=(3, 12)), rng.normal(size=12)
    solved = np.linalg.lstsq(differences.T, left, rcond=None)[0]
    variance = np.diag(np.linalg.inv(differences @ differences.T))
    np.testing.assert_allclose(_estimated(differences, left), (solved - 0.5) / variance, rtol=1e-9)


def test_a_coin_whose_step_is_that_of_others_tells_nothing() -> None:
    rng = np.random.default_rng(3)
    differences = rng.normal(size=(3, 12))
    differences[2] = differences[1]
    estimated = _estimated(differences, rng.normal(size=12))
    assert estimated[0] != 0
    assert np.array_equal(estimated[1:], [0.0, 0.0])
    assert np.array_equal(_estimated(np.zeros((1, 12)), rng.normal(size=12)), [0.0])


def test_without_noise_every_coin_is_read() -> None:
    for summed in (False, True):
        told = scores(CoinSystem(clients=8, rounds=4, tossing=8), summed=summed)
        assert np.array_equal(told.scores["projection"] > 0, told.coins)
    assert "likelihood" not in told.scores  # several coins are in each sum


def test_scores_do_not_depend_on_how_coins_fell_but_through_messages() -> None:
    """With the clicks and coins of the truth replaced by others, the scores stay the same."""
    recorded = store(CoinSystem(clients=8, rounds=2, tossing=5, scale=0.05))
    flipped = replace(recorded, truth=[])
    for truth in recorded.truth:
        coins = np.asarray(truth.coins)
        other = np.where(coins >= 0, 1 - coins, -1)
        clicks = np.where(
            (coins >= 0)[:, np.newaxis], coin_trace.PATTERNS[np.maximum(other, 0)], truth.clicks
        )
        flipped.truth.append(replace(truth, coins=other, clicks=clicks))
    for summed in (False, True):
        pair = []
        for each in (recorded, flipped):
            sums = RoundSums(each)
            seen = score_coins(sums, SumObserver(sums.header, None)) if summed else None
            pair.append(seen or score_coins(each, Observer(each.header, None)))
        assert np.array_equal(pair[0].coins, ~pair[1].coins)
        for name, values in pair[0].scores.items():
            np.testing.assert_array_equal(values, pair[1].scores[name])


def test_a_client_step_scores_as_the_learner_that_it_is() -> None:
    """PDGD as a function of the user, on messages and on sums of them, gives the scores of PDGD."""

    def step(model: Floats, features: Floats, clicks: Floats) -> Floats:
        return 0.1 * foreign_trace.gradient(features @ model, 0.0, clicks.astype(bool), features, "all")

    own, system = as_client_step(step), CoinSystem(clients=5, rounds=2, tossing=3, scale=0.05)
    recorded = store(system)
    unknown = store(system, learning_rate=None, pairs=None, normaliser=None)
    for summed in (False, True):
        usual = scores(system, summed=summed)
        sums = RoundSums(unknown)
        seen = (
            score_coins(sums, SumObserver(sums.header, None, client_step=own))
            if summed
            else score_coins(unknown, Observer(recorded.header, None, client_step=own))
        )
        for name, values in usual.scores.items():
            np.testing.assert_allclose(seen.scores[name], values, rtol=1e-5, atol=1e-6)


def test_lists_of_unknown_clicks_are_projected_out() -> None:
    rng = np.random.default_rng(6)
    hidden, differences, own = rng.normal(size=(4, 20)), rng.normal(size=(2, 20)), np.array([1.0, 0.0])
    left = own @ differences + rng.normal(size=4) @ hidden
    assert not np.allclose(np.linalg.lstsq(differences.T, left, rcond=None)[0], own, atol=1e-3)
    beyond = _beyond(hidden, differences, left)
    np.testing.assert_allclose(np.linalg.lstsq(beyond[0].T, beyond[1], rcond=None)[0], own, atol=1e-9)
    full = _beyond(rng.normal(size=(30, 20)), differences, left)
    assert full[1] is left


# --- bounds ---------------------------------------------------------------------------------------


def test_randomised_response_is_bounded_by_its_epsilon() -> None:
    """Guesses of a mechanism that answers truly with probability e^eps / (1 + e^eps)."""
    rng, epsilon = np.random.default_rng(4), 1.0
    shown = []
    for _ in range(20):
        coins = rng.random(2000) < 0.5
        true = rng.random(2000) < 1.0 / (1.0 + math.exp(-epsilon))
        answer = {"answer": np.where(coins == true, 1.0, -1.0)}
        bounds = guessed(coins, answer, delta=0.0, confidence=MILLIONTH, streams=Streams(1)).bounds
        shown.append(bounds[0].epsilon)
        assert all(bound.epsilon <= epsilon for bound in bounds)
    assert np.mean(shown) > 0.6


def test_few_coins_are_all_guessed_and_show_little() -> None:
    coins = np.arange(12) % 2 == 0
    result = guessed(
        coins, {"one": np.where(coins, 1.0, -1.0)}, delta=0.0, confidence=0.95, streams=Streams(1)
    )
    assert (result.guesses, result.right) == (12, 12)
    assert [bound.estimator for bound in result.bounds] == ["one-run"]
    assert result.bounds[0].epsilon == pytest.approx(result.bounds[0].ceiling)


# --- refusals -------------------------------------------------------------------------------------


def test_says_what_is_missing() -> None:
    system = CoinSystem(clients=4, rounds=1, tossing=4)
    bare = store(system)
    bare.truth[0] = replace(bare.truth[0], canaries=None, coins=None)
    with pytest.raises(UsageError, match="the trace holds no coin; expected a laboratory run"):
        score_coins(bare, Observer(bare.header, None))
    unknown = store(system, learning_rate=None, pairs=None)
    with pytest.raises(UsageError, match="the observer does not know: learning_rate, pairs"):
        score_coins(unknown, Observer(unknown.header, None))
    with pytest.raises(UsageError, match="is not for recorded coins; did you mean"):
        CoinAudit(claimed=1.0, delta=0.0, confidence=0.95, estimator="one-run-fdp", streams=Streams(1))
    with pytest.raises(UsageError, match="--view: 'colluding' is not for recorded coins"):
        found(system, 1.0, view="colluding")
