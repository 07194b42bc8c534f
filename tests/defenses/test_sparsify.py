"""top-k and random-k: what is sent, that a public choice is public, unbiasedness."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from foltr_audit.defenses.compression import RandomK, TopK
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.errors import PluginError
from foltr_audit.privacy.events import NormScaling
from foltr_audit.utils.arrays import Bools, Floats
from tests.fixtures import tiny
from tests.fixtures.reference import chi_square_p

FALSE_ALARM = 1e-4
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
