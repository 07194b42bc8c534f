"""Canaries: neighbouring logs that a search finds, against every pair of logs looked at one by one."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from foltr_audit.auditing import canaries
from foltr_audit.auditing.canaries import CanarySearch, LogCanary, message_canaries
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.core.plugins import Defense, ModelLearner, RoundContext
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import UsageError
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.setup import Setup, learner_as
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.audits import ToyClip, ToyLaplace
from tests.fixtures.tiny import FEATURES

MODEL = np.linspace(-0.3, 0.3, FEATURES)
LEARNERS = ("fpdgd:pairs=all,normaliser=shown", "fpdgd")


Key = tuple[int, tuple[int, ...]]


def search_of(setup: Setup, interactions: int = 1, order: int = 1) -> CanarySearch:
    """A search over queries of few documents, whose pairs of logs are few enough for brute force."""
    fresh = FreshClients(setup, AttackSpec(on=("train", "vali", "test"), min_documents=3))
    short = fresh.queries[fresh.data.lengths[fresh.queries] <= 6]
    assert short.size >= 2
    vars(fresh)["queries"] = short
    return CanarySearch(GameClients(setup, fresh.data, MODEL), fresh, interactions, order)


def every_message(search: CanarySearch) -> dict[Key, np.ndarray[Any, Any]]:
    """The message of every click log, by the learner's own step: an independent way to play a client."""
    setup, data = search.clients.setup, search.clients.data
    found = {}
    for query in search.fresh.queries.tolist():
        asked = np.array([query])
        scores, starts = setup.ranker.scores(MODEL[np.newaxis], data, asked)
        order = np.argsort(-scores, kind="stable")[:10]
        shown = np.full((1, 10), -1)
        shown[0, : order.size] = order
        for number in range(2**order.size):
            clicks = np.array([[number >> place & 1 == 1 for place in range(10)]])
            learner = learner_as(setup.learner, ModelLearner)
            after, _ = learner.local_step(
                MODEL[np.newaxis], data, asked, scores, starts, shown, clicks, setup.ranker
            )
            key = tuple(int(place) for place in np.flatnonzero(clicks[0]))
            found[query, key] = after[0]
    return found


def log_key(canary: LogCanary, which: int) -> Key:
    return int(canary.queries[which, 0]), tuple(np.flatnonzero(canary.clicks[which, 0]).tolist())


def are_neighbours(a: Key, b: Key, unit: str) -> bool:
    same_query, flips = a[0] == b[0], len(set(a[1]) ^ set(b[1]))
    if unit == "client":
        return True
    return same_query and (unit != "click" or flips == 1)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("unit", ["click", "interaction", "query", "client"])
def test_no_neighbours_are_farther_apart(setup_of: SetupOf, learner: str, order: int, unit: str) -> None:
    search = search_of(setup_of(learner=learner), order=order)
    messages = every_message(search)
    canary = search.find("data:worst", unit)
    assert isinstance(canary, LogCanary)
    zero, one = log_key(canary, 0), log_key(canary, 1)
    assert are_neighbours(zero, one, unit)

    def apart(a: Key, b: Key) -> float:
        return float(np.linalg.norm(messages[a] - messages[b], ord=order))

    farthest = max(apart(a, b) for a, b in combinations(messages, 2) if are_neighbours(a, b, unit))
    assert apart(zero, one) == pytest.approx(farthest, rel=1e-9)
    assert f"L{order} shift {farthest:.3g}" in canary.about


@pytest.mark.parametrize("unit", ["click", "interaction", "client"])
def test_a_client_without_clicks(setup_of: SetupOf, unit: str) -> None:
    search = search_of(setup_of(learner=LEARNERS[0]))
    messages, canary = every_message(search), search.find("data:no-click", unit)
    assert isinstance(canary, LogCanary)
    assert not canary.clicks[0].any()
    most = 1 if unit == "click" else 10
    shifts = {key: np.abs(m - MODEL).sum() for key, m in messages.items() if len(key[1]) <= most}
    assert shifts[log_key(canary, 1)] == pytest.approx(max(shifts.values()), rel=1e-9)


@pytest.mark.parametrize("unit", ["click", "interaction", "client"])
def test_typical_neighbours(setup_of: SetupOf, unit: str) -> None:
    seen = set()
    for seed in range(5):
        canary = search_of(setup_of(seed=seed)).find("data:typical", unit)
        assert isinstance(canary, LogCanary)
        assert are_neighbours(log_key(canary, 0), log_key(canary, 1), unit)
        assert np.any(canary.clicks[0] != canary.clicks[1])
        assert "random" in canary.about
        seen.add((log_key(canary, 0), log_key(canary, 1)))
    assert len(seen) > 1


@pytest.mark.parametrize(("unit", "changed"), [("click", 1), ("interaction", 1), ("query", 3), ("client", 3)])
def test_several_interactions(setup_of: SetupOf, unit: str, changed: int) -> None:
    canary = search_of(setup_of(), interactions=3).find("data:worst", unit)
    assert isinstance(canary, LogCanary)
    assert canary.queries.shape == (2, 3)
    differ = np.any(canary.clicks[0] != canary.clicks[1], axis=1) | (canary.queries[0] != canary.queries[1])
    assert differ.sum() == changed


def test_chains_that_differ_in_noise_share_a_search(
    setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another clip, learner, model or norm needs one of its own, and each finds what it finds alone."""
    monkeypatch.setattr(canaries, "_found", {})
    clip, noise = "clip:norm=1", "gaussian:sigma={}"
    first = search_of(setup_of(defense=(clip, noise.format(1)))).find("data:worst", "interaction")
    again = search_of(setup_of(defense=(clip, noise.format(2)))).find("data:worst", "interaction")
    assert again is first
    for other in (
        search_of(setup_of(defense=("clip:norm=0.01", noise.format(1)))),
        search_of(setup_of(defense=(clip, noise.format(1)), learner=LEARNERS[1])),
        search_of(setup_of(defense=(clip, noise.format(1))), order=2),
        search_of(setup_of(defense=(clip, noise.format(1))), interactions=2),
        search_of(setup_of(defense=(clip, noise.format(1)), seed=2)),
    ):
        found = other.find("data:worst", "interaction")
        assert found is not first
        monkeypatch.setattr(canaries, "_found", {})
        alone = other.find("data:worst", "interaction")
        assert alone.about == found.about
        assert alone.shift == found.shift


class LearnsNothing(Defense):
    """Takes every model back to the global one."""

    name = "toy-still"

    def on_step(self, parameters: Floats, context: RoundContext) -> Floats:
        return np.tile(context.parameters, (parameters.shape[0], 1))


@pytest.mark.parametrize("unit", ["click", "interaction", "client"])
@pytest.mark.parametrize("name", ["data:worst", "data:no-click"])
def test_what_makes_no_message_is_refused(setup_of: SetupOf, name: str, unit: str) -> None:
    with pytest.raises(UsageError, match=rf"--canary {name}: no two logs .* one {unit} send different"):
        search_of(setup_of(chain=(LearnsNothing(),))).find(name, unit)


def test_extreme_models_are_brought_in_by_the_clip(setup_of: SetupOf) -> None:
    setup = setup_of(chain=(ToyClip(norm=2.0), ToyLaplace()))
    clients = GameClients(setup, setup.collection.test, MODEL)
    canaries = list(message_canaries(setup.privacy.events(), MODEL))
    assert len(canaries) == 2
    for canary in canaries:
        local = canary.play(clients, np.array([0, 1, 1]), clients.context(0, np.arange(3))).models
        np.testing.assert_allclose(np.abs(local).sum(axis=1), 2.0)
        np.testing.assert_allclose(local[0], -local[1])
        np.testing.assert_array_equal(local[1], local[2])
    off = setup_of(chain=(ToyClip(norm=2.0, broken=True), ToyLaplace()))
    others = GameClients(off, off.collection.test, MODEL)
    far = canaries[0].play(others, np.array([0, 1]), clients.context(0, np.arange(2))).models
    assert np.abs(far).sum(axis=1).min() > 100
    with pytest.raises(UsageError, match="the chain does not clip"):
        list(message_canaries((), MODEL))
