"""Attacks that know how clicks are randomised: their answers are about the true clicks behind the reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from foltr_audit.attacks.joint_posterior import JointMaximumPosterior
from foltr_audit.attacks.maximum_posterior import MaximumPosterior
from foltr_audit.attacks.query_identification import QueryIdentification
from foltr_audit.attacks.seen_clicks import SeenClicks
from foltr_audit.attacks.shown_lists import ShownLists
from foltr_audit.defenses.click_rr import ClickRR
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import foltr_audit as fa
from foltr_audit.core.plugins import (
    Attack,
    Ball,
    Defense,
    Inference,
    PrivacyEvent,
    RoundContext,
)
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from foltr_audit.judge.observer import knowledge_of
from foltr_audit.kernels.patterns import before_reports, cascade_log_prior, cascade_log_priors
from foltr_audit.privacy.events import ClickLaw, ClickRandomization
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.attacks.test_joint_posterior import published, several, stepped
from tests.conftest import SetupOf
from tests.fixtures.there import there
from tests.fixtures.tiny import BELIEF, clicks_view
from tests.inference.test_pattern_decoder import (
    answer,
    believed,
    gradients,
    known,
    lists,
    plain_likelihoods,
    told,
    walk_down,
)
from tests.inference.test_step_replay import pair_by_pair, with_step

MAP, JOINT = MaximumPosterior(), JointMaximumPosterior()
NOISE = GammaShare(n=3, scale=0.6)
LAWS = [
    ClickLaw(0.378, 0.622),
    ClickLaw(0.05, 0.6),
    ClickLaw(0.0, 0.5),
    ClickLaw(1.0, 0.0),
    ClickLaw(0.3, 0.3),
    ClickLaw(0.9, 0.2),
]


def channel(law: ClickLaw, k: int) -> Floats:
    """P(reported | true) of all patterns, (2^k, 2^k), document by document."""
    out = np.ones((1 << k, 1 << k))
    for true in range(1 << k):
        for reported in range(1 << k):
            for j in range(k):
                as_click = law[true >> j & 1]
                out[true, reported] *= as_click if reported >> j & 1 else 1 - as_click
    return out


def posterior_of(likelihoods: Floats, prior: Floats, law: ClickLaw) -> Floats:
    """Bayes: P(true) times the sum over all reports of P(report | true) P(message | report)."""
    k = prior.size.bit_length() - 1
    weights = np.exp(likelihoods - likelihoods.max())
    joint = prior * (channel(law, k) @ weights)
    return np.asarray(joint / joint.sum())


def says(said: Inference, i: int, b: int, posterior: Floats) -> None:
    """Check an answer about one list by the posterior of its patterns (2^L,)."""
    k = said.guess.shape[2]
    bits = patterns_as_clicks(np.arange(posterior.size), k)
    np.testing.assert_allclose(said.scores[i, b], posterior @ bits, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(there(said.any_click)[i, b], 1 - posterior[0], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(there(said.patterns)[i, b, : posterior.size], posterior, rtol=1e-4, atol=1e-9)
    best = posterior[said.guess[i, b] @ (1 << np.arange(k))]
    assert best == pytest.approx(posterior.max(), rel=1e-5)


# --- kernels --------------------------------------------------------------------------------------

CHANCES = st.sampled_from([0.0, 1e-6, 0.05, 0.5, 0.9, 1.0])


@settings(max_examples=60)
@given(
    click=arrays(np.float64, (3, 5), elements=CHANCES),
    stop=arrays(np.float64, (3, 5), elements=CHANCES),
    lengths=arrays(np.int64, 3, elements=st.integers(0, 5)),
    law=st.builds(ClickLaw, CHANCES, CHANCES),
)
def test_priors_of_reports_are_those_of_all_true_patterns(
    click: Floats, stop: Floats, lengths: Ints, law: ClickLaw
) -> None:
    found = cascade_log_priors(click, stop, lengths, (law.unclicked, law.clicked))
    for i, length in enumerate(lengths.tolist()):
        expected = walk_down(click[i], stop[i], length) @ channel(law, length)
        np.testing.assert_allclose(np.exp(found[i, : 1 << length]), expected, rtol=1e-9, atol=1e-30)
        assert np.all(found[i, 1 << length :] == -np.inf)
        every = np.full(1 << length, i)
        ones = cascade_log_prior(
            click[every], stop[every], lengths[every], np.arange(1 << length), (law.unclicked, law.clicked)
        )
        assert ones.tobytes() == found[i, : 1 << length].tobytes()


@settings(max_examples=60)
@given(
    likelihoods=arrays(
        np.float64, (3, 32), elements=st.sampled_from([-np.inf, -2e4, -800.0, -1.0, 0.0, 3e3])
    ),
    lengths=arrays(np.int64, 3, elements=st.integers(0, 5)),
    law=st.builds(ClickLaw, CHANCES, CHANCES),
)
def test_likelihoods_of_true_patterns_are_sums_over_all_reports(
    likelihoods: Floats, lengths: Ints, law: ClickLaw
) -> None:
    """Up to what nearly never happens, also where numbers differ by more than a float64 can hold."""
    found = before_reports(likelihoods, lengths, (law.unclicked, law.clicked))
    for i, length in enumerate(lengths.tolist()):
        given = likelihoods[i, : 1 << length]
        top = max(given.max(), -1e9)
        expected = channel(law, length) @ np.exp(given - top)
        np.testing.assert_allclose(np.exp(found[i, : 1 << length] - top), expected, rtol=1e-9, atol=1e-11)
        assert np.array_equal(found[i, 1 << length :], likelihoods[i, 1 << length :])


# --- exact ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("prior", ["position", "uniform", "relevance"])
@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
def test_map_is_bayes_over_all_true_and_reported_patterns(pairs: str, prior: str, law: ClickLaw) -> None:
    knowledge = known(pairs, "candidates", Ball(norm=1.2), NOISE).having(belief=BELIEF, click_law=law)
    seen = lists([1, 2, 3, 6, 0, 4], knowledge, seed=3, k=6)
    labels = np.where(seen.shown >= 0, np.arange(6) % 3, -1)
    seen = replace(seen, labels=labels)
    methods: list[Attack] = [
        kind.model_validate({"prior": prior}) for kind in (MaximumPosterior, JointMaximumPosterior)
    ]
    for method in methods:
        said = answer(method, seen)
        for i, length in enumerate([1, 2, 3, 6, 0, 4]):
            before = walk_down(*believed(prior, 6, labels[i, 0]), length)
            likelihoods = plain_likelihoods(seen, i, *gradients(seen, i), NOISE)
            says(said, i, 0, posterior_of(likelihoods, before, law))


@pytest.mark.parametrize("law", LAWS)
def test_a_client_step_is_replayed_with_reported_clicks(law: ClickLaw) -> None:
    seen = lists([1, 2, 3, 4, 0], known("all", "shown", None, NOISE), seed=5, k=4)
    seen = told(seen, belief=BELIEF, click_law=law)
    usual = there(answer(MAP, seen).patterns)
    for attack in (MAP, JOINT):
        own = answer(attack, with_step(seen, pair_by_pair("all")))
        np.testing.assert_allclose(there(own.patterns), usual, atol=1e-9)


@pytest.mark.parametrize("law", LAWS[:3])
def test_of_several_lists_the_others_are_replayed_with_their_reports(law: ClickLaw) -> None:
    """The last of two lists, given the most probable reports on the first."""
    noise, k, n = GammaShare(n=7, scale=0.4), 3, 6
    seen = several(n, 2, noise, known("all", "shown", None, noise), k=k, features=5, seed=3).view
    seen = told(seen, click_law=law)
    before = walk_down(*believed("position", k, np.empty(0, dtype=np.int64)), k)
    reports = before @ channel(law, k)
    said = answer(JOINT, seen)
    for i in range(n):
        ends = [stepped(seen, i, 1, first) for first in stepped(seen, i, 0, seen.parameters[i])]
        fits = noise.log_density(seen.models[i] - np.array(ends)).sum(axis=2)
        with np.errstate(divide="ignore"):
            joint = fits + np.log(reports)[:, np.newaxis] + np.log(reports)
        first = np.unravel_index(joint.argmax(), joint.shape)[0]
        says(said, i, 1, posterior_of(fits[first], before, law))


def test_messages_that_nothing_explains_are_answered_by_votes_and_the_law() -> None:
    """With an even belief documents are independent, and a vote is flipped like a click."""
    made = published(1000, 3, n=8)
    seen = told(replace(made.view, features=made.view.features[::-1].copy()), belief=None)
    votes = answer(JOINT, seen).scores
    flip = 0.3
    said = answer(JOINT, told(seen, click_law=ClickLaw(flip, 1 - flip)))
    np.testing.assert_allclose(said.scores, votes * (1 - flip) + (1 - votes) * flip, atol=1e-6)
    assert ((votes > 0.01) & (votes < 0.99)).any()


@pytest.mark.parametrize("law", LAWS)
def test_clicks_that_arrive_in_clear_are_weighed_too(law: ClickLaw) -> None:
    seen = clicks_view(6, 2)
    seen = told(seen.trimmed(), belief=BELIEF, click_law=law)
    n, B, k = seen.shown.shape
    said = answer(SeenClicks(), seen)
    assert not SeenClicks().exact_posterior(seen)
    reported = seen.messages.reshape(n, B, k) > 0.5
    for i, b in np.ndindex(n, B):
        length = int(seen.is_document[i, b].sum())
        if length > 6:
            continue
        before = walk_down(*believed("position", k, np.empty(0, dtype=np.int64)), length)
        report = int(reported[i, b] @ (1 << np.arange(k)))
        weights = before * channel(law, length)[:, report]
        if weights.sum() > 0:
            says(said, i, b, weights / weights.sum())


@pytest.mark.parametrize("law", LAWS[:3])
def test_lists_that_follow_tell_of_the_clicks_behind_reports(law: ClickLaw) -> None:
    """Against the weights of each report that a decoder without law or belief finds."""
    made = several(5, 2, NOISE, known("all", "candidates", None, NOISE), k=3, features=5)
    seen = told(made.view, lists="sampled", rank_with="local")
    neutral = there(answer(ShownLists(), told(seen, belief=None)).patterns)
    said = answer(ShownLists(), told(seen, click_law=law))
    before = walk_down(*believed("position", 3, np.empty(0, dtype=np.int64)), 3)
    for i in range(5):
        says(said, i, 0, posterior_of(np.log(neutral[i, 0]), before, law))
        says(said, i, 1, before)


def test_the_query_is_weighed_by_its_true_clicks() -> None:
    seen = lists([3, 5], known("all", "candidates", None, NOISE), k=5)
    seen = told(seen, belief=BELIEF, click_law=LAWS[0], lists="deterministic")
    mine, alone = answer(QueryIdentification(), seen), answer(MAP, seen)
    np.testing.assert_allclose(mine.scores, alone.scores, atol=1e-12)


# --- what a trace says ----------------------------------------------------------------------------


def header_of(**facts: Any) -> TraceHeader:
    """The header of another system."""
    return TraceHeader(
        kind="update",
        dtype="float64",
        parameters=6,
        k=5,
        dataset=fa.TraceDataset(source="", fold=0, fingerprint="", normalised="none", parts=("live",)),
        has_truth=True,
        embeds_features=True,
        knowledge=facts,
    )


WARNER = ClickLaw(1 / (1 + np.e), np.e / (1 + np.e))
ONE, OTHER = "randomised-clicks:eps=1", "randomised-clicks:unclicked=0.1,clicked=0.6"


@pytest.mark.parametrize(
    ("facts", "law"),
    [
        ({"events": [ONE]}, WARNER),
        ({"events": [OTHER, "noised:laplace:scale=2"]}, ClickLaw(0.1, 0.6)),
        ({"events": [ONE, "opaque:mine"]}, WARNER),
        ({"defense": ["click-rr:eps=1"]}, WARNER),
        ({"defense": "click-rr:eps=1+laplace:eps=1,sensitivity=2"}, WARNER),
        ({"defense": ["click-rr:eps=7"], "events": [ONE]}, WARNER),
        ({"events": ["opaque:mine", "randomised-metrics:eps=1"]}, None),
        ({"events": ["noised:laplace:scale=2"]}, None),
        ({"defense": ["their-own"]}, None),
        ({}, None),
    ],
)
def test_the_law_is_what_the_events_say_or_else_the_defenses(facts: Any, law: ClickLaw | None) -> None:
    found = knowledge_of(header_of(**facts)).click_law
    assert (found is None) == (law is None)
    if law is not None:
        np.testing.assert_allclose(there(found), law, rtol=1e-12)
    hidden = knowledge_of(header_of(**facts)).without(frozenset({"noise"}))
    assert hidden.click_law is None


def test_the_laws_of_several_defenses_are_those_of_one_after_the_other() -> None:
    """A product of matrices, in the order of the events: here another order gives another law."""
    matrices = [channel(law, 1) for law in (WARNER, ClickLaw(0.1, 0.6))]
    for texts, product in (
        ((ONE, OTHER), matrices[0] @ matrices[1]),
        ((OTHER, ONE), matrices[1] @ matrices[0]),
        ((ONE, ONE, OTHER), matrices[0] @ matrices[0] @ matrices[1]),
    ):
        found = there(knowledge_of(header_of(events=list(texts))).click_law)
        np.testing.assert_allclose(found, product[:, 1], rtol=1e-12)


class Forgets(Defense):
    """Reports some clicks, and invents others. Guarantees: nothing."""

    name: ClassVar[str] = "forgets"

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        draws = context.streams("forgets").uniform(clicks.shape[1], first=step * clicks.shape[1])
        return np.asarray((draws < np.where(clicks, 0.6, 0.1)) & (shown >= 0))

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (ClickRandomization.reporting(unclicked=0.1, clicked=0.6),)


def test_a_run_states_the_law_of_its_chain(setup_of: SetupOf) -> None:
    """Of defenses by name, and of a plug-in with a law of its own."""
    twice, kept = ("click-rr:eps=1", "click-rr:keep=0.9"), ClickLaw(0.1, 0.9)
    for setup, laws in (
        (setup_of(defense=twice), (WARNER, kept)),
        (setup_of(chain=(Forgets(), ClickRR(eps=1))), (ClickLaw(0.1, 0.6), WARNER)),
    ):
        found = there(knowledge_of(trace_header(setup, "perfect", 8)).click_law)
        product = channel(laws[0], 1) @ channel(laws[1], 1)
        np.testing.assert_allclose(found, product[:, 1], rtol=1e-12)
