"""Compression: quantised, signed and sparse updates against their laws, and what bounds them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from foltr_audit.defenses.compression import Quantise, RandomK, Sign, TopK
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import PluginError
from foltr_audit.privacy.events import NormBound, NormScaling, OpaqueChange
from foltr_audit.utils.arrays import Bools, Floats
from tests.fixtures import tiny
from tests.fixtures.reference import chi_square_p

FALSE_ALARM = 1e-4


def quantised(defense: Quantise, update: float, clients: int, P: int) -> Floats:
    """What becomes of equal updates, around a global model of zeros for which nothing is rounded."""
    here = replace(tiny.context(range(clients), P=P), parameters=np.zeros(P))
    return defense.on_message(np.full((clients, P), update), here)


@settings(max_examples=80, derandomize=True)
@given(
    size=st.floats(1e-3, 1e3),
    grid=st.one_of(st.integers(2, 9), st.floats(0.05, 1.0)),
    update=st.floats(-2.0, 2.0),
)
def test_updates_come_to_a_neighbouring_grid_point_inside_the_range(
    size: float, grid: float, update: float
) -> None:
    defense = (
        Quantise(range=size, levels=grid) if isinstance(grid, int) else Quantise(range=size, step=grid * size)
    )
    sent = quantised(defense, update * size, 2, 30)
    (last,) = [event.norm for event in defense.events(tiny.context([0])) if isinstance(event, NormBound)]
    assert last <= size * (1 + 1e-9)
    assert np.abs(sent).max() <= last
    places = (sent + last) / defense.width
    np.testing.assert_allclose(places, np.rint(places), atol=1e-9)
    inside = max(-last, min(last, update * size))
    assert np.abs(sent - inside).max() < defense.width * (1 + 1e-9)


@pytest.mark.parametrize("update", [0.0, 0.1, -0.73, 0.999, -1.0])
@pytest.mark.parametrize(
    "defense",
    [Quantise(range=1.0, levels=2), Quantise(range=1.0, levels=5), Quantise(range=1.0, step=0.25)],
    ids=lambda defense: defense.text,
)
def test_the_expectation_is_the_update(defense: Quantise, update: float) -> None:
    """Two values, so their frequencies say all: an exact binomial test, which catches a wrong one."""
    sent = quantised(defense, update, 200, 50).ravel()
    below = math.floor((update + 1.0) / defense.width) * defense.width - 1.0
    chance = (update - below) / defense.width
    ups = int(np.sum(sent > below + 0.5 * defense.width))
    assert stats.binomtest(ups, sent.size, min(1.0, chance)).pvalue > FALSE_ALARM
    if 0.05 < chance < 0.95:
        assert stats.binomtest(ups, sent.size, chance * 0.85).pvalue < FALSE_ALARM
    else:
        assert np.ptp(sent) == 0 or chance > 0, "a grid point stays where it is"


def test_what_lies_outside_is_cut_off() -> None:
    for far in (1.5, 1e300):
        assert set(quantised(Quantise(range=1.0, levels=3), far, 3, 9).ravel().tolist()) == {1.0}
        assert set(quantised(Quantise(range=1.0, step=0.3), -far, 3, 9).ravel().tolist()) == {-0.3 * 3}


@settings(max_examples=60, derandomize=True)
@given(
    model=arrays(
        np.float64, 6, elements=st.sampled_from([0.3, -2e300, 1.7e308, math.nan, math.inf, -math.inf])
    ),
    size=st.floats(1e-6, 1e6),
)
@pytest.mark.parametrize("text", ["quantise:levels=4,range", "quantise:levels=5,range", "sign:scale"])
def test_bounds_hold_for_what_is_no_number(text: str, model: Floats, size: float) -> None:
    here = replace(tiny.context([0], P=6), parameters=np.zeros(6))
    (sent,) = make(Defense, f"{text}={size}").on_message(model[np.newaxis], here)
    assert np.abs(sent).max() <= size * (1 + 1e-12)
    usual = np.nan_to_num(model)
    (known,) = make(Defense, f"{text}={size}").on_message(usual[np.newaxis], here)
    assert sent.tobytes() == known.tobytes(), "NaN is no change, infinity a large one"


@settings(max_examples=40, derandomize=True)
@given(update=st.floats(-1e6, 1e6), scale=st.floats(1e-3, 1e3))
def test_signs(update: float, scale: float) -> None:
    here = replace(tiny.context([0], P=1), parameters=np.zeros(1))
    sent = Sign(scale=scale).on_message(np.array([[update]]), here)
    assert sent[0, 0] == (0.0 if update == 0 else math.copysign(scale, update))
    single = Sign(scale=scale).on_message(np.array([[update]], dtype=np.float32), here)
    assert single.dtype == np.float64


def test_events() -> None:
    here = tiny.context([0])
    assert Quantise(range=2.0, levels=5).events(here) == (
        OpaqueChange(mechanism="quantise"),
        NormBound(norm=2.0, ord=math.inf, of="update"),
    )
    assert Sign(scale=3.0).events(here) == (
        OpaqueChange(mechanism="sign"),
        NormBound(norm=3.0, ord=math.inf, of="update"),
    )


P = 5
updates_of = arrays(np.float64, (3, P), elements=st.one_of(st.just(0.0), st.floats(-9, 9), st.just(1e200)))


def sent_places(defense: TopK | RandomK, round_: int = 0, clients: int = 1) -> Bools:
    """Which coordinates of an update that is nowhere 0 are sent, (clients, P)."""
    here = tiny.context(range(clients), P=P, round_=round_)
    sent = defense.on_message(np.tile(here.parameters + 1.0, (clients, 1)), here)
    return np.asarray(sent != here.parameters)


@settings(max_examples=60, derandomize=True)
@given(updates=updates_of, k=st.integers(1, 7))
def test_top_k_keeps_the_largest_and_nothing_grows(updates: Floats, k: int) -> None:
    here = tiny.context(range(3), P=P)
    models = here.parameters + updates
    sent = TopK(k=k).on_message(models, here)
    changes = np.abs(models - here.parameters)
    for row, (model, change) in enumerate(zip(models, changes, strict=True)):
        order = sorted(range(P), key=lambda j: (-change[j], j))[:k]
        expected = [model[j] if j in order else here.parameters[j] for j in range(P)]
        assert sent[row].tolist() == expected
    for norm in (1, 2, np.inf):
        small = changes < 1e100
        before, after = np.where(small, changes, 0), np.where(small, np.abs(sent - here.parameters), 0)
        assert np.all(np.linalg.norm(after, norm, axis=1) <= np.linalg.norm(before, norm, axis=1) + 1e-12)


def test_the_places_of_random_k_are_the_same_for_all_and_new_every_round() -> None:
    first = sent_places(RandomK(k=2), clients=9)
    assert np.all(first == first[0])
    assert first[0].sum() == 2
    assert np.array_equal(sent_places(RandomK(k=2))[0], first[0])
    for client in (7, 3, 12):  # whoever comes first in a cohort
        here = tiny.context([client], P=P, round_=0)
        sent = RandomK(k=2).on_message(here.parameters[np.newaxis] + 1.0, here)
        assert np.array_equal(sent[0] != here.parameters, first[0])
    rounds = {sent_places(RandomK(k=2), round_=r)[0].tobytes() for r in range(60)}
    assert len(rounds) == 10, "each of the 10 pairs of 5 coordinates comes up"


def test_every_choice_of_random_k_is_as_likely() -> None:
    choices: list[tuple[int, ...]] = list(combinations(range(P), 2))
    counts, lopsided = np.zeros(len(choices)), np.zeros(len(choices))
    for r in range(3000):
        places = tuple(np.flatnonzero(sent_places(RandomK(k=2), round_=r)[0]).tolist())
        counts[choices.index(places)] += 1
        lopsided[choices.index(places if r % 6 else (0, 1))] += 1
    law = np.full(len(choices), 1 / len(choices))
    assert chi_square_p(counts, law) > FALSE_ALARM
    assert chi_square_p(lopsided, law) < FALSE_ALARM


@settings(max_examples=40, derandomize=True)
@given(update=arrays(np.float64, P, elements=st.floats(-9, 9)), k=st.integers(1, P))
def test_rescaling_makes_random_k_unbiased(update: Floats, k: int) -> None:
    """Over all choices, each as likely: the mean of what is sent for each is the update."""
    seen: dict[bytes, Floats] = {}
    for r in range(400):
        places = sent_places(RandomK(k=k), round_=r)[0]
        if places.tobytes() not in seen:
            here = tiny.context([0], P=P, round_=r)
            sent = RandomK(k=k, rescale=True).on_message(here.parameters[np.newaxis] + update, here)
            seen[places.tobytes()] = sent[0] - here.parameters
    assert len(seen) == len(list(combinations(range(P), k)))
    mean = np.mean(list(seen.values()), axis=0)
    np.testing.assert_allclose(mean, update, rtol=1e-12, atol=1e-14 * P)
    if k < P and np.abs(update).max() > 0.1:
        assert not np.allclose(mean * k / P, update), "without rescaling it is not"


def test_events_and_refusals() -> None:
    here = tiny.context([0], P=10)
    assert TopK(k=3).events(here) == RandomK(k=3).events(here) == (NormScaling(factor=1.0, of="update"),)
    assert RandomK(k=4, rescale=True).events(here) == (NormScaling(factor=2.5, of="update"),)
    for text in ("top-k:k=0", "random-k:k=-1", "top-k:k=1.5"):
        with pytest.raises(PluginError, match=f"defense {text.replace(':', ': ')}: "):
            parse_chain([text])
