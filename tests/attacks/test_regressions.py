"""Regressions and relaxed decoders: right where a message tells, better than OLSR where noise is sparse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foltr_audit.attacks.olsr import OLSR, OLSRTheta
from foltr_audit.attacks.relaxed_clicks import BoxLeastAbsolute, BoxLeastSquares, Raifle
from foltr_audit.attacks.robust_regressions import LeastAbsolute, Tukey, refitted
from scipy.optimize import linprog

from foltr_audit.core.pdgd import observed_documents
from foltr_audit.core.plugins import Attack, Ball, View
from foltr_audit.inference.relaxation import ClickRelaxation
from foltr_audit.judge.clicks import revealed
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.utils.arrays import Bools, Floats
from tests.attacks.test_maximum_posterior import simulated
from tests.conftest import SetupOf
from tests.inference.test_pattern_decoder import answer, known, told
from tests.inference.test_replay import SETTINGS, Sent, learner, sent, wide

BOXES = (BoxLeastSquares(), BoxLeastAbsolute())
EVERY: tuple[Attack, ...] = (OLSR(), OLSRTheta(), LeastAbsolute(), Tukey(), *BOXES)


def tells(real: Sent) -> Bools:
    """Documents (n, k) that messages of one list tell."""
    clicks, there = real.clicks[:, 0], real.view.is_document[:, 0]
    only = real.view.knowledge.pairs == "last-click+1"
    observed = observed_documents(clicks, there, only_observed=only)
    told = revealed(real.view, real.clicks, observed[:, np.newaxis]).told[:, 0]
    ties = ~clicks.any(axis=1) | (clicks == there).all(axis=1)  # all clicked sends what none clicked does
    return np.asarray(told & there & ~ties[:, np.newaxis])


# --- without noise --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_every_told_document_is_right(pairs: str, normaliser: str, dtype: str, setup_of: SetupOf) -> None:
    real = sent(setup_of(learner=learner(pairs, normaliser), dtype=dtype, data=wide(30)))
    here = tells(real)
    assert here.sum() > 0.5 * real.view.is_document.sum()
    assert real.clicks[:, 0][here].any()
    for attack in EVERY:
        guess = answer(attack, real.view).guess[:, 0]
        assert np.array_equal(guess[here], real.clicks[:, 0][here]), attack.name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("attack", [OLSRTheta(), LeastAbsolute()], ids=lambda attack: attack.name)
def test_the_model_column_takes_up_an_active_clip(attack: Attack, dtype: str, setup_of: SetupOf) -> None:
    setup = setup_of(learner=learner("all", "shown"), dtype=dtype, data=wide(30), defense=("clip:norm=0.9",))
    real = sent(setup)
    assert real.truth.clipped.all()
    here, clicks = tells(real), real.clicks[:, 0]
    assert here.sum() > 0.5 * real.view.is_document.sum()
    assert np.array_equal(answer(attack, real.view).guess[:, 0][here], clicks[here])
    wrong = answer(OLSR(), real.view).guess[:, 0][here] != clicks[here]
    assert wrong.mean() > 0.05


# --- Tukey's biweight -----------------------------------------------------------------------------


def test_tukey_passes_through_the_right_numbers() -> None:
    """Normal errors with one number in five far off: closer than least squares, and a fixed point.

    At a fixed point the biweighted residuals are orthogonal to the columns (Beaton & Tukey 1974).
    """
    rng = np.random.default_rng(4)
    columns, weights = rng.normal(size=(60, 4)), np.array([1.0, -2.0, 0.5, 3.0])
    values = columns @ weights + 0.01 * rng.normal(size=60)
    values[::5] += 5
    squares = np.linalg.lstsq(columns, values, rcond=None)[0]
    found = refitted(columns, values, weights + 0.01)
    assert np.abs(found - weights).max() < 0.01 < np.abs(squares - weights).max()
    left = values - columns @ found
    scale = np.median(np.abs(left)) / 0.6744897501960817
    share = np.clip(1 - (left / (4.685 * scale)) ** 2, 0, None) ** 2
    np.testing.assert_allclose(columns.T @ (share * left) / 60, 0, atol=1e-4)
    assert np.all(share[::5] == 0)


def test_tukey_keeps_a_start_that_fits() -> None:
    rng = np.random.default_rng(5)
    columns, weights = rng.normal(size=(20, 3)), np.array([1.0, -2.0, 0.5])
    values = columns @ weights
    values[:5] += rng.normal(size=5)
    assert refitted(columns, values, weights) is weights
    few = columns[:3]
    assert refitted(few, rng.normal(size=3), weights) is weights
    assert refitted(columns, np.zeros(20), np.zeros(3)).tolist() == [0, 0, 0]


# --- boxes ----------------------------------------------------------------------------------------


def test_least_absolute_deviations_in_a_box_equal_a_linear_programme() -> None:
    """Loss for loss, with noise."""
    law = GammaShare(n=3, scale=0.3)
    made = simulated(10, law, known("all", "shown", None, law), k=6, features=9)
    relaxed, view = ClickRelaxation(made.view), made.view
    clicks = answer(BoxLeastAbsolute(), view).scores[:, 0]
    assert np.all((clicks >= 0) & (clicks <= 1))
    for i in range(10):
        design, y = relaxed.effect(view.parameters, 0)[i], view.updates[i]
        P, m = design.shape
        constraints = np.block([[design, -np.eye(P)], [-design, -np.eye(P)]])
        cost = np.concatenate([np.zeros(m), np.ones(P)])
        bounds = [(0, 1)] * m + [(0, None)] * P
        best = linprog(cost, A_ub=constraints, b_ub=np.concatenate([y, -y]), bounds=bounds).fun
        np.testing.assert_allclose(np.abs(y - design @ clicks[i]).sum(), float(best or 0.0), rtol=1e-7)


@pytest.mark.parametrize("attack", [BoxLeastSquares(), BoxLeastAbsolute()])
def test_a_box_decoder_undoes_an_active_clip(attack: BoxLeastSquares) -> None:
    """Every model is shrunk to norm 1, and the clicks' effect with it."""
    law = GammaShare(n=1000, scale=1e-9)
    made = simulated(60, law, known("all", "shown", Ball(norm=1.0), law), k=5, features=12)
    assert np.allclose(np.linalg.norm(made.view.models, axis=1), 1.0)
    blind = replace(made.view, knowledge=made.view.knowledge.without(frozenset({"clip"})))
    mixed = made.clicks.any(axis=1) & ~made.clicks.all(axis=1)
    right, without = (
        (answer(attack, view).guess[:, 0] == made.clicks)[mixed].mean() for view in (made.view, blind)
    )
    assert right > 0.97
    assert right > without + 0.1


# --- RAIFLE ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", ["none", "clip:norm=0.9"])
@pytest.mark.parametrize("interactions", [1, 2])
def test_raifle_finds_clicks_without_noise(interactions: int, clip: str, setup_of: SetupOf) -> None:
    """All but ties of lists in which everything or nothing was clicked."""
    text = learner("all", "shown", interactions=interactions)
    real = sent(setup_of(clients=40, learner=text, data=wide(7), defense=(clip,)))
    clicks, there = real.clicks, real.view.is_document
    told_lists = clicks.any(axis=2) & (clicks != there).any(axis=2)
    here = there & told_lists[..., np.newaxis]
    assert told_lists.sum() > 8
    assert (answer(Raifle(), real.view).guess == clicks)[here].mean() >= 0.95


def loss(view: View, clicks: Floats) -> Floats:
    """Half the squared distance of the replayed models to the messages, (n,); no clip."""
    relaxed = ClickRelaxation(view)
    model = view.parameters
    for b in range(clicks.shape[1]):
        model = model + np.einsum("npk,nk->np", relaxed.effect(model, b), clicks[:, b])
    return np.asarray(((model - view.models) ** 2).sum(axis=1) / 2)


def test_raifle_brings_its_loss_down(setup_of: SetupOf) -> None:
    """Below that of the start, one half everywhere, and the further the more steps."""
    text = learner("all", "shown", interactions=2)
    view = sent(setup_of(clients=40, learner=text, data=wide(7))).view
    losses = [loss(view, np.where(view.is_document, 0.5, 0.0))]
    losses += [loss(view, answer(Raifle(steps=steps), view).scores) for steps in (5, 30, 150)]
    moved = losses[0] > 1e-6 * losses[0].max()
    assert moved.sum() > 3
    assert np.all(losses[-1][moved] < losses[0][moved])
    assert losses[0].mean() > losses[1].mean() > losses[2].mean() > losses[3].mean()
    assert losses[3].mean() < 0.01 * losses[0].mean()


def test_what_cannot_be_replayed_is_refused() -> None:
    law = GammaShare(n=3, scale=0.3)
    seen = simulated(2, law, known("all", "shown", None, law)).view
    for attack in (BoxLeastSquares(), BoxLeastAbsolute(), Raifle()):
        for name in ("learning_rate", "pairs", "normaliser", "order"):
            hidden = replace(seen, knowledge=seen.knowledge.without(frozenset({name})))
            assert attack.why_not(hidden) == f"the observer does not know: {name}"
        reason = "the observer does not know: candidates (PDGD normalises over them)"
        assert attack.why_not(told(seen, normaliser="candidates", candidates=False)) == reason
    assert LeastAbsolute().why_not(told(seen, learning_rate=None, pairs=None)) is None
