"""COLTR: the kernel against plain NumPy, resumed winners, and lists that nobody can win."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from foltr_audit.core.plugins import RoundContext, Users
from foltr_audit.core.records import Dataset
from foltr_audit.errors import UsageError
from foltr_audit.simulation.learners.coltr import COLTR
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.fixtures.plain_searches import (
    ALWAYS,
    DATA,
    INFORMATIONAL,
    NAVIGATIONAL,
    NEVER,
    PERFECT,
    Clicking,
    K,
    all_bytes,
    asked,
    cascade,
    features_of,
    padded,
    played,
    scores_of,
    searching,
)
from tests.fixtures.reference import normals, numba_threads
from tests.fixtures.tiny import FEATURES, dataset
from tests.simulation.test_rounds import drawn_list

START = np.linspace(-0.7, 1.0, FEATURES)
FIRST_CLICK: Clicking = ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
TIE = 1e-12  # candidates this near to the current ranker are taken as equal to it


class Memory(NamedTuple):
    """Model, updates so far, the last winners and their ids."""

    model: Floats
    updates: int
    winners: Floats
    ids: list[tuple[int, int, int]]


def sampled(scores: Floats, u: Floats) -> list[int]:
    """A Plackett-Luce list: each place by inverting the distribution function of what is left."""
    return [int(place) for place in drawn_list(scores, u)]


def log_softmax(scores: Floats) -> Floats:
    """Over the last axis."""
    centred = scores - scores.max(axis=-1, keepdims=True)
    logs: Floats = centred - np.log(np.exp(centred).sum(axis=-1, keepdims=True))
    return logs


def pessimistic(weights: Floats, costs: Floats, gamma: float) -> Floats:
    """`SNIPS + gamma sqrt(Var / k)` of rankers with weights (..., k)."""
    snips = (weights * costs).sum(axis=-1) / weights.sum(axis=-1)
    variance = ((costs - snips[..., np.newaxis]) ** 2 * weights**2).sum(axis=-1) / (weights**2).sum(axis=-1)
    bound: Floats = snips + gamma * np.sqrt(variance / costs.size)
    return bound


def winning(learner: COLTR, X: Floats, model: Floats, u: Floats, shown: list[int], clicks: Bools) -> Bools:
    """Which of the candidates `theta + step u_m` win, by propensities over all documents of the query."""
    clicked = np.flatnonzero(clicks)
    ranks = np.arange(len(shown))
    costs = np.asarray((ranks < clicked[-1]) & ~clicks[: len(shown)], dtype=np.float64)
    logging = log_softmax((X * model).sum(axis=1))
    proposed = log_softmax(((model + learner.step * u)[:, np.newaxis] * X).sum(axis=-1))
    logs = (proposed - logging)[:, shown]
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    current = pessimistic(np.ones(len(shown)), costs, learner.gamma)
    wins: Bools = pessimistic(weights, costs, learner.gamma) < current - TIE
    return wins


def fresh(learner: COLTR, users: Users, i: int, size: int) -> Floats:
    """The unit vectors of all places of an interaction, (candidates, P)."""
    stream, width = users.streams("coltr/directions"), size + size % 2
    code, key = stream.purpose_code, np.uint64(stream.key)
    n = normals(learner.candidates * width, stream.clients[i : i + 1], stream.round, code, key)
    n = n.reshape(learner.candidates, width)[:, :size]
    unit: Floats = n / np.sqrt((n * n).sum(axis=1, keepdims=True))
    return unit


def interaction(
    learner: COLTR, users: Users, query: int, i: int, before: Memory
) -> tuple[Memory, Ints, Bools]:
    """What one interaction makes of the memory, its list and its clicks."""
    model, data = before.model, users.data
    show = users.streams("show").uniform(K)[i]
    shown = sampled(scores_of(data, query, model) / learner.tau, show)
    clicks = cascade(users, query, padded(shown), users.streams(users.clicks).uniform(2 * K)[i])
    if not clicks.any():
        return before, padded(shown), clicks
    u = fresh(learner, users, i, model.size)
    ids = [(users.context.round, i, m) for m in range(learner.candidates)]
    u[: len(before.ids)], ids[: len(before.ids)] = before.winners, before.ids
    wins = winning(learner, features_of(data, query), model, u, shown, clicks)
    if not wins.any():
        return before, padded(shown), clicks
    rate = learner.learning_rate * learner.decay**before.updates
    kept = [ids[m] for m in np.flatnonzero(wins)]
    after = Memory(model + rate * u[wins].mean(axis=0), before.updates + 1, u[wins], kept)
    return after, padded(shown), clicks


def told(memory: Memory, candidates: int) -> list[float]:
    """The state that the memory is kept in."""
    ids = [float((r * 2**22 + client) * 2**10 + m) for r, client, m in memory.ids]
    return [float(memory.updates), *ids, *[-1.0] * (candidates - len(ids))]


@pytest.mark.parametrize("clicking", [PERFECT, NAVIGATIONAL, INFORMATIONAL])
@pytest.mark.parametrize(
    ("learner", "scale"),
    [
        (COLTR(), 1.0),
        (COLTR(), 0.0),
        (COLTR(), 1e9),
        (COLTR(candidates=3, tau=0.1, learning_rate=1.0, decay=0.5), 1.0),
        (COLTR(candidates=130, gamma=0.0, step=4.0), 2.0),
        (COLTR(candidates=64, gamma=3.0, step=1e4), 1.0),
    ],
)
def test_it_is_the_plain_algorithm(learner: COLTR, scale: float, clicking: Clicking) -> None:
    """Lists, clicks, models and winners of three rounds; a plain memory keeps unit vectors, not their ids."""
    memory = Memory(START * scale, 0, np.empty((0, FEATURES)), [])
    state = learner.first_state(FEATURES)
    for round_, done in enumerate(played(learner, range(3), memory.model, state, clicking=clicking)):
        users = searching(round_=round_, clicking=clicking)
        for i, query in enumerate(asked(DATA, 20, round_)):
            memory, shown, clicks = interaction(learner, users, query, i, memory)
            assert done.shown[i].tolist() == shown.tolist()
            assert done.clicks[i].tolist() == clicks.tolist()
        np.testing.assert_allclose(done.parameters, memory.model, rtol=1e-12, atol=1e-12)
        assert done.state.tolist() == told(memory, learner.candidates)
    assert memory.updates > 3


def test_rounds_can_be_resumed_and_threads_change_no_byte() -> None:
    learner = COLTR()
    first = learner.first_state(FEATURES)
    with numba_threads(1):
        expected = played(learner, range(4), START, first)
    with numba_threads(2):
        half = played(learner, range(2), START, first)
        state = np.array([float(repr(float(value))) for value in half[-1].state])
        rest = played(COLTR(), range(2, 4), half[-1].parameters.copy(), state)
    assert all_bytes([*half, *rest]) == all_bytes(expected)
    assert (half[-1].state[1:] >= 0).sum() > 20
    forgotten = np.concatenate([state[:1], first[1:]])
    assert all_bytes(played(learner, range(2, 4), half[-1].parameters, forgotten)) != all_bytes(rest)


def test_ids_are_exact_up_to_the_last_round_and_client() -> None:
    """A winner of the very last id is drawn again exactly: both ways lead to the same model."""
    learner, last = COLTR(candidates=1000), (2**21 - 2, 2**22 - 1)
    queries = np.array([5])

    def numbered(round_: int, client: int) -> Users:
        users = searching(clicking=ALWAYS if round_ != last[0] else NAVIGATIONAL)
        context: RoundContext = replace(
            users.context, round=round_, clients=np.array([client]), counts=np.ones(1, dtype=np.int64)
        )
        return replace(users, context=context, click=np.array([0.5, 0.5, 0.5]), stop=np.zeros(3))

    done = learner.learn(numbered(*last), queries, START, learner.first_state(FEATURES))
    ids = done.state[1:][done.state[1:] >= 0]
    assert ids.size > 100
    assert ids.max() < 2**53
    places = ids.astype(np.int64) % 2**10
    assert (ids.astype(np.int64) >> 10 == last[0] * 2**22 + last[1]).all()
    u = fresh(learner, numbered(*last), 0, FEATURES)[places]
    np.testing.assert_allclose(done.parameters, START + 0.1 * u.mean(axis=0), rtol=1e-12)
    again = learner.learn(numbered(last[0] + 1, 3), queries, done.parameters, done.state)
    kept = again.state[1:][again.state[1:] >= 0]
    assert np.isin(kept, ids).any()
    vectors = fresh(learner, numbered(last[0] + 1, 3), 0, FEATURES)
    vectors[: ids.size] = u
    of_id = {**dict(zip(ids, u, strict=True))}
    base = ((last[0] + 1) * 2**22 + 3) * 2**10
    moved = np.mean([of_id[one] if one in of_id else vectors[int(one) - base] for one in kept], axis=0)
    np.testing.assert_allclose(again.parameters - done.parameters, 0.1 * 0.99966 * moved, rtol=0, atol=1e-13)


def test_numbers_too_large_for_an_id_are_refused() -> None:
    learner = COLTR()
    for round_, client in ((2**21, 0), (0, 2**22)):
        users = searching(n=1, round_=round_)
        users = replace(users, context=replace(users.context, clients=np.array([client])))
        with pytest.raises(UsageError, match="expected less than 2097152 rounds and 4194304 interactions"):
            learner.learn(users, np.array([1]), START, learner.first_state(FEATURES))


# --- nobody can win -----------------------------------------------------------------------------------


def unmoved(data: Dataset, clicking: Clicking, *, n: int = 20) -> bool:
    """Whether model and state, winners in it included, stay as they were."""
    learner = COLTR(candidates=80)
    before = played(learner, [0], START, learner.first_state(FEATURES))[0]
    done = played(learner, [1, 2], before.parameters, before.state, data=data, clicking=clicking, n=n)
    kept = (before.parameters.tobytes(), before.state.tobytes())
    return all((one.parameters.tobytes(), one.state.tobytes()) == kept for one in done)


@pytest.mark.parametrize("clicking", [NEVER, ALWAYS, FIRST_CLICK])
def test_a_list_without_costs_changes_nothing(clicking: Clicking) -> None:
    """No click, all clicked, or the first alone: every ranker's estimate is 0, as the plain form agrees."""
    assert unmoved(DATA, clicking)
    assert not unmoved(DATA, INFORMATIONAL)
    if clicking is not NEVER:
        learner = COLTR()
        users = searching(clicking=clicking)
        u = fresh(learner, users, 0, FEATURES)
        clicks = cascade(users, 1, padded(range(10)), np.full(20, 0.5))
        assert clicks.any()
        assert not winning(learner, features_of(DATA, 1), START, u, list(range(10)), clicks).any()


def test_documents_that_look_alike_change_nothing() -> None:
    """All weights are equal then, and no rounding makes a winner of anybody."""
    data = dataset((5, 12, 3, 30), 3)
    rows = 7.3 * np.repeat(data.features[:4].astype(np.float32), np.diff(data.offsets), axis=0)
    assert unmoved(data.with_features(rows), INFORMATIONAL, n=60)


def test_queries_with_one_document_and_rounds_without_interactions_change_nothing() -> None:
    assert unmoved(dataset((1, 1, 1), 9), ALWAYS)
    assert unmoved(DATA, INFORMATIONAL, n=0)
