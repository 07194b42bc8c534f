"""Click patterns weighed: likelihoods, cascade priors and what follows, against plain loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from foltr_audit.core.plugins import Attack, Ball, Inference, Knowledge, View
from foltr_audit.core.records.view import Candidates
from foltr_audit.inference.count_decoder import cascade_rates, median_rates, weighted_median
from foltr_audit.inference.pattern_decoder import (
    PatternDecoder,
    density_table,
    patterns_as_clicks,
    why_too_long,
)
from foltr_audit.judge.task import checked_answer
from foltr_audit.kernels.patterns import (
    MOST_WEIGHED,
    best_patterns,
    cascade_log_prior,
    cascade_log_priors,
    log_likelihoods,
    marginals,
)
from foltr_audit.privacy.noise import GammaShare, Gaussian, NoiseLaw
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.fixtures.reference import (
    exact_pair_weights,
    numba_threads,
    observed_pairs,
    pairwise_gradient,
)
from tests.fixtures.tiny import BELIEF

P, K = 5, 10
RATE = 0.7
LAWS: dict[str, NoiseLaw] = {"gaussian": Gaussian(sigma=0.3), "share": GammaShare(n=7, scale=0.8)}
SETTINGS = list(product(("all", "last-click+1"), ("shown", "candidates")))
BALLS = {"none": None, "far": Ball(norm=100.0, ord=2), "L2": Ball(norm=0.9), "L1": Ball(norm=1.5, ord=1)}


def lists(
    lengths: Sequence[int],
    knowledge: Knowledge,
    *,
    seed: int = 0,
    kind: str = "model",
    k: int = K,
    features: int = P,
) -> View:
    """A message for each list; a list shows all but three documents of its query, in any order."""
    rng = np.random.default_rng(seed)
    n, sizes = len(lengths), np.asarray(lengths, dtype=np.int64) + 3
    shown = np.full((n, 1, k), -1)
    for i, length in enumerate(lengths):
        shown[i, 0, :length] = rng.permutation(sizes[i])[:length]
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    pool = rng.normal(size=(offsets[-1], features)).astype(np.float32)
    rows = pool[offsets[:-1, None, None] + np.maximum(shown, 0)]
    parameters = rng.normal(size=(n, features))
    return View(
        observer="individual",
        kind=kind,
        parameters=parameters,
        messages=rng.normal(size=(n, features)) + (parameters if kind == "model" else 0.0),
        shown=shown,
        features=np.where((shown >= 0)[..., np.newaxis], rows, np.float32(0)),
        candidates=Candidates(features=pool, offsets=offsets, query=np.arange(n)[:, np.newaxis]),
        knowledge=knowledge,
    )


def known(pairs: str, normaliser: str, ball: Ball | None, law: NoiseLaw, *, always: bool = True) -> Knowledge:
    """A server that knows how its clients learn."""
    return Knowledge(
        candidates=True,
        learning_rate=RATE,
        pairs=pairs,
        normaliser=normaliser,
        clip=ball,
        clip_without_pairs=always,
        noise=law.text,
        number_format="float64",
    )


def gradients(seen: View, i: int) -> tuple[Floats, Bools]:
    """PDGD's gradient of every click pattern of message i, pair by pair, and which patterns have a pair."""
    assert seen.candidates is not None
    shown = [int(d) for d in seen.shown[i, 0] if d >= 0]
    first, last = seen.candidates.offsets[i : i + 2]
    pool = seen.candidates.features[first:last].astype(np.float64)
    weights = exact_pair_weights(pool @ seen.parameters[i], shown, seen.knowledge.normaliser == "candidates")
    only = seen.knowledge.pairs == "last-click+1"
    out, pairs = [], []
    for pattern in range(2 ** len(shown)):
        clicks = [bool(pattern >> j & 1) for j in range(len(shown))]
        out.append(pairwise_gradient(weights, pool[shown], clicks, only))
        pairs.append(bool(observed_pairs(clicks, only)))
    return np.array(out), np.array(pairs)


def plain_likelihoods(seen: View, i: int, gradient: Floats, pairs: Bools, law: NoiseLaw) -> Floats:
    """Log likelihood of every pattern of message i from its gradients: step, clip, and the law's density."""
    ball, models = seen.knowledge.clip, []
    received = seen.messages[i] + (0.0 if seen.kind == "model" else seen.parameters[i])
    for step, moved in zip(gradient, pairs, strict=True):
        model = seen.parameters[i] + RATE * step
        acts = moved or (seen.knowledge.clip_without_pairs and bool((seen.shown[i] >= 0).any()))
        if ball is not None and acts:
            model = model * min(1.0, ball.norm / np.linalg.norm(model, ball.ord))
        models.append(model)
    densities: Floats = law.log_density(received - np.array(models)).sum(axis=1)
    return densities


def told(seen: View, **changes: Any) -> View:
    """The same messages for an observer that believes something else."""
    return replace(seen, knowledge=seen.knowledge.having(**changes))


def answer(attack: Attack, seen: View) -> Inference:
    """What an attack says; an error if it refuses, or gives a shown document no number."""
    assert attack.why_not(seen) is None
    return checked_answer(attack, seen, np.random.default_rng(0))


def believed(prior: str, k: int, grades: Ints) -> tuple[Floats, Floats]:
    """P(click | examined) and P(stop | clicked) of k places by usual grades, by these, or even."""
    if prior == "relevance":
        return BELIEF.click[grades], BELIEF.stop[grades]
    if prior == "uniform":
        return np.full(k, 0.5), np.zeros(k)
    click = BELIEF.grades[:k] @ BELIEF.click
    return click, BELIEF.grades[:k] @ (BELIEF.click * BELIEF.stop) / click


def decoded(seen: View) -> Floats:
    """The decoder's log likelihoods of the only list of each message."""
    return PatternDecoder(seen).likelihoods(np.arange(len(seen)), 0, seen.parameters)


# --- likelihoods ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["model", "update"])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_likelihoods_equal_a_loop_over_all_patterns(pairs: str, normaliser: str, kind: str) -> None:
    """Lists of 0 to 10 documents, every ball, with and without a clip where nothing was learnt."""
    seen = lists(list(range(K + 1)), known(pairs, normaliser, None, LAWS["share"]), kind=kind)
    steps = [gradients(seen, i) for i in range(len(seen))]
    answers = {}
    for ball, law, always in product(BALLS, LAWS, (True, False)):
        knowledge = known(pairs, normaliser, BALLS[ball], LAWS[law], always=always)
        view = replace(seen, knowledge=knowledge)
        found = decoded(view)
        for i, (gradient, moved) in enumerate(steps):
            expected = plain_likelihoods(view, i, gradient, moved, LAWS[law])
            np.testing.assert_allclose(found[i, : 2**i], expected, rtol=1e-10, atol=P * 2e-7)
            assert np.all(found[i, 2**i :] == -np.inf)
        answers[ball, law, always] = found.tobytes()
    free = answers["none", "share", True]
    assert free == answers["far", "share", True] == answers["none", "share", False]
    acting = {answers[ball, "share", always] for ball in ("L2", "L1") for always in (True, False)}
    assert len(acting - {free}) == 4, "every ball acts, and so does the flag"


@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_the_longest_lists_that_are_weighed(pairs: str, normaliser: str) -> None:
    """16,384 patterns, one click from each to the next: rounding does not pile up on the way."""
    law = Gaussian(sigma=0.3)
    seen = lists([MOST_WEIGHED], known(pairs, normaliser, BALLS["L2"], law), k=MOST_WEIGHED)
    found = decoded(seen)[0]
    assert seen.candidates is not None
    scores = seen.candidates.features.astype(np.float64) @ seen.parameters[0]
    weights = exact_pair_weights(scores, seen.shown[0, 0].tolist(), normaliser == "candidates")
    patterns = np.random.default_rng(1).integers(0, 2**MOST_WEIGHED, size=300)
    steps, moved = [], []
    for clicks in patterns_as_clicks(patterns, MOST_WEIGHED).tolist():
        only = pairs == "last-click+1"
        steps.append(pairwise_gradient(weights, seen.features[0, 0].astype(np.float64), clicks, only))
        moved.append(bool(observed_pairs(clicks, only)))
    expected = plain_likelihoods(seen, 0, np.array(steps), np.array(moved), law)
    np.testing.assert_allclose(found[patterns], expected, rtol=1e-12)


@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
@pytest.mark.parametrize("always", [True, False])
def test_all_and_none_clicked_always_tie(pairs: str, always: bool) -> None:
    seen = lists([1, 4, 10], known(pairs, "shown", BALLS["L2"], LAWS["share"], always=always))
    found = decoded(seen)
    for i, length in enumerate((1, 4, 10)):
        assert found[i, 0] == found[i, 2**length - 1]
    assert np.unique(found[2]).size == 2**10 - 1, "and nothing else does"


def test_what_later_interactions_add_is_taken_off_first() -> None:
    seen = lists([5, 8], known("all", "shown", None, LAWS["share"]))
    rest = np.random.default_rng(2).normal(size=(2, P))
    shifted = replace(seen, messages=seen.messages + rest)
    found = PatternDecoder(shifted).likelihoods(np.arange(2), 0, seen.parameters, rest)
    np.testing.assert_allclose(found[:, :32], decoded(seen)[:, :32], rtol=1e-9)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_message_does_not_depend_on_the_others_nor_on_threads(threads: int) -> None:
    seen = lists([3, 10, 0, 7, 10], known("last-click+1", "candidates", BALLS["L2"], LAWS["share"]))
    decoder = PatternDecoder(seen)
    with numba_threads(threads):
        together = decoder.likelihoods(np.arange(5), 0, seen.parameters)
    for i in range(5):
        alone = decoder.likelihoods(np.array([i]), 0, seen.parameters[[i]])
        assert alone.tobytes() == together[[i]].tobytes()


def test_chunks_hold_every_message_once() -> None:
    seen = lists([3] * 70, known("all", "shown", None, LAWS["share"]), k=MOST_WEIGHED)
    chunks = list(PatternDecoder(seen).chunks())
    assert len(chunks) > 1
    assert np.concatenate(chunks).tolist() == list(range(70))
    assert list(PatternDecoder(lists([], seen.knowledge)).chunks()) == []


def test_lists_with_too_many_patterns_are_named() -> None:
    law = LAWS["share"]
    assert why_too_long(lists([MOST_WEIGHED], known("all", "shown", None, law), k=15)) is None
    reason = why_too_long(lists([2, 15], known("all", "shown", None, law), k=15))
    assert reason == "a list has 15 documents; it weighs every click pattern of up to 14"
    assert why_too_long(lists([], known("all", "shown", None, law))) is None


@pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
def test_log_likelihoods_are_sums_of_the_laws_log_density(law: NoiseLaw) -> None:
    residuals = np.random.default_rng(3).normal(size=(40, P)) * np.logspace(-6, 2, 40)[:, np.newaxis]
    found = log_likelihoods(residuals, density_table(law))
    np.testing.assert_allclose(found, law.log_density(residuals).sum(axis=1), rtol=1e-9, atol=P * 2e-7)
    assert log_likelihoods(np.zeros((0, P)), density_table(law)).shape == (0,)


# --- priors ---------------------------------------------------------------------------------------


def walk_down(click: Floats, stop: Floats, length: int) -> Floats:
    """Probability of every pattern: all ways to read a list from the top, one after the other, (2^L,)."""
    out = np.zeros(2**length)

    def read(j: int, pattern: int, chance: float) -> None:
        if j == length:
            out[pattern] += chance
            return
        read(j + 1, pattern, chance * (1 - click[j]))
        out[pattern | 1 << j] += chance * click[j] * stop[j]
        read(j + 1, pattern | 1 << j, chance * click[j] * (1 - stop[j]))

    read(0, 0, 1.0)
    return out


@settings(max_examples=60, derandomize=True)
@given(
    click=arrays(np.float64, (4, 8), elements=st.sampled_from([0.0, 1e-12, 0.05, 0.5, 0.9, 1.0])),
    stop=arrays(np.float64, (4, 8), elements=st.sampled_from([0.0, 0.3, 0.9, 1.0])),
    lengths=arrays(np.int64, 4, elements=st.integers(0, 8)),
)
def test_log_priors_equal_all_ways_to_read_a_list(click: Floats, stop: Floats, lengths: Ints) -> None:
    found = cascade_log_priors(click, stop, lengths)
    for i, length in enumerate(lengths.tolist()):
        expected = walk_down(click[i], stop[i], length)
        np.testing.assert_allclose(np.exp(found[i, : 2**length]), expected, rtol=1e-12, atol=0)
        np.testing.assert_allclose(expected.sum(), 1.0, rtol=1e-12)
        assert np.all(found[i, 2**length :] == -np.inf)
        every = np.full(2**length, i)
        ones = cascade_log_prior(click[every], stop[every], lengths[every], np.arange(2**length))
        assert ones.tobytes() == found[i, : 2**length].tobytes()


# --- posteriors -----------------------------------------------------------------------------------

POSTERIORS = arrays(
    np.float64,
    (3, 16),
    elements=st.one_of(st.floats(-800, 800), st.sampled_from([0.0, -1.5, -np.inf, -1e300])),
)


@settings(max_examples=60, derandomize=True)
@given(posterior=POSTERIORS, lengths=arrays(np.int64, 3, elements=st.integers(0, 4)))
def test_marginals_equal_a_normalised_sum_over_patterns(posterior: Floats, lengths: Ints) -> None:
    """Also with ties, and where no pattern is possible: then nothing is known."""
    clicked, best, anything, evidence = marginals(posterior, lengths, 4)
    for i, length in enumerate(lengths.tolist()):
        values = posterior[i, : 2**length]
        if np.all(values == -np.inf):
            mass = np.full(values.size, 1 / values.size)
            assert evidence[i] == -np.inf
        else:
            mass = softmax(values)
            np.testing.assert_allclose(evidence[i], logsumexp(values), rtol=1e-12, atol=1e-12)
        bits = patterns_as_clicks(np.arange(values.size), 4)
        np.testing.assert_allclose(clicked[i], mass @ bits, rtol=1e-10, atol=1e-300)
        np.testing.assert_allclose(anything[i], mass[1:].sum(), rtol=1e-10, atol=1e-300)
        assert best[i] == np.argmax(values)


@settings(max_examples=60, derandomize=True)
@given(posterior=POSTERIORS, most=st.integers(1, 16))
def test_best_patterns_equal_a_stable_sort(posterior: Floats, most: int) -> None:
    expected = np.argsort(-posterior, axis=1, kind="stable")[:, :most]
    assert best_patterns(posterior, most).tolist() == expected.tolist()


@settings(max_examples=50, derandomize=True)
@given(clicks=arrays(np.bool_, (3, 2, 9)))
def test_patterns_are_clicks_in_binary(clicks: Bools) -> None:
    numbers = [[int("".join("01"[c] for c in row[::-1]), 2) for row in rows] for rows in clicks.tolist()]
    assert np.array_equal(patterns_as_clicks(np.array(numbers), 9), clicks)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "function", [lambda x: marginals(x, np.full(40, 8), 8)[0], lambda x: best_patterns(x, 5)]
)
def test_rows_do_not_depend_on_each_other(
    function: Callable[[Floats], NDArray[np.generic]], threads: int
) -> None:
    posterior = np.random.default_rng(6).normal(size=(40, 256)) * 30
    with numba_threads(threads):
        together = function(posterior)
    with numba_threads(1):
        assert together.tobytes() == function(posterior).tobytes()
        turned = function(np.ascontiguousarray(posterior[::-1]))
    assert together[::-1].tobytes() == turned.tobytes()


# --- click rates before any message ----------------------------------------------------------------------


@settings(max_examples=30, derandomize=True)
@given(st.integers(1, 6), st.integers(0, 10**6))
def test_rates_sum_over_all_patterns(k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    click, stop = rng.random((2, 3, k))
    for i, rates in enumerate(cascade_rates(click, stop)):
        chances = walk_down(click[i], stop[i], k)
        np.testing.assert_allclose(rates, chances @ patterns_as_clicks(np.arange(2**k), k), rtol=1e-12)


def test_padding_is_never_clicked() -> None:
    click, stop = BELIEF.by_grade(np.array([[2, 0, -1], [-1, -1, -1]]))
    rates = cascade_rates(click, stop)
    assert rates[0, 2] == 0
    assert not rates[1].any()
    assert cascade_rates(np.zeros((2, 0)), np.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize("k", [1, 2, 6])
def test_medians_are_those_over_all_lists_of_grades(k: int) -> None:
    """Positions beyond the four known ones are like the last."""
    belief, rates, chances = replace(BELIEF, grades=BELIEF.grades[:4]), [], []
    for grades in product(range(3), repeat=k):
        rates.append(cascade_rates(BELIEF.click[list(grades)], BELIEF.stop[list(grades)]))
        chances.append(np.prod(belief.grades[np.minimum(np.arange(k), 3), list(grades)]))
    table, weights = np.array(rates), np.array(chances)
    for j, median in enumerate(median_rates(belief, k)):
        errors = [weights @ np.abs(table[:, j] - other) for other in np.unique(table[:, j])]
        assert weights @ np.abs(table[:, j] - median) == pytest.approx(min(errors), rel=1e-9)


@settings(derandomize=True)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=12))
def test_the_weighted_median_is_that_of_repeated_values(pairs: list[tuple[int, int]]) -> None:
    values, weights = np.array(pairs, dtype=np.float64).T
    repeated = np.sort(values.repeat(weights.astype(np.int64)))
    assert weighted_median(values, weights) == repeated[(repeated.size - 1) // 2]
