"""Telling the query: posteriors of lists by brute force, and what must not matter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foltr_audit.attacks.query_identification import QueryIdentification
from scipy.special import logsumexp, softmax

from foltr_audit.core.plugins import Ball, Inference, Knowledge, View
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from foltr_audit.privacy.noise import GammaShare, Gaussian, NoiseLaw
from foltr_audit.utils.arrays import Floats, Ints
from tests.fixtures.tiny import BELIEF, EVERYTHING
from tests.fixtures.tiny import view as toy_view
from tests.inference import test_pattern_decoder as decoder
from tests.inference.test_pattern_decoder import (
    SETTINGS,
    believed,
    gradients,
    known,
    lists,
    plain_likelihoods,
    walk_down,
)

LENGTHS = np.array([[5, 3, 4], [1, 5, 5], [4, 4, 0], [2, 0, 5], [5, 5, 5]])
n, M = LENGTHS.shape
K = 5
NOISE = GammaShare(n=3, scale=0.6)


def choices(knowledge: Knowledge, lengths: Ints = LENGTHS, seed: int = 3) -> tuple[View, View]:
    """Messages with their choices side by side, and with one choice each, (n, m) and (n m, 1) lists."""
    rows, m = lengths.shape
    one = lists(lengths.reshape(-1).tolist(), knowledge, seed=seed, k=K)
    own = np.arange(rows * m) // m * m
    one = replace(one, parameters=one.parameters[own], messages=one.messages[own])
    assert one.candidates is not None
    several = replace(
        one,
        parameters=one.parameters[::m],
        messages=one.messages[::m],
        clients=one.clients[::m],
        shown=one.shown.reshape(rows, m, K),
        features=one.features.reshape(rows, m, K, -1),
        candidates=replace(one.candidates, query=one.candidates.query.reshape(rows, m)),
    )
    return several, one


def server(pairs: str, normaliser: str, law: NoiseLaw, ball: Ball | None = None) -> Knowledge:
    """A server whose lists are deterministic."""
    return known(pairs, normaliser, ball, law).having(lists="deterministic", belief=BELIEF)


def answer(seen: View, attack: QueryIdentification | None = None) -> tuple[Inference, Floats]:
    """What the attack says, and its probabilities of the lists."""
    said = decoder.answer(attack or QueryIdentification(), seen)
    assert said.answer is not None
    return said, said.answer


# --- exact ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["position", "uniform", "relevance"])
@pytest.mark.parametrize("law", [NOISE, Gaussian(sigma=0.8)], ids=["share", "gaussian"])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_posteriors_equal_brute_force(pairs: str, normaliser: str, law: NoiseLaw, prior: str) -> None:
    """Bayes over all lists and all their patterns, pair by pair and density by density."""
    several, one = choices(server(pairs, normaliser, law, Ball(norm=1.2)))
    several = replace(several, labels=np.where(several.shown >= 0, np.arange(K) % 3, -1))
    said, probabilities = answer(several, QueryIdentification.model_validate({"prior": prior}))
    evidence, clicked = np.full(n * M, -np.inf), np.zeros((n * M, K))
    best = np.zeros((n * M, K), np.bool_)
    for i, length in enumerate(LENGTHS.reshape(-1).tolist()):
        if not length:
            continue  # no list: no choice
        click, stop = believed(prior, K, np.arange(K) % 3)
        step, moved = gradients(one, i)
        weighed = plain_likelihoods(one, i, step, moved, law) + np.log(walk_down(click, stop, length))
        bits = patterns_as_clicks(np.arange(2**length), K)
        evidence[i] = logsumexp(weighed)
        clicked[i], best[i] = softmax(weighed) @ bits, bits[weighed.argmax()]
    expected = softmax(evidence.reshape(n, M), axis=1)
    assert 0.05 < expected[0].max() < 1, "messages do not say it all"
    np.testing.assert_allclose(probabilities, expected, rtol=1e-5, atol=1e-12)
    scores = expected[..., np.newaxis] * clicked.reshape(n, M, K)
    np.testing.assert_allclose(said.scores, scores, rtol=1e-5, atol=1e-9)
    winner = expected.argmax(axis=1)
    for i in range(n):
        assert np.array_equal(said.guess[i, winner[i]], best.reshape(n, M, K)[i, winner[i]])
        assert not np.delete(said.guess[i], winner[i], axis=0).any()


def test_lists_that_explain_nothing_are_all_alike() -> None:
    """Beyond all numbers: a message that no list can have sent."""
    several, _ = choices(server("all", "shown", NOISE), np.full((2, 3), 5))
    far = replace(several, messages=np.full_like(several.messages, 1e300))
    _, probabilities = answer(far)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


# --- refusals -------------------------------------------------------------------------------------


def test_sampled_lists_are_refused() -> None:
    seen = replace(toy_view(2, B=3), knowledge=replace(EVERYTHING, lists="sampled"))
    assert "deterministic" in str(QueryIdentification().why_not(seen))


def test_neither_the_query_nor_what_was_shown_is_needed() -> None:
    needs = QueryIdentification.needs
    assert not needs & {"query", "shown", "relevance", "noise", "click_model"}
    assert {"candidates", "lists"} <= needs
    blind = toy_view(2, B=3)
    blind = replace(blind, knowledge=blind.knowledge.having(query=False, shown=False))
    assert QueryIdentification().why_not(blind) is None
