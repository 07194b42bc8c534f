"""Linking messages of a client: the statistic by textbook formulas, null worlds, and worlds that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from foltr_audit.attacks.linkage import (
    Linkage,
    alike,
    click_behaviour,
    same_count,
    same_direction,
    same_kind,
    standardised,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multivariate_normal, norm

from foltr_audit.core.plugins import Attack, Inference, LinkAttack, View
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.judge.linkage import LinkEvidence, offered
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import join_pieces
from foltr_audit.judge.protocol import judge
from foltr_audit.judge.queries import TruthRanks
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import MemoryRoundStore
from foltr_audit.utils.arrays import Floats, Ints
from tests.conftest import SetupOf
from tests.fixtures.client_recordings import DATA, recorded, reordered
from tests.fixtures.tiny import view

ATTACK = Linkage()
CHOICES = 5


def judged(
    recording: MemoryRoundStore,
    *attacks: LinkAttack,
    choices: int = CHOICES,
    hidden: tuple[str, ...] = (),
    seed: int = 1,
) -> LinkEvidence:
    observer = Observer(recording.header, DATA, frozenset(hidden))
    protocol = AttackSpec(choices=choices)
    found = judge(recording, observer, attacks or [ATTACK], Streams(seed), protocol).found["client"]
    assert isinstance(found, LinkEvidence)
    return found


def p_value(placed: TruthRanks, chance: float) -> float:
    """How likely guessing names as many, each message counting once with its share of ties."""
    return float(binom.sf(np.floor(placed.first.sum()) - 1, placed.first.size, chance))


# --- the statistic --------------------------------------------------------------------------------


def test_click_behaviour_is_compared_by_a_ratio_of_normal_densities() -> None:
    rng = np.random.default_rng(1)
    ours, theirs = rng.normal(size=(6, 3)), rng.normal(size=(9, 3))
    ours[2, 1] = np.nan
    pairs = rng.integers(0, 9, size=(6, 4))
    found = alike(ours, theirs, pairs)
    a, b = standardised(ours), standardised(theirs)
    both = multivariate_normal(mean=[0, 0], cov=[[1, 0.2], [0.2, 1]])
    for i, j, f in np.ndindex(found.shape):
        x, y = a[i, f], b[pairs[i, j], f]
        expected = 0.0 if (i, f) == (2, 1) else both.logpdf([x, y]) - norm.logpdf(x) - norm.logpdf(y)
        assert found[i, j, f] == pytest.approx(expected)


def test_numbers_are_standardised_and_far_ones_cut_off() -> None:
    numbers = np.column_stack([np.arange(30.0), np.append(np.arange(29) % 2, 1e9), np.full(30, 0.1)])
    found = standardised(numbers)
    np.testing.assert_allclose(found[:, 0], (numbers[:, 0] - 14.5) / numbers[:, 0].std())
    assert found[-1, 1] == 3.0
    np.testing.assert_allclose(found[:, 2], 0.0, atol=1e-15)
    numbers[3, 0] = np.nan
    assert np.isnan(standardised(numbers)[3, 0])


def test_counts_are_the_same_or_slipped() -> None:
    theirs = np.array([1.0, 1, 1, 4])
    found = same_count(np.array([1.0, 4, 9]), theirs, np.tile([0, 3], (3, 1)))
    frequency = {1.0: 0.75, 4.0: 0.25}
    for i, ours in enumerate([1.0, 4.0, 9.0]):
        for j, other in enumerate([1.0, 4.0]):
            same = 0.95 * (ours == other) + 0.05 * frequency[other]
            assert found[i, j] == pytest.approx(np.log(same / frequency[other]))
    assert not same_count(np.ones(3), np.ones(4), np.tile([0, 3], (3, 1))).any(), "one size, nothing to say"


def test_one_kind_explains_both_or_one_each() -> None:
    rng = np.random.default_rng(2)
    ours, theirs = np.log(rng.random((4, 3))), np.log(rng.random((5, 3)))
    pairs = np.tile(np.arange(5), (4, 1))
    found = same_kind(
        ours - ours.max(axis=1, keepdims=True), theirs - theirs.max(axis=1, keepdims=True), pairs
    )
    for i, j in np.ndindex(4, 5):
        one, two = np.exp(ours[i]), np.exp(theirs[j])
        assert found[i, j] == pytest.approx(np.log((one * two).mean() / (one.mean() * two.mean())))


def test_directions_are_cosines_of_what_differs_from_the_mean() -> None:
    rng = np.random.default_rng(3)
    ours, theirs = rng.normal(size=(6, 4)), rng.normal(size=(7, 4))
    pairs = rng.integers(0, 7, size=(6, 3))
    a, b = ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)
    a, b = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (a, b))
    cosines = np.array([[a[i] @ b[j] for j in row] for i, row in enumerate(pairs)])
    z = (cosines - cosines.mean()) / cosines.std()
    expected = norm.logpdf(z, loc=0.25) - norm.logpdf(z)
    np.testing.assert_allclose(same_direction(ours, theirs, pairs), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(same_direction(1e200 * ours, theirs, pairs), expected, rtol=1e-9, atol=1e-9)
    assert np.ptp(same_direction(np.ones((6, 4)), theirs, pairs)) == 0.0, "all alike, nothing to say"


def test_click_rates_by_hand() -> None:
    seen = view(3, B=2)
    clicked = np.random.default_rng(4).random(seen.shown.shape)
    found = click_behaviour(clicked, seen)
    assert seen.labels is not None
    for i in range(3):
        here, relevant = seen.is_document[i], seen.labels[i] > 0
        n = here.any(axis=1).sum()
        expected = [clicked[i][here].sum() / n] + [
            clicked[i][here & of].mean() for of in (relevant, ~relevant)
        ]
        np.testing.assert_allclose(found[i], expected)
    blind = click_behaviour(clicked, replace(seen, labels=None))
    assert np.isnan(blind[:, 1:]).all()


@pytest.mark.parametrize("use", ["", "count/count", "size", "count/"])
def test_traits_that_are_none_are_refused(use: str) -> None:
    with pytest.raises(PluginError, match="use"):
        make(Attack, f"linkage:use={use}")


# --- worlds that differ ---------------------------------------------------------------------------


def test_numbers_of_interactions_link_clients(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=2, intents=[0] * 40, sizes=(1, 2, 1, 1))
    evidence = judged(recording, Linkage(use="count"), Linkage(use="count/direction"))
    count = evidence.baselines["count"].first
    np.testing.assert_allclose(evidence.placed["linkage:use=count"].first, count)
    for placed in (*evidence.placed.values(), evidence.baselines["count"]):
        assert placed.first.mean() > 1.3 / CHOICES
    few = np.isin(evidence.client.astype(int) % 4, [1])
    assert count[few].mean() > 2 * count[~few].mean(), "who is rare is found"


USERS = {"click_models": ("perfect", "navigational")}


@pytest.mark.parametrize(
    ("use", "world"),
    [
        ("clicks", {"intents": [0] * 1200, **USERS}),
        ("intents", {"intents": [0, 1] * 300}),
        ("clicks/intents/direction/count", {"intents": [0, 0, 1, 1] * 150, **USERS}),
    ],
)
def test_what_persists_is_seen_and_what_does_not_is_not(
    use: str, world: dict[str, Any], setup_of: SetupOf
) -> None:
    """Clients who differ by click model or intent; and the same messages with their senders mixed up."""
    recording = recorded(setup_of, rounds=3, **world)
    attack = Linkage(use=use)
    placed = judged(recording, attack).placed[attack.label]
    assert p_value(placed, 1 / CHOICES) < 1e-4
    rng = np.random.default_rng(9)
    mixed = [replace(truth, clients=rng.permutation(truth.clients)) for truth in recording.truth]
    null = judged(replace(recording, truth=mixed), attack).placed[attack.label]
    assert 1e-3 < p_value(null, 1 / CHOICES) < 1 - 1e-3


# --- judging --------------------------------------------------------------------------------------


def test_the_order_of_clients_does_not_matter(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=3, intents=[0, 1] * 10)
    one, other = judged(recording), judged(reordered(recording))
    assert one.client.tolist() == other.client.tolist()
    mine, theirs, again = (each.placed["linkage"] for each in (one, other, judged(recording)))
    np.testing.assert_allclose(mine.probability, theirs.probability, rtol=1e-9, atol=0)
    assert np.array_equal(mine.rank, theirs.rank)
    assert mine.probability.tobytes() == again.probability.tobytes()


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=12, unique=True),
    st.lists(st.integers(0, 20), min_size=2, max_size=12, unique=True),
    st.integers(2, 8),
)
def test_each_client_is_among_its_choices_once(before: list[int], now: list[int], choices: int) -> None:
    ours, theirs = np.array(before), np.array(now)
    offer = offered(ours, theirs, choices, Streams(1), 4)
    both = sorted(set(before) & set(now))
    if offer is None:
        assert not both
        return
    assert ours[offer.message].tolist() == both
    assert offer.choices.shape == (len(both), min(choices, len(now)))
    for row, client in enumerate(both):
        clients = theirs[offer.choices[row]].tolist()
        assert len(set(clients)) == len(clients)
        assert clients[offer.right[row]] == client
    turned = offered(ours[::-1], theirs[::-1], choices, Streams(1), 4)
    assert turned is not None
    assert np.array_equal(theirs[::-1][turned.choices], theirs[offer.choices])


def test_nobody_to_be_told_from() -> None:
    assert offered(np.array([3]), np.array([3]), 5, Streams(1), 0) is None
    assert offered(np.array([3]), np.array([4, 5]), 5, Streams(1), 0) is None


class Blind(LinkAttack):
    """Says what it is told to."""

    name = "toy-blind-link"
    says: str = "alike"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        nothing = np.zeros(view.shown.shape)
        traits = None if self.says == "nothing" else np.zeros((len(view), 1))
        return Inference(scores=nothing, guess=nothing > 0, answer=traits)

    def likeness(self, first: Floats, second: Floats, offered: Ints) -> Floats:
        return np.full(offered.shape, np.nan if self.says == "nonsense" else 0.0)


def test_ties_count_as_chance(setup_of: SetupOf) -> None:
    evidence = judged(recorded(setup_of, rounds=2, intents=[0] * 8), Blind())
    np.testing.assert_allclose(evidence.placed["toy-blind-link"].first, 1 / CHOICES)
    few = judged(recorded(setup_of, rounds=2, intents=[0] * 3), Blind())
    assert few.choices.tolist() == [3, 3, 3]
    assert (few.asked, few.placed["toy-blind-link"].probability[0]) == (CHOICES, pytest.approx(1 / 3))


def test_one_round_is_refused(setup_of: SetupOf) -> None:
    evidence = judged(recorded(setup_of, rounds=1, intents=[0] * 4))
    assert evidence.client.size == 0
    assert "two recorded rounds" in evidence.refused["linkage"]


@pytest.mark.parametrize(("says", "word"), [("nothing", "a row for each message"), ("nonsense", "how like")])
def test_an_answer_that_is_none_is_an_error(says: str, word: str, setup_of: SetupOf) -> None:
    with pytest.raises(PluginError, match=word):
        judged(recorded(setup_of, rounds=2, intents=[0] * 4), Blind(says=says))


def test_without_truth_nothing_is_scored(setup_of: SetupOf) -> None:
    with pytest.raises(UsageError, match="holds no truth"):
        judged(replace(recorded(setup_of, rounds=2, intents=[0] * 4), has_truth=False))


@pytest.mark.parametrize("hidden", [("learning_rate",), ("order",), ("relevance",), ("click_model",)])
def test_what_cannot_be_decoded_is_left_out(hidden: Sequence[str], setup_of: SetupOf) -> None:
    evidence = judged(recorded(setup_of, rounds=2, intents=[0, 1] * 4), hidden=tuple(hidden))
    assert np.isfinite(evidence.placed["linkage"].probability).all()


def test_pieces_add_up_and_refusals_stay(setup_of: SetupOf) -> None:
    one = judged(recorded(setup_of, rounds=2, intents=[0] * 4), Blind())
    none = judged(recorded(setup_of, rounds=1, intents=[0] * 4), Blind())
    both = join_pieces([one, one])
    assert both.client.size == 8
    assert both.baselines["count"].first.size == 8
    assert join_pieces([one, none]).placed == {}
    assert "toy-blind-link" in join_pieces([none, one]).refused
