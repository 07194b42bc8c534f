"""Attacks that go by a client step: the same answers as PDGD's own replay, closed forms, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from foltr_audit.attacks.joint_posterior import JointMaximumPosterior
from foltr_audit.attacks.maximum_posterior import MaximumPosterior
from foltr_audit.attacks.olsr import OLSR
from foltr_audit.attacks.relaxed_clicks import BoxLeastAbsolute, Raifle
from foltr_audit.attacks.robust_regressions import LeastAbsolute
from foltr_audit.attacks.score_changes import HigherScore

import foltr_audit as fa
from foltr_audit.core.plugins import Attack, Ball, ClientStep, Knowledge, View
from foltr_audit.errors import PluginError
from foltr_audit.inference.replay import StepReplay
from foltr_audit.utils.arrays import Bools, Floats
from tests.fixtures.reference import exact_pair_weights, pairwise_gradient
from tests.inference.test_pattern_decoder import LAWS, RATE, answer, known, lists

Step = Callable[[Floats, Floats, Floats], Floats]


def with_step(seen: View, step: ClientStep | Step, **changes: object) -> View:
    """The same messages for an observer who knows only the client step."""
    own = step if isinstance(step, ClientStep) else fa.numpy_step(step)
    nothing = {"learning_rate": None, "pairs": None, "normaliser": None, "ranker": "theirs"}
    return replace(seen, knowledge=seen.knowledge.having(client_step=own, **nothing, **changes))


def pair_by_pair(pairs: str) -> Step:
    """PDGD as a client step, by its definition."""

    def step(model: Floats, features: Floats, clicks: Floats) -> Floats:
        L = len(features)
        weights = exact_pair_weights(features @ model, list(range(L)), False)
        chosen = [bool(click) for click in clicks]
        return RATE * np.asarray(pairwise_gradient(weights, features, chosen, pairs == "last-click+1"))

    return step


def listwise(model: Floats, features: Floats, clicks: Floats) -> Floats:
    """A gradient step on the listwise softmax loss of a linear ranker."""
    scores = features @ model
    p = np.exp(scores - scores.max())
    return 0.1 * np.asarray(features.T @ (clicks - clicks.sum() * p / p.sum()))


def sent(
    step: Step, *, n: int = 12, B: int = 1, k: int = 6, d: int = 20, shortest: int = 2
) -> tuple[View, Bools]:
    """Messages of clients that take a step of their own on B lists each, and the clicks behind them."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(shortest, k + 1, size=(n, B))
    there = np.arange(k) < lengths[..., np.newaxis]
    features = np.where(there[..., np.newaxis], rng.normal(size=(n, B, k, d)), 0.0)
    clicks = there & (rng.random((n, B, k)) < 0.4)
    models = np.tile(rng.normal(size=d) / 4, (n, 1))
    local = models.copy()
    for i, b in product(range(n), range(B)):
        L = lengths[i, b]
        local[i] += step(local[i], features[i, b, :L], clicks[i, b, :L].astype(np.float64))
    shown = np.where(there, np.arange(k), -1)
    view = View(
        observer="individual",
        kind="model",
        parameters=models,
        messages=local,
        shown=shown,
        features=features,
        knowledge=Knowledge(noise="none", number_format="float64", feature_format="float64", ranker="theirs"),
    )
    return with_step(view, step), clicks


# --- the posterior --------------------------------------------------------------------------------


@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("ball", [None, Ball(norm=0.9)])
@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
@pytest.mark.parametrize("law", LAWS)
def test_map_with_pdgd_as_a_step_is_map(law: str, pairs: str, ball: Ball | None, always: bool) -> None:
    """Pair by pair, pattern by pattern, against the compiled replay."""
    seen = lists([1, 2, 3, 4, 0], known(pairs, "shown", ball, LAWS[law], always=always), seed=5, k=4)
    usual, own = (
        answer(MaximumPosterior(), seen),
        answer(MaximumPosterior(), with_step(seen, pair_by_pair(pairs))),
    )
    assert usual.patterns is not None
    assert own.patterns is not None
    np.testing.assert_allclose(own.patterns, usual.patterns, atol=1e-9)
    np.testing.assert_allclose(own.scores, usual.scores, atol=1e-9)
    assert np.array_equal(own.guess, usual.guess)


def test_a_clip_of_the_update_is_part_of_the_step() -> None:
    seen, clicks = sent(listwise)
    norm = 0.5 * float(np.median(np.linalg.norm(seen.updates, axis=1)))
    factor = np.minimum(1.0, norm / np.maximum(np.linalg.norm(seen.updates, axis=1), 1e-300))[:, np.newaxis]
    assert 0 < (factor < 1).sum() < len(seen)
    clipped = replace(seen, messages=seen.parameters + factor * seen.updates)
    told = with_step(clipped, listwise, update_clip=Ball(norm=norm))
    right = seen.is_document[:, 0].sum(axis=1) > 2  # of two documents, two patterns differ by a factor alone
    assert (answer(MaximumPosterior(), told).guess == clicks)[right].all()
    assert not (answer(MaximumPosterior(), clipped).guess == clicks)[right].all()


# --- regressions ----------------------------------------------------------------------------------


def test_effects_of_clicks_are_the_columns_of_a_linear_step() -> None:
    """`u = A c + b`, of which every number is known."""
    A, b = np.random.default_rng(3).normal(size=(20, 6)), np.linspace(-1, 1, 20)

    def step(model: Floats, features: Floats, clicks: Floats) -> Floats:
        return np.asarray(A[:, : len(clicks)] @ clicks + b)

    seen, clicks = sent(step, B=2)
    still, added = seen.step_effects
    np.testing.assert_allclose(still, np.tile(2 * b, (len(seen), 1)))
    for i, place in product(range(len(seen)), range(2)):
        L = int(seen.is_document[i, place].sum())
        np.testing.assert_allclose(added[i, place, :L], A[:, :L].T, atol=1e-12)
        assert not added[i, place, L:].any()
    single, clicks = sent(step)
    for attack in (OLSR(), LeastAbsolute(), MaximumPosterior()):
        assert np.array_equal(answer(attack, single).guess, clicks)


@pytest.mark.parametrize("attack", [OLSR(), LeastAbsolute()])
def test_regressions_find_clicks_that_a_listwise_loss_leaves_open(attack: Attack) -> None:
    """The loss leaves a common part of all clicks open, `c + t p`: the box from 0 to 1 decides it."""
    seen, clicks = sent(listwise, n=40, B=2)
    ranks = [np.linalg.matrix_rank(columns) for columns in seen.columns]
    documents = seen.is_document.sum(axis=(1, 2))
    assert all(rank == count - 2 for rank, count in zip(ranks, documents, strict=True))
    some = clicks.any(axis=2) & (clicks != seen.is_document).any(axis=2)
    drift = answer(attack, seen).guess == clicks
    assert drift[some].mean() > 0.9
    assert (answer(attack, cut_first(seen)).guess == clicks[:, :1])[some[:, :1]].mean() > 0.6


def cut_first(seen: View) -> View:
    """The same messages as if they were of their first list alone."""
    return replace(seen, shown=seen.shown[:, :1], features=seen.features[:, :1])


def test_noise_in_a_few_numbers_does_not_move_least_absolute_deviations() -> None:
    seen, clicks = sent(listwise, n=40)
    messages = seen.messages.copy()
    messages[:, [3, 11]] += 5.0
    told = with_step(replace(seen, messages=messages), listwise, noise="gamma-share:n=1000,scale=2.5")
    some = clicks.any(axis=2) & (clicks != seen.is_document).any(axis=2)
    assert (answer(LeastAbsolute(), told).guess == clicks)[some].all()
    assert not (answer(OLSR(), told).guess == clicks)[some].all()
    assert (answer(MaximumPosterior(), told).guess == clicks)[some].all()


# --- several lists --------------------------------------------------------------------------------


def drifting(model: Floats, features: Floats, clicks: Floats) -> Floats:
    """A large step, so that later lists depend on the clicks on earlier ones."""
    return 3.0 * listwise(model, features, clicks)


@pytest.mark.parametrize("lists", [2, 3])
def test_the_joint_search_finds_the_best_of_all_patterns(lists: int) -> None:
    """Every combination of patterns, replayed one after the other."""
    seen, clicks = sent(drifting, n=6, B=lists, k=4, d=12)
    messages = seen.messages + np.random.default_rng(1).normal(scale=0.02, size=seen.messages.shape)
    told = with_step(replace(seen, messages=messages), drifting, noise="gaussian:sigma=0.02")
    found = answer(JointMaximumPosterior(), told)
    right = 0
    for i in range(len(seen)):
        lengths = seen.is_document[i].sum(axis=1)
        every = [list(product([0.0, 1.0], repeat=int(length))) for length in lengths]
        fits = []
        for chosen in product(*every):
            model = seen.parameters[i]
            for b, pattern in enumerate(chosen):
                model = model + drifting(
                    model, seen.features[i, b, : lengths[b]].astype(float), np.array(pattern)
                )
            fits.append(float(((model - messages[i]) ** 2).sum()))
        best = list(product(*every))[int(np.argmin(fits))]
        guess = [tuple(found.guess[i, b, : lengths[b]].astype(float)) for b in range(lists)]
        right += tuple(best) == tuple(guess)
    assert right == len(seen)
    assert (found.guess == clicks).mean() > 0.95


def test_the_joint_search_of_one_list_is_map() -> None:
    seen, _ = sent(listwise, n=8)
    one, other = answer(JointMaximumPosterior(), seen), answer(MaximumPosterior(), seen)
    assert np.array_equal(one.guess, other.guess)
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-12)


# --- relaxed clicks -------------------------------------------------------------------------------


def test_gradient_matching_reads_lists_that_are_too_long_to_enumerate() -> None:
    seen, clicks = sent(listwise, n=3, k=16, d=30, shortest=16)
    assert "16 documents" in str(MaximumPosterior().why_not(seen))
    some = clicks.any(axis=2)
    assert (answer(Raifle(), seen).guess == clicks)[some].mean() > 0.95


def test_default_slopes_are_derivatives() -> None:
    def step(model: Floats, features: Floats, clicks: Floats) -> Floats:
        return np.asarray(np.sin(features.T @ clicks) + model)

    rng = np.random.default_rng(2)
    model, features, clicks = rng.normal(size=5), rng.normal(size=(3, 5)), rng.random(3)
    expected = np.cos(features.T @ clicks) * features
    np.testing.assert_allclose(fa.numpy_step(step).slopes(model, features, clicks), expected, atol=1e-8)


def test_a_gradient_is_that_of_the_distance() -> None:
    """One list: finite differences of half the squared distance, with a clip that does not act."""
    from foltr_audit.inference.relaxation import StepRelaxation

    def step(model: Floats, features: Floats, clicks: Floats) -> Floats:
        return np.asarray(0.3 * np.tanh(features.T @ clicks))

    seen, _ = sent(step, n=2, k=4)
    relaxed, clicks = StepRelaxation(seen), np.random.default_rng(1).random(seen.shown.shape)
    clicks *= seen.is_document

    def half(i: int, c: Floats) -> float:
        L = int(seen.is_document[i].sum())
        local = seen.parameters[i] + step(seen.parameters[i], seen.features[i, 0, :L].astype(float), c[:L])
        return 0.5 * float(((local - seen.models[i]) ** 2).sum())

    found = relaxed.gradient(clicks)
    for i, j in product(range(2), range(4)):
        if seen.is_document[i, 0, j]:
            move = np.eye(4)[j] * 1e-6
            slope = (half(i, clicks[i, 0] + move) - half(i, clicks[i, 0] - move)) / 2e-6
            assert found[i, 0, j] == pytest.approx(slope, abs=1e-7)


# --- refusals -------------------------------------------------------------------------------------


def test_attacks_that_replay_pdgd_refuse() -> None:
    seen, _ = sent(listwise)
    told = replace(seen, knowledge=seen.knowledge.having(learning_rate=0.1, pairs="all", normaliser="shown"))
    for view in (seen, told):
        reason = BoxLeastAbsolute().why_not(view)
        assert reason is not None
        assert "replays PDGD" in reason
        assert "listwise" in reason


def test_an_observer_without_the_settings_of_learning_has_no_step() -> None:
    seen, _ = sent(listwise)
    assert seen.knowledge.without(frozenset({"order"})).client_step is not None
    assert seen.knowledge.without(frozenset({"learning_rate"})).client_step is None


def test_a_clip_of_a_whole_update_is_of_one_list() -> None:
    seen, _ = sent(listwise, B=2)
    told = with_step(seen, listwise, update_clip=Ball(norm=0.1))
    for attack in (JointMaximumPosterior(), Raifle()):
        assert "update_clip_norm" in str(attack.why_not(told))
        assert attack.why_not(seen) is None


def test_attacks_on_scores_need_a_ranker_or_a_step_with_scores() -> None:
    seen, _ = sent(listwise)
    assert "gives none" in str(HigherScore().why_not(seen))
    scored = fa.numpy_step(listwise, scores=lambda model, features: features @ model)
    told = with_step(seen, scored)
    found = answer(HigherScore(), told)
    plain = np.einsum("nbkd,nd->nbk", seen.features, seen.updates)
    np.testing.assert_allclose(found.scores[seen.is_document], plain[seen.is_document], atol=1e-12)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda m, x, c: m[:3], r"shape \(3,\); expected \(20,\)"),
        (lambda m, x, c: m * np.nan, "not finite"),
        (lambda m, x, c: m[m.size], r"failed in tests/inference/test_step_replay\.py:\d+: IndexError: "),
    ],
)
def test_a_step_that_fails_is_named(step: Step, message: str) -> None:
    seen, _ = sent(listwise)
    with pytest.raises(PluginError, match=f"client step .*<lambda> .*{message}"):
        StepReplay(with_step(seen, step)).models(0, 0, seen.parameters[0], np.zeros((1, 2)))


def test_a_step_that_needs_whole_clicks_is_refused_by_relaxations() -> None:
    def whole(model: Floats, features: Floats, clicks: Floats) -> Floats:
        if not set(clicks) <= {0.0, 1.0}:
            raise ValueError("clicks are no numbers between")
        return listwise(model, features, clicks)

    seen, _ = sent(listwise)
    with pytest.raises(
        PluginError, match=r"whole failed in .*\.py:\d+: ValueError: clicks are no numbers between"
    ):
        answer(Raifle(), with_step(seen, whole))


@pytest.mark.parametrize("batched", [False, True])
def test_what_a_step_changes_in_place_reaches_nothing_else(batched: bool) -> None:
    def rude(model: Floats, features: Floats, clicks: Floats) -> Floats:
        rows = clicks if batched else clicks[np.newaxis]
        updates = np.stack([listwise(model, features, one) for one in rows])
        model += 1.0
        features *= 0.0
        clicks[:] = 1.0
        return updates if batched else updates[0]

    seen, clicks = sent(listwise)
    view = with_step(seen, fa.numpy_step(rude, batched=batched))
    for attack in (MaximumPosterior(), LeastAbsolute()):
        assert np.array_equal(answer(attack, view).guess, clicks)
