"""Robust rules and FLTrust against plain loops, what malicious messages can do, and what is refused."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Dataset
from foltr_audit.errors import UsageError
from foltr_audit.privacy.accounting import AccountingContext, SumMembers, upper_bound
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.training import ServerLearning
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES, context

P = 4
Kind = Literal["model", "update"]
KRUM = ("krum:malicious=1", "multi-krum:malicious=2", "multi-krum:malicious=1,chosen=3")
RULES = (*KRUM, "median", "trimmed-mean:share=.2", "norm-bound:norm=.7")
START = np.linspace(-0.4, 0.5, FEATURES)
seeds = st.integers(0, 10**6)
sizes = st.integers(7, 13)


def drawn(seed: int, size: int) -> tuple[Floats, Floats]:
    """Messages (size, P), some far away, and weights."""
    rng = np.random.default_rng(seed)
    messages = rng.normal(size=(size, P)) * rng.choice([1.0, 10.0], size=(size, 1))
    weights = rng.random(size)
    return messages, weights / weights.sum()


def ruled(text: str, messages: Floats, weights: Floats | None = None, message: Kind = "model") -> Floats:
    given = np.full(len(messages), 1 / len(messages)) if weights is None else weights
    here = replace(context(range(len(messages)), P=messages.shape[1]), message=message)
    return make(Defense, text).on_aggregate(given @ messages, messages, given, here)


def scores(messages: Sequence[Sequence[float]], nearest: int) -> list[float]:
    """Krum scores by plain loops."""
    found = []
    for i, one in enumerate(messages):
        apart = [
            sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
            for j, other in enumerate(messages)
            if i != j
        ]
        found.append(sum(sorted(apart)[:nearest]))
    return found


def ranked(messages: Sequence[Sequence[float]], nearest: int) -> list[int]:
    """Rows from the least score on, the first of equal ones first."""
    found = scores(messages, nearest)
    return sorted(range(len(found)), key=lambda row: (found[row], row))


@settings(max_examples=60, derandomize=True)
@given(seed=seeds, size=sizes, f=st.integers(0, 2))
def test_krum_and_multi_krum_follow_their_scores(seed: int, size: int, f: int) -> None:
    messages, _ = drawn(seed, size)
    order = ranked(messages.tolist(), size - f - 2)
    assert ruled(f"krum:malicious={f}", messages).tolist() == messages[order[0]].tolist()
    for chosen in (1, 3, size - f):
        mean = [statistics.fmean(messages[order[:chosen], j].tolist()) for j in range(P)]
        found = ruled(f"multi-krum:chosen={chosen},malicious={f}", messages)
        np.testing.assert_allclose(found, mean, rtol=1e-12, atol=1e-12)
    assert np.array_equal(found, ruled(f"multi-krum:malicious={f}", messages)), "S - f are the default"


def test_of_equal_scores_the_first_message_is_taken() -> None:
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
    for first in range(4):
        turned = np.roll(square, first, axis=0)
        assert ruled("krum:malicious=0", turned).tolist() == turned[0].tolist()


@settings(max_examples=60, derandomize=True)
@given(seed=seeds, size=st.integers(11, 14), f=st.integers(0, 2))
def test_bulyan_selects_by_krum_then_takes_the_values_near_the_median(seed: int, size: int, f: int) -> None:
    messages, _ = drawn(seed, size)
    left: list[list[float]] = messages.tolist()
    selected: list[list[float]] = []
    while len(selected) < size - 2 * f:
        selected.append(left.pop(ranked(left, max(1, len(left) - f - 2))[0]))
    expected = []
    for column in zip(*selected, strict=True):
        middle = statistics.median(column)
        near = sorted(sorted(column), key=lambda value: abs(value - middle))[: size - 4 * f]
        expected.append(statistics.fmean(near))
    np.testing.assert_allclose(ruled(f"bulyan:malicious={f}", messages), expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, derandomize=True)
@given(seed=seeds, size=st.integers(1, 12), share=st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.49]))
def test_median_and_trimmed_mean_of_each_coordinate(seed: int, size: int, share: float) -> None:
    messages, _ = drawn(seed, size)
    columns = [sorted(column) for column in messages.T.tolist()]
    dropped = round(share * 100) * size // 100
    medians = [statistics.median(column) for column in columns]
    means = [statistics.fmean(column[dropped : size - dropped]) for column in columns]
    np.testing.assert_allclose(ruled("median", messages), medians, rtol=1e-12, atol=1e-12)
    found = ruled(f"trimmed-mean:share={share}", messages)
    np.testing.assert_allclose(found, means, rtol=1e-12, atol=1e-12)


def test_a_share_that_is_rounded_down_in_floating_point_is_meant_as_written() -> None:
    messages = np.arange(100.0)[:, np.newaxis] ** 3
    assert 0.29 * 100 < 29
    assert ruled("trimmed-mean:share=.29", messages)[0] == pytest.approx(messages[29:71].mean(), rel=1e-14)


@settings(max_examples=60, derandomize=True)
@given(seed=seeds, size=sizes)
def test_norm_bound_scales_updates_of_models_and_of_updates_alike(seed: int, size: int) -> None:
    updates, weights = drawn(seed, size)
    expected = np.zeros(P)
    for update, weight in zip(updates, weights, strict=True):
        expected += weight * update * min(1.0, 0.7 / float(np.linalg.norm(update)))
    start = context([0], P=P).parameters
    as_updates = ruled("norm-bound:norm=.7", updates, weights, "update")
    as_models = ruled("norm-bound:norm=.7", start + updates, weights)
    np.testing.assert_allclose(as_updates, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(as_models - start, expected, rtol=1e-10, atol=1e-12)
    assert np.linalg.norm(as_updates) <= 0.7 + 1e-12


@pytest.mark.parametrize(
    "text",
    ["krum:malicious=2", "multi-krum:malicious=2", "bulyan:malicious=2", "median", "trimmed-mean:share=.2"],
)
@pytest.mark.parametrize("size", [1e3, 1e200])
def test_two_malicious_messages_stay_without_effect(text: str, size: float) -> None:
    honest = np.random.default_rng(3).normal(size=(9, P))
    found = ruled(text, np.vstack([np.full((1, P), size), honest, np.full((1, P), -size)]))
    assert np.all((honest.min(axis=0) <= found) & (found <= honest.max(axis=0)))


@pytest.mark.parametrize(
    ("text", "fewest"),
    [
        ("krum:malicious=2", 7),
        ("multi-krum:malicious=2", 7),
        ("multi-krum:chosen=8,malicious=2", 10),
        ("bulyan:malicious=2", 11),
    ],
)
def test_too_few_messages_are_refused(text: str, fewest: int) -> None:
    messages, _ = drawn(1, fewest)
    assert np.isfinite(ruled(text, messages)).all()
    with pytest.raises(UsageError, match=f"{fewest - 1} messages .* expected at least {fewest}, from"):
        ruled(text, messages[1:])


@pytest.mark.parametrize("text", ["trimmed-mean:share=.5", "norm-bound:norm=0", "krum:malicious=-1", "krum"])
def test_other_parameters_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"share|norm|malicious"):
        parse_chain([text])


@pytest.mark.parametrize("text", [*RULES, "bulyan:malicious=1"])
def test_they_are_refused_behind_secure_aggregation(text: str, setup_of: SetupOf) -> None:
    setup = setup_of(defense=("clip:norm=2", "secure-aggregation", text))
    with pytest.raises(UsageError, match="needs single messages, but the server has only their sum"):
        next(iter(Federation(setup).rounds(START)))


@pytest.mark.parametrize("message", ["model", "update"])
def test_a_run_knows_what_its_clients_send(message: Kind, setup_of: SetupOf) -> None:
    setup = setup_of(defense=("norm-bound:norm=1e-6",), message=message)
    model = START
    for played in Federation(setup).rounds(START):
        after = played.aggregate
        assert 0 < np.linalg.norm(after - model) <= 1.001e-6
        model = after


@pytest.mark.parametrize("text", [*RULES, "bulyan:malicious=1"])
def test_bounds_on_sums_are_lost_and_noise_of_clients_stays(text: str) -> None:
    there = AccountingContext(
        view="aggregate", unit="client", parameters=P, members=SumMembers(cohort=10), delta=1e-5
    )
    there = replace(there, interactions=1, ranked_with="global")

    def proven(view: str, *links: str) -> float:
        events = DefenseChain(parse_chain(links)).events(context([], P=P))
        return upper_bound(events, replace(there, view=view)).epsilon

    on_sum = ("clip:norm=1", "correlated-gaussian:bands=1,sigma=5")
    shares = ("clip:norm=1", "gaussian-shares:delta=1e-05,eps=1,sensitivity=3")
    whole = ("clip:norm=1", "gaussian:delta=1e-05,eps=1,sensitivity=3")
    for links in (on_sum, shares):
        assert proven("aggregate", *links) < proven("aggregate", *links, text)
    assert proven("aggregate", *on_sum, text) == proven("aggregate", *on_sum[:1], text, on_sum[1]) == np.inf
    assert proven("individual", *whole) == proven("individual", *whole, text) < np.inf


def drawn_updates(seed: int) -> tuple[Floats, Floats]:
    """Updates of six clients, (6, P), of very different lengths, and the server's own update."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(6, P)) * rng.choice([1e-3, 1.0, 1e3], size=(6, 1)), rng.normal(size=P)


def trusted(updates: Floats, own: Floats, message: Literal["model", "update"] = "update") -> Floats:
    """What the rule makes of messages of a round whose global model is far from 0."""
    here = replace(context(range(len(updates)), P=P), message=message, server_update=own)
    weights = np.full(len(updates), 1 / len(updates))
    return make(Defense, "fltrust").on_aggregate(weights @ updates, updates, weights, here)


def by_hand(updates: Sequence[Sequence[float]], own: Sequence[float]) -> list[float]:
    """Algorithm 2 of the source, by plain loops."""
    length, total, moved = math.sqrt(sum(x * x for x in own)), 0.0, [0.0] * len(own)
    for one in updates:
        size = math.sqrt(sum(x * x for x in one))
        score = max(0.0, sum(a * b for a, b in zip(one, own, strict=True)) / (size * length))
        total += score
        moved = [m + score * length / size * x for m, x in zip(moved, one, strict=True)]
    return [m / total for m in moved] if total else moved


@settings(max_examples=60, derandomize=True)
@given(seed=seeds)
def test_it_follows_the_source(seed: int) -> None:
    updates, own = drawn_updates(seed)
    np.testing.assert_allclose(trusted(updates, own), by_hand(updates.tolist(), own.tolist()), atol=1e-12)


@settings(max_examples=30, derandomize=True)
@given(seed=seeds, factor=st.sampled_from([1e-6, 7.0, 1e6]))
def test_the_length_of_a_message_is_without_effect(seed: int, factor: float) -> None:
    updates, own = drawn_updates(seed)
    longer = updates * np.where(np.arange(6) == 2, factor, 1.0)[:, np.newaxis]
    np.testing.assert_allclose(trusted(longer, own), trusted(updates, own), rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(trusted(updates, own)) <= np.linalg.norm(own) * (1 + 1e-12)


def test_updates_that_point_away_are_left_out() -> None:
    own = np.array([1.0, 0, 0, 0])
    with_others = np.array([[2.0, 0, 0, 0], [-9.0, 1, 0, 0], [0.0, 3, 0, 0]])
    np.testing.assert_array_equal(trusted(with_others, own), own)
    np.testing.assert_array_equal(trusted(-with_others[:1], own), np.zeros(P))  # nobody is trusted
    np.testing.assert_array_equal(trusted(np.zeros((2, P)), own), np.zeros(P))
    np.testing.assert_array_equal(trusted(with_others, np.zeros(P)), np.zeros(P))


def test_models_are_compared_with_the_global_one() -> None:
    updates, own = drawn_updates(3)
    start = context([0], P=P).parameters
    assert start.any()
    expected = start + trusted(updates, own)
    np.testing.assert_allclose(trusted(start + updates, own, "model"), expected, atol=1e-9)


def test_the_server_learns_from_its_own_queries_alone(setup_of: SetupOf) -> None:
    setup = setup_of(defense=("fltrust:queries=1",))
    learning = ServerLearning(setup)
    train: Dataset = setup.collection.train
    (query,) = learning.queries.tolist()
    updates = [learning.update(setup.context(round_, np.arange(2), 1, START)) for round_ in range(20)]
    moved = np.array([update for update in updates if update is not None and update.any()])
    assert len(moved) > 0
    documents = train.features[train.offsets[query] : train.offsets[query + 1]].astype(np.float64)
    apart = documents - documents.mean(axis=0)
    left = moved.T - apart.T @ np.linalg.lstsq(apart.T, moved.T, rcond=None)[0]
    np.testing.assert_allclose(left, 0, atol=1e-9)
    relevant = train.labels[train.offsets[query] : train.offsets[query + 1]] > 0
    # Scores of relevant documents rise against those of others, on average over lists.
    risen = (documents @ moved.T).mean(axis=1)
    assert risen[relevant].mean() > risen[~relevant].mean()


def test_clients_act_as_without_the_server_s_queries(setup_of: SetupOf) -> None:
    def first(*defense: str) -> tuple[Floats, Floats]:
        played = next(iter(Federation(setup_of(defense=defense)).rounds(START)))
        return np.asarray(played.sent.messages), played.after.parameters

    plain, mean = first("none")
    sent, after = first("fltrust:queries=5")
    np.testing.assert_array_equal(sent, plain)
    assert np.abs(after - mean).max() > 1e-6


def test_it_is_refused_behind_secure_aggregation(setup_of: SetupOf) -> None:
    setup = setup_of(defense=("clip:norm=2", "secure-aggregation", "fltrust"))
    with pytest.raises(UsageError, match="needs single messages, but the server has only their sum"):
        next(iter(Federation(setup).rounds(START)))
    with pytest.raises(UsageError, match="queries"):
        make(Defense, "fltrust:queries=0")
