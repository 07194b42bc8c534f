"""Votes of hidden units: what dropout leaves of a neural ranker's update still names clicked documents."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from foltr_audit.attacks.unit_votes import UnitVotes

import foltr_audit as fa
from foltr_audit.core.plugins import Ball, FirstLayer, Inference, Knowledge, View
from foltr_audit.core.rankers import make_ranker
from foltr_audit.utils.arrays import Bools, Floats
from tests.inference import test_pattern_decoder as decoder

D, UNITS, K = 24, 6, 5


class Clients(NamedTuple):
    """Messages of clients with dropout, which documents they raise, and which have a unit that is on."""

    view: View
    raised: Bools
    seen: Bools


def clients(n: int, *, B: int = 1, keep: float = 0.5, seed: int = 0) -> Clients:
    """Clients of `f(x) = w . (mask * relu(W x + b))` whose documents have gradients of known signs.

    Written from the definition, document by document and unit by unit.
    """
    rng = np.random.default_rng(seed)
    ranker = make_ranker(f"neural:hidden={UNITS}", D)
    model = ranker.initial(rng)
    model[UNITS * D : UNITS * D + UNITS] = rng.normal(size=UNITS)
    W, b, w = model[: UNITS * D].reshape(UNITS, D), model[UNITS * D : -UNITS], model[-UNITS:]
    features = rng.normal(size=(n, B, K, D))
    gradients = rng.uniform(0.2, 1.0, size=(n, B, K)) * rng.choice([-1.0, 1.0], size=(n, B, K))
    messages, seen = np.tile(model, (n, 1)), np.zeros((n, B, K), np.bool_)
    for i in range(n):
        for place in np.ndindex(B, K):
            x, r = features[i][place], gradients[i][place]
            mask = (rng.random(UNITS) < keep) / keep
            on = (W @ x + b > 0) * mask
            seen[i][place] = on.any()
            messages[i, : UNITS * D] += 0.1 * r * np.outer(w * on, x).reshape(-1)
            messages[i, UNITS * D : -UNITS] += 0.1 * r * w * on
            messages[i, -UNITS:] += 0.1 * r * on * (W @ x + b)
    return Clients(view_of(ranker.text, "model", model, messages, features), gradients > 0, seen)


def view_of(ranker: str, kind: str, model: Floats, messages: Floats, features: Floats) -> View:
    """Noiseless messages of lists that show K documents in their order."""
    n, B = features.shape[:2]
    return View(
        observer="individual",
        kind=kind,
        parameters=np.tile(model, (n, 1)),
        messages=messages,
        shown=np.tile(np.arange(K), (n, B, 1)),
        features=features,
        knowledge=Knowledge(ranker=ranker, number_format="float64", feature_format="float64", noise="none"),
    )


def answer(seen: View) -> Inference:
    """What the attack says."""
    return decoder.answer(UnitVotes(), seen)


@pytest.mark.parametrize("lists", [1, 2])
@pytest.mark.parametrize("keep", [1.0, 0.5])
def test_every_document_with_a_unit_is_told_whatever_the_mask(keep: float, lists: int) -> None:
    made = clients(40, keep=keep, B=lists)
    assert made.seen.mean() > 0.6
    found = answer(made.view)
    assert np.array_equal(found.guess[made.seen], made.raised[made.seen])
    assert not found.guess[~made.seen].any()
    assert (np.abs(found.scores[~made.seen]) < 1e-9).all()


def test_numbers_that_noise_moved_change_nothing() -> None:
    made, rng = clients(40), np.random.default_rng(4)
    messages = made.view.messages.copy()
    for row in messages:
        row[rng.choice(UNITS * D, size=3, replace=False)] += rng.choice([-3.0, 3.0], size=3)
    found = answer(replace(made.view, messages=messages))
    assert (found.guess == made.raised)[made.seen].mean() > 0.97


def test_an_active_clip_of_the_model_changes_nothing() -> None:
    made = clients(40)
    norms = np.linalg.norm(made.view.messages, axis=1, keepdims=True)
    norm = 0.9 * float(norms.min())
    clipped = replace(made.view, messages=made.view.messages * (norm / norms))
    told = replace(clipped, knowledge=clipped.knowledge.having(clip=Ball(norm=norm)))
    assert np.array_equal(answer(told).guess[made.seen], made.raised[made.seen])


def test_a_client_step_says_where_the_layer_lies() -> None:
    """The layout of a program of one's own: w first, then b, and W last."""
    made = clients(20)
    order = np.concatenate([np.arange(UNITS * (D + 1), UNITS * (D + 2)), np.arange(UNITS * (D + 1))])
    layer = FirstLayer(start=UNITS, units=UNITS, inputs=D, output=0)
    step = fa.numpy_step(lambda model, features, clicks: model, first_layer=layer)
    known = made.view.knowledge.having(ranker="theirs", client_step=step)
    told = replace(
        made.view,
        parameters=made.view.parameters[:, order],
        messages=made.view.messages[:, order],
        knowledge=known,
    )
    assert np.array_equal(answer(told).guess, answer(made.view).guess)


def test_two_hidden_layers_are_read_by_the_slopes_of_their_units() -> None:
    rng = np.random.default_rng(3)
    ranker, n = make_ranker(f"neural:hidden={UNITS},layers=2", D), 30
    model, features = ranker.initial(rng), rng.normal(size=(n, 1, K, D))
    gradients = rng.uniform(0.2, 1.0, size=(n, 1, K)) * rng.choice([-1.0, 1.0], size=(n, 1, K))
    rows = ranker.jacobian(model, features)
    updates = np.einsum("nbk,nbkp->np", gradients, rows)
    seen = view_of(ranker.text, "update", model, updates, features)
    live = np.asarray(rows[..., : UNITS * D].any(axis=3))
    assert live.mean() > 0.7
    assert np.array_equal(answer(seen).guess[live], (gradients > 0)[live])


def reason(seen: View) -> str:
    """Why the attack cannot run."""
    found = UnitVotes().why_not(seen)
    assert found is not None
    return found


def test_it_says_why_not() -> None:
    deep = FirstLayer(start=0, units=UNITS, inputs=D)
    for layer, why in ((None, "does not say where"), (deep, "deeper than one layer")):
        step = fa.numpy_step(lambda model, features, clicks: model, first_layer=layer)
        known = Knowledge(ranker="theirs", client_step=step)
        assert why in reason(replace(clients(2).view, knowledge=known))


def test_a_linear_ranker_is_one_unit() -> None:
    """Then the votes are the weights of least absolute deviations."""
    seen = clients(3).view
    linear = replace(
        seen,
        parameters=seen.parameters[:, :D],
        messages=seen.parameters[:, :D] + np.einsum("nbkd,k->nd", seen.features, np.arange(K) - 2.0),
        knowledge=replace(seen.knowledge, ranker="linear"),
    )
    assert np.array_equal(answer(linear).guess, np.tile(np.arange(K) > 2, (3, 1, 1)))


def test_a_layer_that_does_not_fit_is_named() -> None:
    layer = FirstLayer(start=0, units=3, inputs=D, output=80)
    assert layer.problem(83, D) is None
    assert "46 features" in str(layer.problem(83, 46))
    assert "ends at number 83" in str(layer.problem(82, D))


def test_rows_of_the_layer_are_its_units() -> None:
    values = np.arange(2.0 * 110).reshape(2, 110)
    rows = [values[:, 5 + h * D : 5 + (h + 1) * D] for h in range(4)]
    assert np.array_equal(FirstLayer(start=5, units=4, inputs=D).rows(values), np.stack(rows, 1))
