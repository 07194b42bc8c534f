"""DBGD: the kernel against plain NumPy, what moves it and what does not."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from foltr_audit.core.plugins import Users
from foltr_audit.simulation.learners.dbgd import DBGD
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.fixtures.plain_interleaving import chances, drafted, independent_law, outcome, place_odds
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
    padded,
    played,
    scores_of,
    searching,
)
from tests.fixtures.reference import normals, numba_threads
from tests.fixtures.tiny import FEATURES, dataset

Kind = Literal["team-draft", "probabilistic"]
KINDS: tuple[Kind, ...] = ("team-draft", "probabilistic")
EMPTY = np.empty(0)


def ranked(scores: Floats) -> list[int]:
    return sorted(range(scores.size), key=lambda i: (-scores[i], i))


def drawn(current: list[int], candidate: list[int], u: Floats) -> list[int]:
    """A list of probabilistic interleaving: each place by inverting the ranker's distribution function."""
    shown: list[int] = []
    for place in range(min(K, len(current))):
        share = chances(candidate if u[2 * place] >= 0.5 else current, shown)
        passed = np.searchsorted(np.cumsum(list(share.values())), u[2 * place + 1], side="right")
        shown.append(list(share)[passed])
    return shown


def interaction(learner: DBGD, users: Users, query: int, i: int, model: Floats) -> tuple[Floats, Ints, Bools]:
    """The model after one interaction, the list and the clicks."""
    show = users.streams("show").uniform(2 * K)[i]
    click = users.streams(users.clicks).uniform(2 * K)[i]
    stream = users.streams("dbgd/direction")
    names = (stream.round, stream.purpose_code, np.uint64(stream.key))
    n = normals(model.size, stream.clients[i : i + 1], *names)
    u = n[0] / np.sqrt((n[0] ** 2).sum())
    current = ranked(scores_of(users.data, query, model))
    candidate = ranked(scores_of(users.data, query, model + learner.delta * u))
    if learner.interleaving == "team-draft":
        shown, teams = drafted(current, candidate, [bool(coin) for coin in show >= 0.5], K)
        odds = [float(team) for team in teams]
    else:
        shown = drawn(current, candidate, show)
        odds = place_odds(current, candidate, shown)
    clicks = cascade(users, query, padded(shown), click)
    won = outcome(independent_law([p for p, clicked in zip(odds, clicks, strict=False) if clicked])) > 0
    return model + learner.learning_rate * u * won, padded(shown), clicks


@pytest.mark.parametrize("clicking", [PERFECT, NAVIGATIONAL, INFORMATIONAL])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e12])
def test_it_is_the_plain_algorithm(kind: Kind, clicking: Clicking, scale: float) -> None:
    """Lists, clicks and models of two rounds, from equal scores, usual ones and huge ones."""
    learner = DBGD(interleaving=kind, delta=0.8, learning_rate=0.3)
    model = np.linspace(-1.0, 1.3, FEATURES) * scale
    moved = 0
    for round_, done in enumerate(played(learner, (0, 1), model, EMPTY, clicking=clicking)):
        users, queries = searching(round_=round_, clicking=clicking), asked(DATA, 20, round_)
        for i, query in enumerate(queries):
            before = model
            model, shown, clicks = interaction(learner, users, query, i, model)
            moved += bool((model != before).any())
            assert done.shown[i].tolist() == shown.tolist()
            assert done.clicks[i].tolist() == clicks.tolist()
        np.testing.assert_allclose(done.parameters, model, rtol=1e-12, atol=1e-12)
        assert done.state.size == 0
    assert moved > 3 or scale > 1


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_can_be_resumed_and_threads_change_no_byte(kind: Kind) -> None:
    learner, start = DBGD(interleaving=kind), np.zeros(FEATURES)
    with numba_threads(1):
        expected = played(learner, range(4), start, EMPTY)
    with numba_threads(2):
        half = played(learner, range(2), start, EMPTY)
        rest = played(learner, range(2, 4), half[-1].parameters.copy(), half[-1].state.copy())
    assert all_bytes([*half, *rest]) == all_bytes(expected)
    assert all_bytes(played(learner, range(4), start, EMPTY, seed=2)) != all_bytes(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_without_clicks_nothing_moves(kind: Kind) -> None:
    start = np.linspace(-1.0, 1.0, FEATURES)
    start.flags.writeable = False
    done = played(DBGD(interleaving=kind), range(2), start, EMPTY, clicking=NEVER)
    assert all(one.parameters.tobytes() == start.tobytes() for one in done)
    assert not any(one.clicks.any() for one in done)
    none = played(DBGD(interleaving=kind), [0], start, EMPTY, n=0)[0]
    assert none.parameters.tobytes() == start.tobytes()
    assert none.shown.shape == none.clicks.shape == (0, K)


def test_queries_with_one_document() -> None:
    data = dataset((1, 1, 1), 9)
    start = np.ones(FEATURES)
    done = played(DBGD(interleaving="probabilistic"), [0], start, EMPTY, data=data, clicking=ALWAYS)[0]
    assert (done.shown == padded([0])).all()
    assert (done.clicks == (padded([0]) == 0)).all()
    assert done.parameters.tobytes() == start.tobytes()
