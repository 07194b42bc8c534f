"""Canaries: neighbouring logs that a search finds, against every pair; models that they are played on."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.auditing import canaries
from foltr_audit.auditing.audit import Audit
from foltr_audit.auditing.canaries import (
    CanarySearch,
    LogCanary,
    farthest_flip,
    farthest_pair,
    message_canaries,
)
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.core.plugins import Ball, Defense, ModelLearner, RoundContext
from foltr_audit.core.results import AuditRecord
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.folder import RunFolder
from foltr_audit.experiments.stages import first_model, train
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.setup import Setup, learner_as
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.audits import ToyClip, ToyLaplace, leave_out_law_tests
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


class Away(Defense):
    """Says that it keeps models in a ball, and moves them away from it."""

    name = "toy-away"

    @property
    def ball(self) -> Ball:
        return Ball(norm=0.01, ord=1)

    def on_step(self, parameters: Floats, context: RoundContext) -> Floats:
        return parameters + np.sign(parameters)


@pytest.mark.parametrize("chain", [(), (ToyClip(norm=0.5),), (Away(),)])
@pytest.mark.parametrize("always", ["true", "false"])
@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=3"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_all_patterns_are_played_as_one_client_after_the_other_does(
    setup_of: SetupOf, learner: str, ranker: str, always: str, chain: tuple[Defense, ...]
) -> None:
    """Also where a link does something else than the ball that it declares."""
    settings = f"{learner}{',' if ':' in learner else ':'}clip_without_pairs={always}"
    setup = setup_of(learner=settings, train={"ranker": ranker}, chain=chain)
    data = setup.collection.train
    rng = np.random.default_rng(1)
    model = rng.normal(size=setup.ranker.n_parameters)
    clients, queries = GameClients(setup, data, model), np.arange(3)
    widths = (clients.lists(queries) >= 0).sum(axis=1).tolist()
    clicks = [canaries._patterns(width) for width in widths]
    asked = np.repeat(queries, [len(each) for each in clicks])
    context = clients.context(0, np.arange(asked.size))
    played = clients.play(asked[:, np.newaxis], np.concatenate(clicks)[:, np.newaxis], context)
    found = clients.play_patterns(queries, clicks, context)
    np.testing.assert_allclose(found, played.models, rtol=1e-9, atol=1e-12)
    assert np.unique(found, axis=0).shape[0] > queries.size


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


FLAT, STEEP = np.zeros(FEATURES), np.linspace(-5, 5, FEATURES)


def found(setup_of: SetupOf, canary: str, *names: str, steep_first: bool = False) -> AuditRecord:
    first, trained = (STEEP, FLAT) if steep_first else (FLAT, STEEP)
    protocol = AuditSpec(models=names, canaries=(canary,), trials=50, min_documents=4, views=("individual",))
    audit = Audit(setup_of(chain=(ToyClip(norm=1e6), ToyLaplace())), protocol)
    several = {"first": [first], "trained": [trained]}
    with pytest.MonkeyPatch.context() as patch:
        leave_out_law_tests(patch)
        (only,) = audit.findings({name: several[name] for name in names})
    return only


@pytest.mark.parametrize("canary", ["data:worst", "data:no-click"])
@pytest.mark.parametrize("steep_first", [False, True])
def test_the_model_with_the_larger_shift_is_played(setup_of: SetupOf, canary: str, steep_first: bool) -> None:
    alone = [
        found(setup_of, canary, name, steep_first=steep_first).exact or 0.0 for name in ("first", "trained")
    ]
    both = found(setup_of, canary, "first", "trained", steep_first=steep_first)
    assert alone[0] != alone[1]
    assert both.exact == max(alone)
    assert both.model == ("first", "trained")[int(np.argmax(alone))]


def test_a_typical_pair_is_played_at_the_last_model(setup_of: SetupOf) -> None:
    assert found(setup_of, "data:typical", "first", "trained").model == "trained"
    assert found(setup_of, "data:typical", "first").model == "first"


def test_models_along_a_run_are_those_that_shorter_runs_end_with(setup_of: SetupOf, tmp_path: Path) -> None:
    ends = {rounds: train(setup_of(rounds=rounds)).parameters for rounds in (1, 3, 4)}
    longest = setup_of(rounds=4)
    expected = [first_model(longest), ends[1], ends[3], ends[4]]
    np.testing.assert_array_equal(train(longest, along=4).along, expected)
    few = setup_of(rounds=1)
    np.testing.assert_array_equal(train(few, along=3).along, [first_model(few)] * 2 + [ends[1]])
    for resume in (False, True):  # the second time its rounds are read from the folder
        folder = RunFolder.create(tmp_path / "run", longest.spec, resume=resume)
        np.testing.assert_array_equal(train(longest, folder, along=4).along, expected)


def test_each_of_several_messages_starts_from_the_model_of_its_round(setup_of: SetupOf) -> None:
    """A pair whose shift is larger at one model than at the other loses both of its losses together."""
    client: dict[str, Any] = {"units": ("query",), "views": ("individual",), "trials": 50, "min_documents": 4}
    setup = setup_of(chain=(ToyClip(norm=1e6), ToyLaplace()))
    several = Audit(setup, AuditSpec(**client, messages=2))
    (pooled,) = several.findings({"rounds": [FLAT, STEEP]})
    assert pooled.model == "rounds"
    canary = several.session([FLAT, STEEP]).canary("data:worst", "query")
    losses = []
    for model in (FLAT, STEEP):
        alone = Audit(setup, AuditSpec(**client)).session([model])
        losses.append(alone.exact(canary, "individual", 0.0))
    assert losses[0] != losses[1]
    assert pooled.exact == pytest.approx(sum(loss or 0.0 for loss in losses))


def distances(points: Floats, order: int) -> Floats:
    """Every distance of two points, (n, n)."""
    differences = points[:, np.newaxis] - points[np.newaxis]
    return np.asarray(np.linalg.norm(differences, ord=order, axis=2))


def points_of(seed: int, n: int, P: int) -> Floats:
    """Points with heavy tails, some of them twice."""
    rng = np.random.default_rng(seed)
    points = rng.standard_t(2, size=(n, P))
    return np.ascontiguousarray(points[rng.integers(n, size=n)])


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 6), st.sampled_from([1, 2]))
def test_no_two_points_are_farther_apart(seed: int, n: int, P: int, order: int) -> None:
    points = points_of(seed, n, P)
    every = distances(points, order)
    i, j, apart = farthest_pair(points, order, 0.0)
    assert apart == pytest.approx(every.max(), rel=1e-12)
    if every.max() > 0:
        assert every[i, j] == pytest.approx(every.max(), rel=1e-12)
    assert farthest_pair(points, order, float(every.max()) * 1.01 + 1e-9)[:2] == (-1, -1)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5), st.sampled_from([1, 2]))
def test_flips_differ_in_one_bit(seed: int, k: int, P: int, order: int) -> None:
    points = points_of(seed, 2**k, P)
    every = distances(points, order)
    rows = np.arange(2**k)
    flips = np.array([[bin(a ^ b).count("1") == 1 for a in rows] for b in rows])
    i, j, apart = farthest_flip(points, order, 0.0)
    assert apart == pytest.approx(every[flips].max(), rel=1e-12)
    assert apart == 0.0 or bin(i ^ j).count("1") == 1


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 6), st.sampled_from([1, 2]))
def test_points_on_a_sphere_are_no_farther_apart_up_to_rounding(
    seed: int, n: int, P: int, order: int
) -> None:
    points = points_of(seed, n, P)
    points /= np.linalg.norm(points, ord=order, axis=1, keepdims=True)
    farthest = float(distances(points, order).max())
    assert farthest_pair(points, order, 0.0)[2] == pytest.approx(farthest, rel=2e-9, abs=1e-12)
    assert farthest_pair(points, order, 2.0) == (-1, -1, 2.0)


@pytest.mark.parametrize("order", [1, 2])
def test_rounding_does_not_choose(order: int) -> None:
    far = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5], [-1.5, 0.0]])
    for row in range(4):
        points = far.copy()
        points[row] *= 1 + 1e-13
        assert farthest_pair(points, order, 0.0)[:2] == farthest_pair(far, order, 0.0)[:2]
        assert farthest_flip(points, order, 0.0)[:2] == farthest_flip(far, order, 0.0)[:2]


def test_too_few_points() -> None:
    assert farthest_pair(np.zeros((1, 3)), 1, 0.5) == (-1, -1, 0.5)
    assert farthest_pair(np.zeros((0, 3)), 2, 0.0) == (-1, -1, 0.0)
    assert farthest_flip(np.zeros((1, 3)), 1, 0.0) == (-1, -1, 0.0)
