"""Replayed local steps give what real clients sent, and those of relaxed clicks have the right slopes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from foltr_audit.core.plugins import Ball, View
from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.plan import table_in
from foltr_audit.inference.linear_systems import observed_lengths
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from foltr_audit.inference.relaxation import ClickRelaxation, Loss
from foltr_audit.inference.replay import NEEDS, Replay, why_no_replay
from foltr_audit.judge.observer import Observer
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Bools, Floats
from tests.conftest import SetupOf
from tests.fixtures.reference import dataset, numba_threads
from tests.fixtures.tiny import collection_of, cut, rearranged, view, with_updates

SETTINGS = list(product(("all", "last-click+1"), ("shown", "candidates")))
CLIP = "clip:norm=0.9"


class Sent(NamedTuple):
    """What real clients sent in a round, how its server sees it, and the truth."""

    header: TraceHeader
    record: RoundRecord
    truth: RoundTruth
    view: View

    @property
    def clicks(self) -> Bools:
        """The truth, bool (n, B, k); False where a message has no such list."""
        return self.truth.clicks.reshape(self.view.shown.shape)


def sent(setup: Setup, *, ranker: str = "linear", sampled: bool = False, seed: int = 7) -> Sent:
    """One round of an experiment's clients: those of training, or fresh ones with lists in score order."""
    table = setup.spec.table()
    table_in(table, "train")["ranker"] = ranker
    table["attack"] = {
        "interactions": setup.learner.interactions,
        "min_documents": 2,
        "on": ["train", "vali", "test"],
    }
    setup = Setup(Spec.parse(table), setup.collection)
    parameters = setup.ranker.initial(np.random.default_rng(seed))
    parameters += np.random.default_rng(seed + 1).normal(size=parameters.size) / 3
    click_model, protocol = setup.spec.train.click_model, setup.spec.attack
    assert protocol is not None
    if sampled:
        played = Federation(setup).play(parameters, 0)
    else:
        played = next(FreshClients(setup, protocol).rounds(parameters, click_model))
    record, truth = played.recorded()
    behind = None if sampled else setup.learner.interactions
    header = trace_header(setup, click_model, record.n_messages, behind)
    (seen,) = Observer(header, setup.collection).views(record)
    return Sent(header, record, truth, seen.view)


def wide(queries: int, features: int = 46) -> Collection:
    """Random queries of 2 to 16 documents with more features than a list has documents, no two alike."""
    rng = np.random.default_rng(3)
    lengths = [rng.integers(2, 17, size=queries).tolist() for _ in Collection.PARTS]
    sizes = [sum(part) for part in lengths]
    rows = [rng.normal(size=(size, features)) / features**0.5 for size in sizes]
    labels = [rng.integers(0, 3, size=size) for size in sizes]
    return collection_of(*map(dataset, rows, labels, lengths))


def learner(pairs: str, normaliser: str, *, interactions: int = 1, clips: bool = True) -> str:
    """A learner with a large step."""
    return (
        f"fpdgd:pairs={pairs},normaliser={normaliser},interactions={interactions},"
        f"learning_rate=0.5,clip_without_pairs={str(clips).lower()}"
    )


def ends(seen: View, clicks: Bools) -> Floats:
    """Local models after the last interaction, (n, P)."""
    path = Replay(seen).paths(np.arange(len(seen)), clicks)
    last: Floats = path[-1]
    return last


# --- real clients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=4"])
@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("interactions", [1, 3])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_true_clicks_give_the_message(
    pairs: str, normaliser: str, interactions: int, sampled: bool, ranker: str, setup_of: SetupOf
) -> None:
    for clip, message in (("none", "model"), (CLIP, "model"), (CLIP, "update")):
        text = learner(pairs, normaliser, interactions=interactions)
        setup = setup_of(clients=30, learner=text, defense=(clip,), message=message, dtype="float64")
        real = sent(setup, ranker=ranker, sampled=sampled)
        seen = real.view
        assert seen.shown.shape == (len(seen), interactions, 10)
        assert len(seen) >= 20
        assert real.truth.clipped.any() == (clip == CLIP)
        np.testing.assert_allclose(ends(seen, real.clicks), seen.models, rtol=0, atol=1e-13)
        other = real.clicks.copy()
        other[:, 0, :2] ^= True
        moved = np.abs(ends(seen, other & seen.is_document) - seen.models).max(axis=1) > 1e-9
        assert moved.mean() > 0.5, "other clicks give other messages"


@pytest.mark.parametrize("clips", [True, False])
@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=4"])
def test_a_clip_may_act_where_nothing_is_learnt(clips: bool, ranker: str, setup_of: SetupOf) -> None:
    text = learner("all", "shown", clips=clips)
    real = sent(
        setup_of(learner=text, defense=(CLIP,), click_model="perfect", dtype="float64"), ranker=ranker
    )
    silent = ~real.clicks.any(axis=(1, 2))
    assert silent.any()
    found = ends(real.view, real.clicks)
    np.testing.assert_allclose(found, real.view.models, rtol=0, atol=1e-13)
    assert (np.abs(found - real.view.parameters).max(axis=1) > 0.01)[silent].all() == clips


@pytest.mark.parametrize("interactions", [1, 3])
def test_a_float32_message_is_the_replay_rounded(interactions: int, setup_of: SetupOf) -> None:
    text = learner("all", "candidates", interactions=interactions)
    real, single = (sent(setup_of(learner=text, dtype=dtype)) for dtype in ("float64", "float32"))
    replayed = ends(single.view, real.clicks)
    assert np.array_equal(real.clicks, single.clicks)
    assert np.abs(replayed - single.view.models).max() > 1e-10
    assert np.abs(replayed - single.view.models).max() <= 2.0**-24 * np.abs(replayed).max()


@pytest.mark.parametrize("clip", [None, Ball(norm=2.0, ord=1), Ball(norm=1.5, ord=2)])
def test_a_path_begins_at_the_global_model_and_takes_one_step_a_list(clip: Ball | None) -> None:
    seen = view(9, B=3)
    seen = replace(seen, knowledge=seen.knowledge.having(clip=clip))
    replay = Replay(seen)
    clicks = (np.random.default_rng(1).random(seen.shown.shape) < 0.4) & seen.is_document
    path = replay.paths(np.arange(9), clicks)
    assert path.shape == (4, 9, seen.parameters.shape[1])
    assert np.array_equal(path[0], seen.parameters)
    model = seen.parameters
    for b in range(3):
        model = replay.step(model, np.arange(9), b, clicks[:, b])
        assert np.array_equal(path[b + 1], model)
        there = seen.is_document[:, b].any(axis=1)
        assert np.array_equal(path[b + 1][~there], path[b][~there]), "no list, no step and no clip"
        if clip is not None:
            assert (np.linalg.norm(path[b + 1][there], clip.ord, axis=1) <= clip.norm * (1 + 1e-12)).all()


@pytest.mark.parametrize("clip", [None, Ball(norm=1.5, ord=2)])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_steps_of_all_patterns_are_those_of_each(pairs: str, normaliser: str, clip: Ball | None) -> None:
    seen = view(6, k=5)
    known = seen.knowledge.having(pairs=pairs, normaliser=normaliser, clip=clip)
    replay = Replay(replace(seen, knowledge=known))
    for i, start in enumerate(seen.parameters):
        ((_, models),) = replay.patterns(i, 0, start)
        for pattern, model in enumerate(models):
            clicks = patterns_as_clicks(np.array([pattern]), 5)
            stepped = replay.step(seen.parameters[[i]], np.array([i]), 0, clicks)[0]
            np.testing.assert_allclose(model, stepped, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_hypotheses_do_not_depend_on_each_other(pairs: str, normaliser: str) -> None:
    """Any message any number of times, in any order, on any number of threads: the same bytes."""
    seen = view(5, B=2)
    seen = replace(seen, knowledge=seen.knowledge.having(pairs=pairs, normaliser=normaliser))
    replay, rng = Replay(seen), np.random.default_rng(2)
    messages = rng.integers(0, 5, size=20)
    clicks = (rng.random((20, *seen.shown.shape[1:])) < 0.4) & seen.is_document[messages]
    together = replay.paths(messages, clicks)
    for h in range(20):
        assert replay.paths(messages[[h]], clicks[[h]]).tobytes() == together[:, [h]].tobytes()
        alone = Replay(rearranged(seen, messages[[h]]))
        assert alone.paths(np.array([0]), clicks[[h]]).tobytes() == together[:, [h]].tobytes()
    with numba_threads(1):
        assert replay.paths(messages, clicks).tobytes() == together.tobytes()


@pytest.mark.parametrize("senders", [None, (0, 0, 1, 2)])
@pytest.mark.parametrize("clip", [None, Ball(norm=0.9, ord=2)])
def test_a_path_that_goes_on_from_its_beginning_is_the_whole_path(
    senders: tuple[int, ...] | None, clip: Ball | None
) -> None:
    """To the byte, also of hypotheses that share a beginning, and of sums."""
    seen = view(6, B=4)
    seen = replace(seen, knowledge=seen.knowledge.having(clip=clip))
    if senders is not None:
        seen = replace(seen, senders=np.tile(senders, (6, 1)))
    replay, messages, rng = Replay(seen), np.repeat(np.arange(6), 3), np.random.default_rng(5)
    first = (rng.random(seen.shown.shape) < 0.4) & seen.is_document
    for same in range(5):
        clicks = np.repeat(first, 3, axis=0)
        clicks[:, same:] ^= rng.random(clicks[:, same:].shape) < 0.3
        clicks &= seen.is_document[messages]
        begun = np.repeat(replay.walk(np.arange(6), first[:, :same]), 3, axis=1)
        assert replay.paths(messages, clicks, begun).tobytes() == replay.paths(messages, clicks).tobytes()


# --- what it cannot do without --------------------------------------------------------------------


def test_a_view_says_why_it_cannot_be_replayed() -> None:
    known = view(1).knowledge
    over = {"normaliser": "candidates"}
    for changes, reason in (
        ({}, None),
        ({"candidates": False}, None),
        (over, None),
        (over | {"candidates": False}, "the observer does not know: candidates (PDGD normalises over them)"),
        ({"pairs": "some"}, "unknown pairs 'some'; expected all or last-click+1"),
        ({"normaliser": "some"}, "unknown normaliser 'some'; expected shown or candidates"),
    ):
        assert why_no_replay(replace(view(1), knowledge=known.having(**changes))) == reason
    assert all(known.has(name) for name in NEEDS)


def test_candidates_change_the_weights_and_are_asked_for() -> None:
    shown = view(6)
    over = replace(shown, knowledge=shown.knowledge.having(normaliser="candidates"))
    every = np.arange(6)
    mine, theirs = (Replay(seen).weights(seen.parameters, every, 0) for seen in (shown, over))
    there = mine > 0
    assert np.array_equal(there, theirs > 0)
    assert np.abs(mine - theirs).max() > 1e-3
    with pytest.raises(ValueError, match="needs them"):
        Replay(replace(over, candidates=None)).weights(over.parameters, every, 0)


# --- how far down a message reaches ---------------------------------------------------------------


@pytest.mark.parametrize("clip", ["none", CLIP])
@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=6"])
@pytest.mark.parametrize("normaliser", ["shown", "candidates"])
def test_the_observed_prefix_is_read_off_a_message(
    normaliser: str, ranker: str, clip: str, setup_of: SetupOf
) -> None:
    """Of lists with pairs."""
    text = learner("last-click+1", normaliser)
    real = sent(setup_of(learner=text, defense=(clip,), dtype="float64", data=wide(30)), ranker=ranker)
    seen, clicks = real.view, real.clicks[:, 0]
    documents = seen.is_document[:, 0].sum(axis=1)
    observed = np.minimum(np.where(clicks, np.arange(10), -2).max(axis=1) + 2, documents)
    some = clicks.any(axis=1) & (clicks.sum(axis=1) < observed)
    assert np.count_nonzero(observed[some] < documents[some]) > 5
    assert np.array_equal(observed_lengths(seen)[some, 0], observed[some])
    everything = replace(seen, knowledge=seen.knowledge.having(pairs="all"))
    assert np.array_equal(observed_lengths(everything)[:, 0], documents)


def test_the_observed_prefix_ends_where_coefficients_do() -> None:
    """Lists whose observed documents are known: 4, none and all of 6; and all where all form pairs."""
    seen = cut(view(3, seed=4), B=1, k=5)
    features = np.random.default_rng(0).normal(size=seen.features.shape).astype(np.float32)
    seen = replace(seen, shown=np.tile(np.arange(5), (3, 1, 1)), features=features)
    weights = np.array([[0.2, -0.1, 0.3, -0.4, 0], [0] * 5, [0.1, 0.1, -0.5, 0.2, 0.1]])
    updates = np.einsum("nk,nkd->nd", weights, features[:, 0].astype(np.float64))
    told = with_updates(replace(seen, knowledge=seen.knowledge.having(pairs="last-click+1")), updates)
    assert observed_lengths(told)[:, 0].tolist() == [4, 0, 5]
    assert observed_lengths(with_updates(seen, updates))[:, 0].tolist() == [5, 5, 5]


# --- relaxed clicks -------------------------------------------------------------------------------


def seen_by(n: int, B: int, clip: Ball | None, *, normaliser: str = "shown") -> View:
    """Random messages whose documents all form pairs."""
    made = view(n, B)
    return replace(made, knowledge=made.knowledge.having(clip=clip, normaliser=normaliser))


def some_clicks(seen: View) -> Bools:
    """Random clicks on shown documents."""
    return np.asarray((np.random.default_rng(2).random(seen.shown.shape) < 0.4) & seen.is_document)


@pytest.mark.parametrize("normaliser", ["shown", "candidates"])
def test_an_effect_times_clicks_is_the_replayed_step(normaliser: str) -> None:
    seen = seen_by(12, 3, None, normaliser=normaliser)
    relaxed, clicks, every = ClickRelaxation(seen), some_clicks(seen), np.arange(12)
    models = seen.parameters + np.random.default_rng(1).normal(size=seen.parameters.shape)
    for b in range(3):
        start = seen.parameters if b == 0 else models
        step = Replay(seen).step(start, every, b, clicks[:, b]) - start
        effect = relaxed.effect(start, b)
        mine = np.einsum("npk,nk->np", effect, clicks[:, b].astype(np.float64))
        np.testing.assert_allclose(mine, step, rtol=0, atol=1e-13)
        np.testing.assert_allclose(effect.sum(axis=2), 0, atol=1e-13, err_msg="all clicked is no step")


@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=6"])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_the_true_clicks_make_the_message_where_the_prefix_is_right(
    pairs: str, normaliser: str, ranker: str, setup_of: SetupOf
) -> None:
    setup = setup_of(learner=learner(pairs, normaliser), data=wide(30))
    real = sent(setup, ranker=ranker)
    relaxed, clicks = ClickRelaxation(real.view), real.clicks[:, 0]
    documents = real.view.is_document[:, 0].sum(axis=1)
    last = np.where(clicks, np.arange(10), -2).max(axis=1) + 2
    ends = documents if pairs == "all" else np.minimum(last, documents)
    right = relaxed.observed[:, 0].sum(axis=1) == ends
    assert right.sum() > 20
    made = np.einsum("npk,nk->np", relaxed.effect(real.view.parameters, 0), clicks.astype(np.float64))
    np.testing.assert_allclose(made[right], real.view.updates[right], rtol=0, atol=1e-13)


@pytest.mark.parametrize("clip", [None, Ball(norm=1.5), Ball(norm=2.0, ord=1)])
@pytest.mark.parametrize("normaliser", ["shown", "candidates"])
def test_a_path_is_the_replayed_one_for_hard_clicks(normaliser: str, clip: Ball | None) -> None:
    seen = seen_by(12, 3, clip, normaliser=normaliser)
    full = np.flatnonzero((seen.is_document.sum(axis=2) > 0).all(axis=1))
    assert full.size > 5
    clicks = some_clicks(seen)
    mine = ClickRelaxation(seen).path(clicks.astype(np.float64))
    assert mine.shape == (3, 12, seen.parameters.shape[1])
    replayed = Replay(seen).paths(np.arange(12), clicks)[:-1]
    np.testing.assert_allclose(mine[:, full], replayed[:, full], rtol=0, atol=1e-13)
    assert np.abs(mine[-1] - mine[0]).max() > 0.01


def distances(seen: View, clicks: Floats, factor: Floats) -> Floats:
    """Half the squared distance (n,) of models after one list, each times a factor (n, 1), to the message."""
    effect = ClickRelaxation(seen).effect(seen.parameters, 0)
    models = factor * (seen.parameters + np.einsum("npk,nk->np", effect, clicks[:, 0]))
    return np.asarray(((models - seen.models) ** 2).sum(axis=1) / 2)


@pytest.mark.parametrize("clip", [None, Ball(norm=100.0), Ball(norm=1.5), Ball(norm=2.0, ord=1)])
def test_slopes_are_finite_differences(clip: Ball | None) -> None:
    """An active clip counts as a fixed factor."""
    seen = seen_by(12, 1, clip)
    relaxed, rng = ClickRelaxation(seen), np.random.default_rng(3)
    clicks = np.where(seen.is_document, rng.uniform(0.2, 0.8, size=seen.shown.shape), 0.0)
    free = seen.parameters + np.einsum("npk,nk->np", relaxed.effect(seen.parameters, 0), clicks[:, 0])
    size = np.inf if clip is None else clip.norm
    factor = np.minimum(1, size / np.linalg.norm(free, 2 if clip is None else clip.ord, axis=1))[
        :, np.newaxis
    ]
    assert (factor < 1).any() == (size < 100)
    found, h = relaxed.gradient(clicks), 1e-4
    for j in range(clicks.shape[2]):
        more, less = clicks.copy(), clicks.copy()
        more[..., j] += h
        less[..., j] -= h
        slope = (distances(seen, more, factor) - distances(seen, less, factor)) / (2 * h)
        np.testing.assert_allclose(found[:, 0, j], slope, rtol=1e-7, atol=1e-9)
    assert np.abs(found).max() > 0.01


def test_slopes_vanish_where_the_message_is_met() -> None:
    for clip in (None, Ball(norm=1.5)):
        seen = seen_by(12, 3, clip)
        full = np.flatnonzero((seen.is_document.sum(axis=2) > 0).all(axis=1))
        clicks = some_clicks(seen)
        seen = replace(seen, messages=Replay(seen).paths(np.arange(12), clicks)[-1])
        found = ClickRelaxation(seen).gradient(clicks.astype(np.float64))
        np.testing.assert_allclose(found[full], 0, atol=1e-14)
        assert np.abs(ClickRelaxation(seen).gradient(np.where(seen.is_document, 0.5, 0.0))).max() > 1e-3


@pytest.mark.parametrize("loss", ["least-squares", "least-absolute"])
@pytest.mark.parametrize("interactions", [2, 3])
def test_settled_clicks_are_the_true_ones_without_noise(
    interactions: int, loss: Loss, setup_of: SetupOf
) -> None:
    """Of lists in which not all or none were clicked; the first guess, without drift, is further off."""
    text = learner("all", "shown", interactions=interactions)
    real = sent(setup_of(clients=30, learner=text, data=wide(30, features=64)))
    clicks = real.clicks
    told = clicks.any(axis=2) & (clicks != real.view.is_document).any(axis=2)
    assert told.sum() > 25
    relaxed = ClickRelaxation(real.view)
    first, last = (np.abs(relaxed.settled(loss, turns) - clicks)[told].mean() for turns in (0, 12))
    assert last < 1e-3
    assert first > 10 * last
    assert np.array_equal((relaxed.settled(loss, 12) > 0.5)[told], clicks[told])


def test_starts_are_rounded_solutions_on_documents() -> None:
    seen = seen_by(8, 2, Ball(norm=1.5))
    relaxed = ClickRelaxation(seen)
    starts = relaxed.starts(2)
    assert starts.shape == (8, 6, *seen.shown.shape[1:])
    assert not starts[~np.broadcast_to(seen.is_document[:, np.newaxis], starts.shape)].any()
    absolute, squares = (relaxed.settled(loss, 2) for loss in ("least-absolute", "least-squares"))
    for place, (clicks, level) in enumerate(
        (clicks, level) for clicks in (absolute, squares) for level in (0.5, 0.25, 0.75)
    ):
        assert np.array_equal(starts[:, place], (clicks > level) & seen.is_document)


def test_views_without_messages_or_lists() -> None:
    for n, B in ((0, 2), (3, 0)):
        seen = seen_by(n, B, Ball(norm=1.5))
        relaxed, shape = ClickRelaxation(seen), seen.shown.shape
        assert relaxed.gradient(np.zeros(shape)).shape == shape
        assert relaxed.settled("least-squares", 2).shape == shape
