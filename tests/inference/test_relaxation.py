"""Relaxed clicks: the Laplacian form is the replayed step, its slopes are those of the distance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from foltr_audit.core.plugins import Ball, View
from foltr_audit.inference.relaxation import ClickRelaxation, Loss
from foltr_audit.inference.replay import Replay
from foltr_audit.utils.arrays import Bools, Floats
from tests.conftest import SetupOf
from tests.fixtures.tiny import view
from tests.inference.test_replay import SETTINGS, learner, sent, wide


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
