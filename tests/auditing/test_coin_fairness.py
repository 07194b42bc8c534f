"""Coins that are not fair, or not independent, are refused: no bound from guesses would hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from foltr_audit.auditing.coin_audit import CoinAudit
from foltr_audit.auditing.coin_fairness import refuse_unfair
from foltr_audit.errors import UsageError
from foltr_audit.judge.observer import Observer
from foltr_audit.rng import Streams
from tests.auditing.test_coin_audit import store
from tests.fixtures.coin_trace import CoinSystem

QUIET = CoinSystem(clients=30, rounds=2, tossing=30, scale=1000.0)  # noise that hides everything


def test_fair_coins_are_accepted() -> None:
    """Each of 200 draws is refused once in a million."""
    rng = np.random.default_rng(5)
    for size in (1, 2, 20, 700):
        for _ in range(50):
            refuse_unfair(rng.random(size) < 0.5, rng.integers(10, size=size))
    refuse_unfair(np.zeros(0, np.bool_), np.zeros(0, np.int64))


@pytest.mark.parametrize(
    ("coins", "problem"),
    [
        (np.zeros(40, np.bool_), "0 of 40 coins are 1"),
        (np.arange(40) < 20, "38 of 39 coins are equal to the coin before"),
        (np.arange(40) % 2 == 1, "0 of 39 coins are equal to the coin before"),
        (
            np.tile(np.random.default_rng(2).random(20) < 0.5, 3),
            "40 of 40 coins are equal to the coin before of the same client",
        ),
    ],
)
def test_other_coins_are_refused(coins: np.ndarray, problem: str) -> None:
    with pytest.raises(UsageError, match=f"audit: {problem}; expected independent fair coins"):
        refuse_unfair(coins, np.arange(coins.size) % 20)


def test_coins_that_always_fall_alike_refute_no_claim() -> None:
    """Guesses of 0 would be right for all of them, whatever the messages show."""
    recorded = store(QUIET)
    audit = CoinAudit(claimed=1.0, delta=0.0, confidence=0.95, estimator="one-run", streams=Streams(1))
    alike = replace(recorded, truth=[])
    for truth in recorded.truth:
        patterns = np.stack([truth.clicks, ~truth.clicks], axis=1)
        alike.truth.append(replace(truth, canaries=patterns, coins=np.zeros(30, np.int8)))
    for view in ("individual", "aggregate"):
        with pytest.raises(UsageError, match="0 of 60 coins are 1"):
            audit.finding(alike, Observer(alike.header, None), view)


def test_a_coin_between_equal_patterns_is_none() -> None:
    recorded = store(QUIET)
    same = replace(recorded, truth=[])
    for truth in recorded.truth:
        patterns = np.array(truth.canaries)
        patterns[5:] = np.asarray(truth.clicks)[5:, np.newaxis]
        same.truth.append(replace(truth, canaries=patterns))
    audit = CoinAudit(claimed=1.0, delta=0.0, confidence=0.95, estimator="one-run", streams=Streams(1))
    assert audit.finding(same, Observer(same.header, None), "individual").coins == 10
    bare = replace(recorded, truth=[])
    for truth in recorded.truth:
        bare.truth.append(replace(truth, canaries=np.stack([truth.clicks, truth.clicks], axis=1)))
    with pytest.raises(UsageError, match="holds no coin"):
        audit.finding(bare, Observer(bare.header, None), "individual")
