"""Randomised response on clicks: chances of each report, its loss by brute force, unbiased updates."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from foltr_audit.defenses.click_rr import ClickRR
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from foltr_audit.privacy.events import ClickRandomization, NormScaling
from foltr_audit.simulation.federation import Federation
from foltr_audit.utils.arrays import Bools, Floats
from tests.conftest import SetupOf
from tests.fixtures import tiny
from tests.fixtures.reference import exact_pair_weights, pairwise_gradient

FALSE_ALARM = 1e-4


def reported(defense: ClickRR, clicks: Bools, step: int = 0, round_: int = 0) -> Bools:
    """Reports of whole lists, (C, k)."""
    C, k = clicks.shape
    shown = np.tile(np.arange(k), (C, 1))
    return defense.on_clicks(clicks, shown, step, tiny.context(range(C), round_=round_))


def chance(defense: ClickRR, clicks: tuple[int, ...], report: tuple[int, ...]) -> float:
    """Probability of a report of one list."""
    keep = 1 / (1 + math.exp(-defense.epsilon))
    same = sum(a == b for a, b in zip(clicks, report, strict=True))
    return keep**same * (1 - keep) ** (len(clicks) - same)


# --- reports -------------------------------------------------------------------------------------------


def test_whole_reports_follow_their_law() -> None:
    """All 2^3 reports of one list: bits lie independently of each other, positions and steps."""
    defense, clicks = ClickRR(keep=0.7), (1, 0, 1)
    for step in (0, 1, 7):
        out = reported(defense, np.tile(np.array(clicks, dtype=np.bool_), (8000, 1)), step=step)
        patterns = list(product((0, 1), repeat=3))
        counts = np.bincount(out @ np.array([4, 2, 1]), minlength=8)
        law = np.array([chance(defense, clicks, report) for report in patterns])
        assert stats.chisquare(counts, 8000 * law).pvalue > FALSE_ALARM
        assert stats.chisquare(counts, 8000 * law[::-1]).pvalue < FALSE_ALARM
    apart = [reported(defense, np.zeros((50, 10), dtype=np.bool_), step=s) for s in range(3)]
    assert not np.array_equal(apart[0], apart[1])
    assert not np.array_equal(apart[1][:, :9], apart[0][:, 1:])


def test_padding_stays_without_clicks() -> None:
    shown = np.where(np.arange(10) < np.arange(11)[:, np.newaxis], np.arange(10), -1)
    for fill in (False, True):
        clicks = np.full((11, 10), fill) & (shown >= 0)
        for step in range(5):
            out = ClickRR(eps=0.1).on_clicks(clicks, shown, step, tiny.context(range(11)))
            assert not out[shown < 0].any()
            assert out.dtype == np.bool_
    assert out.any()


@pytest.mark.parametrize("given", [{"eps": 1.2}, {"keep": 0.6}, {"eps": 4.0}])
def test_the_loss_of_one_click_is_epsilon_by_brute_force(given: dict[str, float]) -> None:
    """Over all reports, for a flipped click and for another list of clicks: eps, and k eps."""
    defense, k = ClickRR(**given), 4
    every = list(product((0, 1), repeat=k))
    one = max(
        math.log(chance(defense, (1, 0, 0, 1), report) / chance(defense, (1, 0, 1, 1), report))
        for report in every
    )
    whole = max(
        math.log(chance(defense, (1, 0, 0, 1), report) / chance(defense, (0, 1, 1, 0), report))
        for report in every
    )
    assert one == pytest.approx(defense.epsilon, rel=1e-12)
    assert whole == pytest.approx(k * defense.epsilon, rel=1e-12)
    assert {(claim.epsilon, claim.unit, claim.relation) for claim in defense.claims(tiny.context([0]))} == {
        (defense.epsilon, "click", "replace-one")
    }
    assert {claim.view for claim in defense.claims(tiny.context([0]))} >= {"individual", "aggregate"}


# --- debiasing -----------------------------------------------------------------------------------------


def expected_message(
    defense: ClickRR, clicks: tuple[int, ...], last_click_plus_1: bool
) -> tuple[Floats, ...]:
    """Mean of the debiased update over every report, and the update of the true clicks."""
    rng, k = np.random.default_rng(3), len(clicks)
    J, scores = rng.normal(size=(k, tiny.FEATURES)), rng.normal(size=k)
    W = exact_pair_weights(scores, range(k), True)
    here = tiny.context([0])
    mean = np.zeros(tiny.FEATURES)
    for report in product((0, 1), repeat=k):
        update = 0.1 * pairwise_gradient(W, J, [bool(bit) for bit in report], last_click_plus_1)
        sent = defense.on_message(here.parameters[np.newaxis] + update, here)
        mean += chance(defense, clicks, report) * (sent[0] - here.parameters)
    return mean, 0.1 * pairwise_gradient(W, J, [bool(bit) for bit in clicks], last_click_plus_1)


@pytest.mark.parametrize("clicks", [(1, 0, 0, 0, 1), (0, 0, 0, 0, 0), (1, 1, 1, 1, 1), (0, 1, 1, 0, 0)])
@pytest.mark.parametrize("keep", [0.55, 0.9])
def test_debiased_updates_are_unbiased_with_all_pairs(clicks: tuple[int, ...], keep: float) -> None:
    found, expected = expected_message(ClickRR(keep=keep, debias=True), clicks, last_click_plus_1=False)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)
    raw, _ = expected_message(ClickRR(keep=keep), clicks, last_click_plus_1=False)
    np.testing.assert_allclose(raw, (2 * keep - 1) * expected, rtol=1e-9, atol=1e-14)


@settings(max_examples=40, derandomize=True)
@given(eps=st.floats(0.01, 15.0), update=st.floats(-1e3, 1e3))
def test_debiasing_divides_the_update(eps: float, update: float) -> None:
    here = replace(tiny.context([0], P=1), parameters=np.array([0.25]))
    sent = ClickRR(eps=eps, debias=True).on_message(np.array([[0.25 + update]]), here)
    keep = math.exp(eps) / (1 + math.exp(eps))
    assert sent[0, 0] - 0.25 == pytest.approx(update / (2 * keep - 1), rel=1e-9, abs=1e-12)


def test_a_whole_round_learns_from_reports_and_debiases_messages(setup_of: SetupOf) -> None:
    """Through the engine: the chain's clicks and messages against the same links called by hand."""
    chain = (ClickRR(eps=1.0, debias=True),)
    setup = setup_of(chain=chain, learner="fpdgd:interactions=1,pairs=all", rounds=1, clients=30)
    bare = setup_of(chain=(ClickRR(eps=1.0),), learner="fpdgd:interactions=1,pairs=all", rounds=1, clients=30)
    start = np.linspace(0.0, 1.0, tiny.FEATURES)
    sent, undone = (Federation(each).play(start, 0).recorded()[0].messages for each in (setup, bare))
    np.testing.assert_allclose(sent - start, (undone - start) / math.tanh(0.5), rtol=1e-9, atol=1e-12)
    plain = Federation(setup_of(chain=(), learner="fpdgd:interactions=1,pairs=all", rounds=1, clients=30))
    assert not np.allclose(plain.play(start, 0).recorded()[0].messages, undone)


# --- events and refusals ---------------------------------------------------------------------------------


def test_stages_and_events() -> None:
    here = tiny.context([0])
    plain, mended = ClickRR(eps=1.0), ClickRR(eps=1.0, debias=True)
    assert plain.stages == ("click",)
    assert mended.stages == ("click", "message")
    assert plain.events_in("click", here) == (ClickRandomization(epsilon=1.0),)
    assert mended.events_in("click", here)[0] == ClickRandomization(epsilon=1.0)
    (grown,) = mended.events_in("message", here)
    assert isinstance(grown, NormScaling)
    assert grown.of == "update"
    assert grown.factor == pytest.approx(1 / math.tanh(0.5), rel=1e-12)
    assert ClickRR(keep=0.75).epsilon == pytest.approx(math.log(3), rel=1e-12)
