"""FLTrust: against plain loops, what no message can do, and what the server learns by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Dataset
from foltr_audit.errors import UsageError
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.training import ServerLearning
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES, context

P = 4
START = np.linspace(-0.4, 0.5, FEATURES)
seeds = st.integers(0, 10**6)


def drawn(seed: int) -> tuple[Floats, Floats]:
    """Updates of six clients, (6, P), of very different lengths, and the server's own update."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(6, P)) * rng.choice([1e-3, 1.0, 1e3], size=(6, 1)), rng.normal(size=P)


def trusted(updates: Floats, own: Floats, message: Literal["model", "update"] = "update") -> Floats:
    """What the rule makes of messages of a round whose global model is far from 0."""
    here = replace(context(range(len(updates)), P=P), message=message, server_update=own)
    weights = np.full(len(updates), 1 / len(updates))
    return make(Defense, "fltrust").on_aggregate(weights @ updates, updates, weights, here)


def by_hand(updates: Sequence[Sequence[float]], own: Sequence[float]) -> list[float]:
    """Algorithm 2 of the source, by plain loops."""
    length, total, moved = math.sqrt(sum(x * x for x in own)), 0.0, [0.0] * len(own)
    for one in updates:
        size = math.sqrt(sum(x * x for x in one))
        score = max(0.0, sum(a * b for a, b in zip(one, own, strict=True)) / (size * length))
        total += score
        moved = [m + score * length / size * x for m, x in zip(moved, one, strict=True)]
    return [m / total for m in moved] if total else moved


@settings(max_examples=60, derandomize=True)
@given(seed=seeds)
def test_it_follows_the_source(seed: int) -> None:
    updates, own = drawn(seed)
    np.testing.assert_allclose(trusted(updates, own), by_hand(updates.tolist(), own.tolist()), atol=1e-12)


@settings(max_examples=30, derandomize=True)
@given(seed=seeds, factor=st.sampled_from([1e-6, 7.0, 1e6]))
def test_the_length_of_a_message_is_without_effect(seed: int, factor: float) -> None:
    updates, own = drawn(seed)
    longer = updates * np.where(np.arange(6) == 2, factor, 1.0)[:, np.newaxis]
    np.testing.assert_allclose(trusted(longer, own), trusted(updates, own), rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(trusted(updates, own)) <= np.linalg.norm(own) * (1 + 1e-12)


def test_updates_that_point_away_are_left_out() -> None:
    own = np.array([1.0, 0, 0, 0])
    with_others = np.array([[2.0, 0, 0, 0], [-9.0, 1, 0, 0], [0.0, 3, 0, 0]])
    np.testing.assert_array_equal(trusted(with_others, own), own)
    np.testing.assert_array_equal(trusted(-with_others[:1], own), np.zeros(P))  # nobody is trusted
    np.testing.assert_array_equal(trusted(np.zeros((2, P)), own), np.zeros(P))
    np.testing.assert_array_equal(trusted(with_others, np.zeros(P)), np.zeros(P))


def test_models_are_compared_with_the_global_one() -> None:
    updates, own = drawn(3)
    start = context([0], P=P).parameters
    assert start.any()
    expected = start + trusted(updates, own)
    np.testing.assert_allclose(trusted(start + updates, own, "model"), expected, atol=1e-9)


def test_the_server_learns_from_its_own_queries_alone(setup_of: SetupOf) -> None:
    setup = setup_of(defense=("fltrust:queries=1",))
    learning = ServerLearning(setup)
    train: Dataset = setup.collection.train
    (query,) = learning.queries.tolist()
    updates = [learning.update(setup.context(round_, np.arange(2), 1, START)) for round_ in range(20)]
    moved = np.array([update for update in updates if update is not None and update.any()])
    assert len(moved) > 0
    documents = train.features[train.offsets[query] : train.offsets[query + 1]].astype(np.float64)
    apart = documents - documents.mean(axis=0)
    left = moved.T - apart.T @ np.linalg.lstsq(apart.T, moved.T, rcond=None)[0]
    np.testing.assert_allclose(left, 0, atol=1e-9)
    relevant = train.labels[train.offsets[query] : train.offsets[query + 1]] > 0
    # Scores of relevant documents rise against those of others, on average over lists.
    risen = (documents @ moved.T).mean(axis=1)
    assert risen[relevant].mean() > risen[~relevant].mean()


def test_clients_act_as_without_the_server_s_queries(setup_of: SetupOf) -> None:
    def first(*defense: str) -> tuple[Floats, Floats]:
        played = next(iter(Federation(setup_of(defense=defense)).rounds(START)))
        return np.asarray(played.sent.messages), played.after.parameters

    plain, mean = first("none")
    sent, after = first("fltrust:queries=5")
    np.testing.assert_array_equal(sent, plain)
    assert np.abs(after - mean).max() > 1e-6


def test_it_is_refused_behind_secure_aggregation(setup_of: SetupOf) -> None:
    setup = setup_of(defense=("clip:norm=2", "secure-aggregation", "fltrust"))
    with pytest.raises(UsageError, match="needs single messages, but the server has only their sum"):
        next(iter(Federation(setup).rounds(START)))
    with pytest.raises(UsageError, match="queries"):
        make(Defense, "fltrust:queries=0")
