"""What shown lists tell of clicks: against enumeration, the engine's own lists, and Bayes by brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from foltr_audit.attacks.shown_lists import ShownLists
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Collection
from foltr_audit.inference.joint_search import JointSearch, SearchState
from foltr_audit.inference.list_decoder import ListDecoder, ListLikelihood, why_no_evidence
from foltr_audit.inference.pattern_decoder import PatternDecoder, patterns_as_clicks
from foltr_audit.inference.replay import Replay
from foltr_audit.judge.observer import Observer
from foltr_audit.kernels.plackett_luce import broken_ranks, list_log_probabilities
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES, collection_of, dataset, score_order

DECIDED = np.linspace(-1.0, 1.3, FEATURES)
HEAVY = ("clip:norm=1.5,ord=1", "laplace:eps=0.1,sensitivity=3")
LEARNER = "fpdgd:pairs=all,normaliser=shown,learning_rate=0.7"


# --- one list ---------------------------------------------------------------------------------------------


def lists_of(candidates: int, k: int) -> Ints:
    return np.array(list(permutations(range(candidates), k)), dtype=np.int64)


@pytest.mark.parametrize(("candidates", "k"), [(1, 1), (4, 2), (5, 5), (6, 3)])
@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0, 3000.0])
def test_the_probabilities_of_all_lists_are_those_of_drawing_one_after_the_other(
    candidates: int, k: int, spread: float
) -> None:
    scores = np.random.default_rng(candidates).normal(size=candidates) * spread
    shown = lists_of(candidates, k)
    starts = np.arange(len(shown) + 1) * candidates
    found = list_log_probabilities(np.tile(scores, len(shown)), starts, shown)
    assert np.exp(found).sum() == pytest.approx(1.0, rel=1e-9)
    for row, value in zip(
        shown[:: max(1, len(shown) // 20)], found[:: max(1, len(shown) // 20)], strict=True
    ):
        left, exact = list(range(candidates)), 0.0
        for document in row:
            top = max(scores[left])
            exact += scores[document] - top - math.log(math.fsum(np.exp(scores[left] - top)))
            left.remove(int(document))
        assert value == pytest.approx(exact, rel=1e-9, abs=1e-12)


@settings(max_examples=60)
@given(
    scores=st.lists(st.integers(-3, 3), min_size=1, max_size=12),
    k=st.integers(1, 10),
    swap=st.integers(0, 9),
)
def test_a_list_is_possible_if_it_is_in_the_order_of_the_scores(scores: list[int], k: int, swap: int) -> None:
    """Ties in any order; a swap of different scores breaks the rank that shows the lower one too early."""
    values = np.array(scores, dtype=np.float64)
    starts = np.array([0, values.size])
    shown = score_order(values, starts, k)
    assert broken_ranks(values, starts, shown, 1e-10)[0] == 0
    wrong = shown.copy()
    place = min(swap, int((shown >= 0).sum()) - 2)
    if place >= 0:
        wrong[0, [place, place + 1]] = wrong[0, [place + 1, place]]
        differs = values[wrong[0, place]] != values[wrong[0, place + 1]]
        assert (broken_ranks(values, starts, wrong, 1e-10)[0] > 0) == differs


def long_lists() -> Collection:
    """Queries of 18 to 30 documents, so that a list says much of the model that ranked it."""
    parts = [dataset([18, 25, 30, 22, 19, 27], seed, name) for seed, name in enumerate(Collection.PARTS)]
    return collection_of(*parts)


# --- recorded messages --------------------------------------------------------------------------------------


class Recorded:
    """The messages of fresh clients with B lists each, with their clicks bool (n, B, k)."""

    def __init__(self, setup: Setup, lists: str, repeats: int = 1) -> None:
        assert setup.spec.attack is not None
        clients = FreshClients(setup, setup.spec.attack)
        B = setup.spec.attack.interactions
        header = trace_header(setup, "informational", clients.queries.size, B, lists)
        rounds = [played.recorded(messages=True) for played in clients.rounds(DECIDED, "informational")]
        observer = Observer(header, setup.collection)
        self.views = [seen.view for record, _ in rounds for seen in observer.views(record)]
        self.clicks = [truth.clicks.reshape(-1, B, truth.clicks.shape[1]) for _, truth in rounds]
        assert len(self.views) == len(self.clicks)

    def answers(self, text: str) -> list[tuple[View, Bools, Floats, Bools]]:
        """View, truth, scores and guess of an attack for each round."""
        attack, found = make(Attack, text), []
        for view, clicks in zip(self.views, self.clicks, strict=True):
            assert attack.why_not(view) is None
            said = attack.infer(view, np.random.default_rng(0))
            found.append((view, clicks, said.scores, said.guess))
        return found


def recorded(
    setup_of: SetupOf, lists: str, B: int, *, learner: str = LEARNER, repeats: int = 2, **more: object
) -> Recorded:
    attack = {"interactions": B, "repeats": repeats, "min_documents": 3, "lists": lists}
    setup = setup_of(learner=learner, attack=attack, defense=HEAVY, **more)
    return Recorded(setup, lists)


@pytest.mark.parametrize("pairs", ["pairs=all,normaliser=shown", "pairs=last-click+1,normaliser=candidates"])
@pytest.mark.parametrize("B", [2, 4])
def test_lists_in_score_order_tell_clicks_whatever_the_noise(pairs: str, B: int, setup_of: SetupOf) -> None:
    """Of the lists that others follow nearly every click is read; of the last one none."""
    made = recorded(
        setup_of, "deterministic", B, learner=f"fpdgd:{pairs},learning_rate=0.7", data=long_lists()
    )
    right = [
        [(clicks[:, b] == guess[:, b])[view.is_document[:, b]].mean() for b in range(B)]
        for view, clicks, _, guess in made.answers("shown-lists")
    ]
    followed, last = np.mean(right, axis=0)[:-1], np.mean(right, axis=0)[-1]
    assert np.all(followed > 0.95)
    assert last < 0.85


def test_joint_map_reads_lists_and_message(setup_of: SetupOf) -> None:
    """Behind noise that hides the message, it reads as much as lists tell, and without lists nothing."""
    made = recorded(setup_of, "deterministic", 2, repeats=1, data=long_lists())
    right = {}
    for text in ("joint-map:sweeps=1", "joint-map:lists=false,sweeps=1"):
        ((view, clicks, _, guess),) = made.answers(text)
        right[text] = (clicks[:, 0] == guess[:, 0])[view.is_document[:, 0]].mean()
    assert right["joint-map:sweeps=1"] > 0.97
    assert right["joint-map:lists=false,sweeps=1"] < 0.85


def test_the_right_clicks_break_no_rank(setup_of: SetupOf) -> None:
    made = recorded(setup_of, "deterministic", 3)
    for view, clicks in zip(made.views, made.clicks, strict=True):
        decoder = PatternDecoder(view)
        every = np.arange(len(view))
        path = decoder.replay.paths(every, clicks)
        assert np.all(ListLikelihood(decoder).of_path(path[:-1], every) == 0.0)
        wrong = clicks.copy()
        wrong[:, 0] = ~wrong[:, 0] & view.is_document[:, 0]
        other = decoder.replay.paths(every, wrong)
        assert np.any(ListLikelihood(decoder).of_path(other[:-1], every) < 0.0)


@pytest.mark.parametrize("lists", ["deterministic", "sampled"])
def test_alternatives_that_share_their_first_lists_have_the_values_of_whole_hypotheses(
    lists: str, setup_of: SetupOf
) -> None:
    made = recorded(setup_of, lists, 4, repeats=1)
    (view,), (clicks,) = made.views, made.clicks
    search = JointSearch(PatternDecoder(view), shortlist=4, sweeps=1, lists=True)
    every = np.arange(len(view))
    state = SearchState(every, clicks, search.values(every, clicks))
    for same in range(4):
        tried = search.alternatives(state, same, 4)
        several = np.repeat(every, 4)
        begun = search.begun(state, same, 4)
        assert search.values(several, tried, begun).tobytes() == search.values(several, tried).tobytes()


@pytest.mark.parametrize("lists", ["deterministic", "sampled"])
@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
def test_every_pattern_leads_where_a_replay_leads(lists: str, pairs: str, setup_of: SetupOf) -> None:
    """The kernel that takes all patterns at once, against one replay for each."""
    learner = f"fpdgd:pairs={pairs},normaliser=candidates,learning_rate=0.7"
    made = recorded(setup_of, lists, 3, learner=learner, repeats=1)
    (view,), (clicks,) = made.views, made.clicks
    view = view.trimmed()
    decoder, every = PatternDecoder(view), np.arange(len(view))
    k = view.shown.shape[2]
    for b in (0, 1):
        before = decoder.replay.paths(every, clicks[:, :, :k])[b]
        priors = decoder.log_priors(every, b)
        found = ListLikelihood(decoder).of_patterns(before, every, b, priors)
        for pattern in (0, 1, 5, (1 << k) - 2):
            tried = (
                np.tile(patterns_as_clicks(np.array([pattern]), k), (len(view), 1)) & view.is_document[:, b]
            )
            after = decoder.replay.step(before, every, b, tried)
            alone = ListLikelihood(decoder).of_models(after, every, b + 1)
            possible = np.isfinite(priors[:, pattern])
            np.testing.assert_allclose(
                found[possible, pattern], (priors[:, pattern] + alone)[possible], rtol=1e-7, atol=1e-7
            )


def test_the_posterior_of_sampled_lists_is_that_of_bayes(setup_of: SetupOf) -> None:
    """Two lists: every pattern of the first, weighed by its prior and by the second list's probability."""
    made = recorded(setup_of, "sampled", 2, repeats=1)
    (view,) = made.views
    said = ShownLists(prior="relevance").infer(view, np.random.default_rng(0))
    view = view.trimmed()
    decoder, k = PatternDecoder(view, "relevance"), view.shown.shape[2]
    replay = Replay(view)
    for i in range(0, len(view), 3):
        here = np.array([i])
        length = int(replay.lengths[i, 0])
        weights, patterns = [], np.array(list(product([False, True], repeat=length)))
        for pattern in patterns:
            clicks = np.zeros((1, k), dtype=np.bool_)
            clicks[0, :length] = pattern
            model = replay.step(view.parameters[here], here, 0, clicks)
            scores, _ = replay.candidate_scores(model, here, 1)
            left, chance = scores - scores.max(), 1.0
            for document in view.shown[i, 1][view.shown[i, 1] >= 0]:
                chance *= math.exp(left[document]) / np.exp(left).sum()
                left[document] = -np.inf
            weights.append(chance * math.exp(float(decoder.log_prior_of(here, 0, clicks)[0])))
        share = np.array(weights) / np.sum(weights)
        np.testing.assert_allclose(said.scores[i, 0, :length], share @ patterns, rtol=1e-6, atol=1e-9)


# --- refusals -----------------------------------------------------------------------------------------------


def test_lists_that_tell_nothing_are_refused(setup_of: SetupOf) -> None:
    for more, why in (
        ({"learner": LEARNER + ",rank_with=global"}, "the global model ranks"),
        ({"B": 1}, "one list a message"),
    ):
        made = recorded(setup_of, "deterministic", **{"B": 2, **more})  # type: ignore[arg-type]
        reason = why_no_evidence(made.views[0])
        assert reason is not None
        assert why in reason
        assert reason == ShownLists().why_not(made.views[0])
    made = recorded(setup_of, "deterministic", 2)
    for name in ("candidates", "lists", "rank_with"):
        hidden = made.views[0].knowledge.without(frozenset({name}))
        view = replace(made.views[0], knowledge=hidden)
        assert name in (ShownLists().why_not(view) or "")


def test_enough_histories_weigh_everything(setup_of: SetupOf) -> None:
    """Three lists of three documents: the posterior of the first one against all 8 x 8 patterns."""
    made = recorded(setup_of, "sampled", 3, repeats=1)
    whole = made.views[0]
    view = replace(whole, shown=np.where(np.arange(10) < 3, whole.shown, -1)).trimmed()
    decoder, every = PatternDecoder(view), np.arange(len(view))
    found = ListDecoder(decoder, histories=64).posteriors(every)
    joint = np.empty((len(view), 8, 8))
    for first, second in product(range(8), range(8)):
        clicks = patterns_as_clicks(np.array([first, second, 0]), 3)
        clicks = np.broadcast_to(clicks, (len(view), 3, 3)) & view.is_document
        path = decoder.replay.paths(every, clicks)
        weight = ListLikelihood(decoder).of_path(path[:-1], every)
        for b in range(2):
            weight += decoder.log_prior_of(every, b, clicks[:, b])
        joint[:, first, second] = weight
    for b, axis in ((0, 2), (1, 1)):
        exact = np.logaddexp.reduce(joint, axis=axis)
        long = view.is_document.all(axis=(1, 2))
        assert long.any()
        mine, theirs = (softmax(each[long], axis=1) for each in (found[b], exact))
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)


def test_a_list_that_none_follows_keeps_its_prior_to_the_last_bit(setup_of: SetupOf) -> None:
    """Otherwise rounding would order equal guesses, and an AUC would move in its fourth digit."""
    view = recorded(setup_of, "sampled", 2, repeats=1).views[0]
    shorter = view.shown.copy()
    shorter[::2, 1] = -1
    view = replace(view, shown=shorter).trimmed()
    decoder, every = PatternDecoder(view), np.arange(len(view))
    first, last = ListDecoder(decoder, histories=16).posteriors(every)
    np.testing.assert_array_equal(last, decoder.log_priors(every, 1))
    prior = decoder.log_priors(every, 0)
    np.testing.assert_array_equal(first[::2], prior[::2])
    assert not np.isclose(first[1::2], prior[1::2]).all()
