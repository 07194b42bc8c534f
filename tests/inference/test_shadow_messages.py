"""Simulated messages against plain loops: lists, clicks, steps, noise and what is sent of an update."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from foltr_audit.core.client_steps import numpy_step
from foltr_audit.core.plugins import Ball, ClientStep, View
from foltr_audit.inference.shadow_messages import (
    MessageForm,
    Shadows,
    as_signs,
    is_compressed,
    message_forms,
    shadow_messages,
)
from foltr_audit.privacy.events import ClickLaw
from foltr_audit.privacy.noise import GammaShare, Gaussian
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from tests.fixtures.reference import chi_square_p, exact_pair_weights, pairwise_gradient
from tests.fixtures.there import there
from tests.fixtures.tiny import BELIEF
from tests.inference.test_pattern_decoder import RATE, known, lists

ONE = MessageForm(lists=1, documents=10, kept=0, signs=False)
SILENT = Gaussian(sigma=1e-12)


def seen(features: int = 5, **facts: Any) -> View:
    """Twenty messages of one list, from one model."""
    knowledge = known("all", "candidates", None, SILENT).having(
        belief=BELIEF, **{"lists": "deterministic"} | facts
    )
    view = lists([4, 10, 7, 10] * 5, knowledge, features=features, kind="update")
    return replace(view, parameters=np.tile(view.parameters[0], (20, 1)))


def shadows(view: View, form: MessageForm = ONE, count: int = 50, part: int = 0) -> Shadows:
    return shadow_messages(view, 0, form, count, part)


def plain_steps(made: View, clicks: Any) -> Floats:
    """The sum of PDGD's steps on the lists of each message, each from the global model, pair by pair."""
    candidates = there(made.candidates)
    out = np.zeros(made.messages.shape)
    for i, b in np.ndindex(made.shown.shape[:2]):
        first, last = candidates.offsets[candidates.query[i, b] :][:2]
        pool = candidates.features[first:last].astype(np.float64)
        shown = [int(d) for d in made.shown[i, b] if d >= 0]
        weights = exact_pair_weights(pool @ made.parameters[i], shown, candidates=True)
        out[i] += RATE * pairwise_gradient(weights, pool[shown], clicks[i, b, : len(shown)].tolist(), False)
    return out


def test_a_shadow_is_a_list_of_a_query_and_pdgds_step_on_it() -> None:
    made = shadows(seen())
    candidates = there(made.view.candidates)
    for i, query in enumerate(candidates.query[:, 0]):
        first, last = candidates.offsets[query : query + 2]
        pool, shown = candidates.features[first:last], made.view.shown[i, 0]
        best = np.argsort(-(pool @ made.view.parameters[i]), kind="stable")[:10]
        assert shown[shown >= 0].tolist() == best.tolist()
        assert np.array_equal(made.view.features[i, 0, : best.size], pool[best])
    assert np.unique(candidates.query).size > 15
    expected = plain_steps(made.view, made.clicks)
    np.testing.assert_allclose(made.view.messages, expected, rtol=0, atol=1e-9)
    assert np.abs(made.view.messages).max() > 0.1


def test_in_a_sum_every_client_starts_from_the_global_model() -> None:
    view = replace(seen(), observer="aggregate", clients=np.full(20, 3))
    made = shadows(view, ONE._replace(lists=3))
    assert made.view.shown.shape == (50, 3, 10)
    expected = plain_steps(made.view, made.clicks)
    np.testing.assert_allclose(made.view.messages, expected, rtol=0, atol=1e-9)


def test_grades_and_clicks_follow_what_the_observer_believes() -> None:
    """Chances down the list by hand: examined, of this grade, clicked, and not stopped."""
    made = shadows(seen(), count=20_000)
    full = made.view.is_document[:, 0].all(axis=1)
    clicks, grades = made.clicks[full, 0], there(made.view.labels)[full, 0]
    reading = 1.0
    for place, chances in enumerate(BELIEF.grades):
        found = np.bincount(grades[:, place], minlength=3)
        assert chi_square_p(found, chances) > 1e-4
        clicked = reading * float(chances @ BELIEF.click)
        count = int(clicks[:, place].sum())
        assert chi_square_p([count, len(clicks) - count], [clicked, 1 - clicked]) > 1e-4
        reading -= reading * float(chances @ (BELIEF.click * BELIEF.stop))
    nobody = shadows(replace(seen(), knowledge=seen().knowledge.having(belief=None)), count=2000)
    assert abs(nobody.clicks[nobody.view.is_document].mean() - 0.5) < 0.02


def test_clients_learn_from_reports_where_clicks_are_randomised() -> None:
    """A law that turns every click around: the steps are those of the other documents."""
    made = shadows(seen(click_law=ClickLaw(unclicked=1.0, clicked=0.0)))
    expected = plain_steps(made.view, ~made.clicks)
    np.testing.assert_allclose(made.view.messages, expected, rtol=0, atol=1e-9)


def test_noise_has_its_law_and_an_unknown_one_is_none() -> None:
    loud, quiet, unknown = (
        shadows(seen(noise=law), count=4000).view.messages
        for law in (Gaussian(sigma=0.3).text, SILENT.text, None)
    )
    assert abs((loud - quiet).std() - 0.3) < 0.01
    np.testing.assert_allclose(unknown, quiet, rtol=0, atol=1e-9)
    other = shadows(seen(), part=1).view
    assert not np.array_equal(other.shown, shadows(seen()).view.shown), "another part has other draws"


def test_sampled_lists_are_those_of_plackett_luce() -> None:
    """Of one query with two documents, the first is shown first as often as its softmax says."""
    view = seen(lists="sampled")
    candidates = there(view.candidates)
    pool = candidates.features[:2]
    two = replace(
        candidates, features=pool, offsets=np.array([0, 2]), query=np.zeros((20, 1), dtype=np.int64)
    )
    made = shadows(replace(view, candidates=two), count=5000)
    scores = pool @ view.parameters[0]
    chance = 1 / (1 + np.exp(scores[1] - scores[0]))
    first = int((made.view.shown[:, 0, 0] == 0).sum())
    assert chi_square_p([first, 5000 - first], [chance, 1 - chance]) > 1e-4


@pytest.mark.parametrize("kind", ["model", "update"])
def test_what_was_left_out_of_a_message_is_seen(kind: str) -> None:
    """Whole updates, of which the clip or a short prefix may leave zeros, are taken for whole ones."""
    ball = Ball(norm=1.0)
    view = replace(seen(features=30, pairs="last-click+1", clip=ball, number_format="float32"), kind="update")
    made = shadows(view, count=40)
    updates = made.view.messages
    kept = np.abs(updates) >= -np.sort(-np.abs(updates), axis=1)[:, 6:7]
    sent = {"whole": updates, "largest": updates * kept, "signs": 0.01 * np.sign(updates)}
    sent["noisy"] = updates + GammaShare(n=1000, scale=1.0).sample(
        Streams(3).clients("noise", 0, np.arange(40)), 30
    )
    found = {}
    for name, messages in sent.items():
        if kind == "model":
            messages = (messages + made.view.parameters).astype(np.float32).astype(np.float64)
        received = replace(made.view, kind=kind, messages=messages)
        found[name] = message_forms(received), is_compressed(received)
    moved = np.asarray(updates.any(axis=1))
    assert moved.sum() > 30
    for name in ("whole", "noisy"):
        assert {form._replace(documents=10) for form in found[name][0]} == {ONE}, name
    for name, form in (("largest", ONE._replace(kept=4)), ("signs", ONE._replace(signs=True))):
        assert {one for one, here in zip(found[name][0], moved, strict=True) if here} == {form}, name
    assert [compressed for _, compressed in found.values()] == [False, True, True, False]
    again = as_signs(replace(made.view, messages=sent["signs"])).messages
    assert np.array_equal(again, np.sign(updates))


@pytest.mark.parametrize(("form", "sent"), [(ONE._replace(kept=2), 2), (ONE._replace(signs=True), 5)])
def test_shadows_send_as_little_as_the_form_says(form: MessageForm, sent: int) -> None:
    whole, little = shadows(seen()).view.messages, shadows(seen(), form).view.messages
    moved = whole.any(axis=1)
    assert set((little[moved] != 0).sum(axis=1)) == {sent}
    here = little != 0
    if form.signs:
        assert np.array_equal(little, np.sign(whole))
    else:
        assert np.array_equal(little[here], whole[here])
        assert np.all(np.where(here, np.abs(whole), np.inf).min(axis=1) >= np.abs(whole * ~here).max(axis=1))


def test_numbers_of_lists_and_documents_are_rounded_up_above_ten() -> None:
    view = lists([12, 3], known("all", "shown", None, SILENT), k=12)
    assert [form.documents for form in message_forms(view)] == [16, 10]
    wide = replace(
        view,
        shown=np.tile(view.shown[:1, :, :4], (1, 11, 1)),
        features=np.tile(view.features[:1, :, :4].astype(np.float64), (1, 11, 1, 1)),
        parameters=view.parameters[:1],
        messages=view.messages[:1],
        clients=np.ones(1, dtype=np.int64),
        candidates=None,
    )
    assert [form.lists for form in message_forms(wide)] == [16]


@pytest.mark.parametrize("summed", [False, True])
def test_a_client_step_takes_the_place_of_pdgd(summed: bool) -> None:
    """Lists one after the other: with drift for one client, each from the global model for several."""

    def step(model: Floats, features: Floats, clicks: Floats) -> Floats:
        return features.T @ (clicks - 0.5) + 0.1 * model

    view = seen(client_step=numpy_step(step, parameters=5))
    if summed:
        view = replace(view, observer="aggregate", clients=np.full(20, 2))
    made = shadows(view, ONE._replace(lists=2), count=100)
    for i, theta in enumerate(made.view.parameters):
        model, total = theta, np.zeros(5)
        for b in range(2):
            here = made.view.is_document[i, b]
            rows = made.view.features[i, b, here].astype(np.float64)
            change = step(theta if summed else model, rows, made.clicks[i, b, here])
            model, total = model + change, total + change
        np.testing.assert_allclose(made.view.messages[i], total, rtol=0, atol=1e-9)
    still, added = replace(made.view).step_effects
    np.testing.assert_array_equal(made.view.step_effects[0], still)
    np.testing.assert_array_equal(made.view.step_effects[1], added)


class Chancy(ClientStep):
    """The mean step, or that of a client whose chance a seed decides."""

    name: ClassVar[str] = "chancy"
    weight: float = 1.0

    def updates(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        return self.weight * clicks @ features

    def drawn(self, seed: int) -> Chancy:
        return Chancy(weight=2.0 * (seed % 2))


def test_every_shadow_has_a_chance_of_its_own() -> None:
    made = shadows(seen(client_step=Chancy()), count=200)
    mean = np.einsum("nbk,nbkd->nd", made.clicks, made.view.features.astype(np.float64))
    twice = np.abs(made.view.messages - 2 * mean).max(axis=1) < 1e-9
    never = np.abs(made.view.messages).max(axis=1) < 1e-9
    assert np.all(twice | never)
    assert 60 < twice.sum() < 140
