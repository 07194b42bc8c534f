"""What a seed and metrics tell: against all joint click patterns, from the seed alone, calibrated, sound."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from foltr_audit.attacks import evolution_messages
from foltr_audit.attacks.evolution_messages import (
    ESFirstClick,
    mean_likelihoods,
    reachable_sums,
    replayed_order,
)
from foltr_audit.attacks.seen_clicks import SeenClicks
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.plugins import Inference, Knowledge, View
from foltr_audit.inference.seeded_clients import SeededClients
from foltr_audit.judge.observer import Observer
from foltr_audit.kernels.cascade import cascade_clicks
from foltr_audit.privacy.randomized_response import RandomizedResponse
from foltr_audit.simulation.learners.foltr_es import FOLtRES
from foltr_audit.trace import Trace
from foltr_audit.utils.arrays import Bools, Floats, Ints
from tests.fixtures.command import Done, run
from tests.fixtures.seeded_searchers import SOURCE, write_seeded
from tests.fixtures.tiny import BELIEF
from tests.inference.test_pattern_decoder import answer as answer
from tests.inference.test_pattern_decoder import believed, told, walk_down

SIGMA, FEATURES = 0.7, 5


class Sent(NamedTuple):
    """Messages of simulated clients, and the clicks (n, B, k) behind them in the order shown."""

    view: View
    clicks: Bools


def known(**more: Any) -> Knowledge:
    """What a server knows of FOLtR-ES."""
    given = Knowledge(relevance=True, lists="deterministic", belief=BELIEF, number_format="float64")
    return given.having(metric="maxrr", sigma=SIGMA, noise="metric-rr:p=0.5").having(**more)


def sent(n: int, B: int = 1, k: int = 3, *, seed: int = 0, shorter: bool = False, **more: Any) -> Sent:
    """Clients whose grades and clicks follow the server's belief; lists hold all documents of their query."""
    rng, knowledge = np.random.default_rng(seed), known(**more)
    learner = FOLtRES(
        sigma=SIGMA, metric=knowledge.metric, antithetic=knowledge.antithetic, interactions=2 * B
    )
    seeds = rng.integers(0, 2**63, size=n, dtype=np.uint64)
    theta, features = rng.normal(size=FEATURES), rng.normal(size=(n, B, k, FEATURES)).astype(np.float32)
    eps = learner.perturbations(seeds, FEATURES)
    half = (B + 1) // 2 if knowledge.antithetic else B
    sign = np.where(np.arange(B) < half, 1.0, -1.0)[:, np.newaxis]
    scores = (features * (theta + sign * eps[:, np.newaxis])[:, :, np.newaxis]).sum(axis=3)
    lengths = rng.integers(1, k + 1, size=(n, B)) if shorter else np.full((n, B), k)
    scores[np.arange(k) >= lengths[..., np.newaxis]] = -np.inf
    order = np.argsort(-scores, axis=2, kind="stable")
    there = np.arange(k) < lengths[..., np.newaxis]
    rows = np.where(there[..., np.newaxis], np.take_along_axis(features, order[..., np.newaxis], axis=2), 0)
    grades = np.stack([rng.choice(3, size=(n, B), p=BELIEF.grades[j]) for j in range(k)], axis=2)
    labels = np.where(there, grades, -1)
    clicks = cascade_clicks(
        labels.reshape(n * B, k), rng.random((n * B, 2 * k)), BELIEF.click, BELIEF.stop
    ).reshape(n, B, k)
    values = learner.values
    law = RandomizedResponse.parse(str(knowledge.noise or "none"), values.size)
    assert law is not None
    lie = (learner.outcomes(clicks) + rng.integers(1, values.size, size=(n, B))) % values.size
    reported = values[np.where(rng.random((n, B)) < law.p, learner.outcomes(clicks), lie)]
    later = reported[:, half:].mean(axis=1) if half < B else np.zeros(n)
    both = np.stack([reported[:, :half].mean(axis=1), later], axis=1)
    view = View(
        observer="individual",
        kind="es",
        parameters=np.tile(theta, (n, 1)),
        messages=both if knowledge.antithetic else both[:, :1],
        seeds=seeds,
        shown=np.where(there, order, -1),
        features=rows.astype(np.float32),
        labels=labels,
        knowledge=knowledge,
    )
    return Sent(view, clicks)


def hidden(seen: View) -> tuple[View, Ints]:
    """The view of an observer without the order, and where each of its documents was shown, (n, B, k)."""
    order = np.argsort(np.where(seen.shown < 0, 99, seen.shown), axis=2)
    assert seen.labels is not None
    turned = replace(
        seen,
        shown=np.take_along_axis(seen.shown, order, axis=2),
        features=np.take_along_axis(seen.features, order[..., np.newaxis], axis=2).astype(np.float32),
        labels=np.take_along_axis(seen.labels, order, axis=2),
        knowledge=seen.knowledge.having(order=False),
    )
    return turned, order


def patterns_of(said: Inference) -> Floats:
    """The probabilities of patterns, which are there."""
    assert said.patterns is not None
    return said.patterns


def bits(k: int) -> Bools:
    """Clicks of each pattern, (2^k, k)."""
    return np.asarray((np.arange(1 << k)[:, np.newaxis] >> np.arange(k)) & 1 == 1)


# --- exact ----------------------------------------------------------------------------------------


def explained(mean: float, n: int, k: int, channel: Floats) -> Floats:
    """P(mean | first ranks of n lists), an array with n axes of k + 1 ranks: all reports walked."""
    values = [Fraction(0), *(Fraction(1, rank) for rank in range(1, 11))]
    total = np.zeros((k + 1,) * n)
    for reports in product(range(11), repeat=n):
        if abs(float(sum((values[r] for r in reports), Fraction(0)) / n) - mean) < 1e-6:
            part = np.ones(())
            for report in reports:
                part = np.multiply.outer(part, channel[: k + 1, report])
            total += part
    return total


@pytest.mark.parametrize("prior", ["position", "relevance", "uniform"])
@pytest.mark.parametrize(("B", "antithetic"), [(1, True), (2, True), (5, True), (2, False), (3, False)])
@pytest.mark.parametrize("p", [0.25, 0.9, 1.0])
def test_posteriors_equal_brute_force_over_joint_patterns(
    prior: str, B: int, antithetic: bool, p: float
) -> None:
    k, noise = 3, "none" if p == 1 else f"metric-rr:p={p}"
    made = sent(4, B, k, seed=B, noise=noise, antithetic=antithetic)
    said = answer(ESFirstClick.model_validate({"prior": prior}), made.view)
    assert made.view.labels is not None
    channel = RandomizedResponse(p, 11).matrix
    first = [0 if not row.any() else int(row.argmax()) + 1 for row in bits(k)]
    half = (B + 1) // 2 if antithetic else B
    for i, (number, places) in product(range(4), enumerate([range(half), range(half, B)])):
        n = len(places)
        if n == 0:
            continue
        ranks = explained(float(made.view.messages[i, number]), n, k, channel)
        joint = ranks[np.ix_(*[first] * n)]
        for axis, b in enumerate(places):
            prior_of = walk_down(*believed(prior, k, made.view.labels[i, b]), k)
            joint = joint * prior_of.reshape([-1 if a == axis else 1 for a in range(n)])
        joint = joint / joint.sum()
        for axis, b in enumerate(places):
            expected = joint.sum(axis=tuple(a for a in range(n) if a != axis))
            np.testing.assert_allclose(patterns_of(said)[i, b], expected, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(said.scores[i, b], expected @ bits(k), rtol=1e-9, atol=1e-12)
            assert said.any_click is not None
            np.testing.assert_allclose(said.any_click[i, b], 1 - expected[0], rtol=1e-9, atol=1e-12)
            by_rank = np.bincount(first, weights=expected)
            best = (by_rank > by_rank.max() - 1e-9).argmax()  # of equal ones the first
            mine = np.where(np.array(first) == best, expected, 0.0)
            assert said.guess[i, b].tolist() == (mine @ bits(k) > 0.5 * mine.sum()).tolist()


def test_one_value_of_dcg_tells_the_pattern() -> None:
    made = sent(200, 2, 6, seed=3, metric="dcg", noise="none", shorter=True)
    rounded = replace(made.view, messages=made.view.messages.astype(np.float32).astype(np.float64))
    said = answer(ESFirstClick(), rounded)
    assert np.array_equal(said.guess, made.clicks)
    noisy = sent(30, 2, 4, seed=4, metric="dcg", noise="metric-rr:p=0.3")
    said = answer(ESFirstClick(prior="uniform"), noisy.view)
    place = (bits(4) / np.log2(np.arange(4) + 2)).sum(axis=1)
    for i, b in product(range(30), range(2)):
        near = np.abs(place - noisy.view.messages[i, b]) < 1e-12
        expected = np.where(near, 0.3, 0.7 / 1023)
        np.testing.assert_allclose(patterns_of(said)[i, b], expected / expected.sum(), rtol=1e-9)


# --- the seed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("antithetic", [True, False])
def test_the_seed_gives_back_the_order(antithetic: bool) -> None:
    """And with it the same answer, document by document and pattern by pattern; another seed does not."""
    made = sent(40, 3, 6, seed=5, shorter=True, antithetic=antithetic)
    unordered, shown = hidden(made.view)
    assert np.array_equal(
        np.take_along_axis(unordered.shown, replayed_order(unordered), axis=2), made.view.shown
    )
    one, other = answer(ESFirstClick(), made.view), answer(ESFirstClick(), unordered)
    np.testing.assert_allclose(other.scores, np.take_along_axis(one.scores, shown, axis=2), rtol=1e-12)
    assert np.array_equal(other.guess, np.take_along_axis(one.guess, shown, axis=2))
    for i, b in product(range(40), range(3)):
        for number, clicked in enumerate(bits(6)):
            place = int(clicked[shown[i, b]] @ (1 << np.arange(6)))
            assert patterns_of(other)[i, b, place] == patterns_of(one)[i, b, number]
    assert unordered.seeds is not None
    wrong = replace(unordered, seeds=unordered.seeds + np.uint64(1))
    assert not np.array_equal(replayed_order(wrong), replayed_order(unordered))
    assert not np.array_equal(answer(ESFirstClick(), wrong).guess, other.guess)


def test_ties_go_by_position_in_the_query() -> None:
    made = sent(5, 1, 4, seed=6)
    same = replace(made.view, features=np.zeros_like(made.view.features))
    unordered, _ = hidden(same)
    assert np.array_equal(replayed_order(unordered), np.tile(np.arange(4), (5, 1, 1)))


# --- what it is worth -----------------------------------------------------------------------------


def test_an_unknown_law_is_the_mean_over_all_p() -> None:
    made = sent(50, 1, 5, seed=9)
    blind, middle = (
        answer(ESFirstClick(), told(made.view, noise=noise)).scores
        for noise in (None, f"metric-rr:p={6 / 11:.17g}")
    )
    np.testing.assert_allclose(blind, middle, rtol=1e-12)


def test_messages_that_belief_or_all_clicks_rule_out_say_what_they_can() -> None:
    """Rank 3 on a list of two documents; a click where nobody clicks: numbers, not NaN."""
    made = sent(2, 1, 2, seed=10, noise="none")
    never = replace(BELIEF, click=np.zeros(3))
    seen = told(replace(made.view, messages=np.array([[1 / 3, 0.0], [1 / 2, 0.0]])), belief=never)
    said = answer(ESFirstClick(), seen)
    assert patterns_of(said)[0, 0].tolist() == [1, 0, 0, 0], "impossible: the belief stands"
    assert patterns_of(said)[1, 0].tolist() == [0, 0, 1, 0], "possible, though never believed"


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (sent(2, 4, metric="dcg").view, "averages of MaxRR only"),
        (sent(2, metric="dcg", antithetic=False).view, None),
        (replace(sent(2).view, knowledge=known(metric=None)), "does not know: metric"),
        (replace(sent(2).view, knowledge=known(metric="ndcg")), "unknown metric 'ndcg'"),
        (replace(sent(2).view, knowledge=known(order=False, sigma=None)), "neither the order nor seed"),
        (replace(sent(2).view, knowledge=known(order=False), seeds=None), "neither the order nor seed"),
        (replace(sent(2).view, knowledge=known(order=False, lists="sampled")), "sampled"),
        (sent(2, 1, 10).view, None),
        (replace(sent(2).view, kind="model"), "not model"),
        (replace(sent(2).view, messages=np.zeros((2, 1))), "1 metrics; expected 2"),
    ],
)
def test_it_says_what_it_cannot_read(view: View, reason: str | None) -> None:
    said = ESFirstClick().why_not(view)
    assert said is None if reason is None else reason in str(said)


def test_it_is_exact_where_it_knows_all() -> None:
    seen = sent(2).view
    assert ESFirstClick(prior="relevance").exact_posterior(seen)
    assert not ESFirstClick().exact_posterior(seen)
    for name, lost in (("noise", None), ("belief", None), ("noise", "laplace:scale=1")):
        assert not ESFirstClick(prior="relevance").exact_posterior(told(seen, **{name: lost}))
    assert not ESFirstClick(prior="relevance").exact_posterior(replace(seen, labels=None))


# --- other readers of such messages ---------------------------------------------------------------


def test_a_central_server_sees_the_clicks() -> None:
    made = sent(20, 2, 4, seed=13, shorter=True)
    clicks = replace(made.view, kind="clicks", messages=made.clicks.reshape(20, 8).astype(np.float64))
    said = answer(SeenClicks(), clicks)
    assert np.array_equal(said.guess, made.clicks)
    assert np.array_equal(said.scores, made.clicks.astype(np.float64))
    assert SeenClicks().why_not(made.view) is not None
    sure = np.take_along_axis(patterns_of(said), (made.clicks @ (1 << np.arange(4)))[..., np.newaxis], axis=2)
    assert (sure == 1).all()
    assert (patterns_of(said).sum(axis=2) == 1).all()


GENERATOR = "numpy-randomstate"


def attacked(trace: Path, *options: str) -> Done:
    return run("attack", "--trace", trace, "--data", SOURCE, "--json", *options)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeded") / "trace"
    write_seeded(folder, perturbation=GENERATOR)
    return folder


@pytest.mark.parametrize("hidden", [(), ("--hide", "order")])
def test_every_click_is_read_though_the_metric_is_noise(trace: Path, hidden: tuple[str, ...]) -> None:
    """The fixture plays clients by their rule; it shares only the order of equal scores with the attack."""
    report = attacked(trace, "--method", "es-seed", "--method", "es-first-click", *hidden).json()
    rows = {row["method"]: row for row in report["results"] if row["lists"] == 120}
    assert rows["es-seed"]["exact"] == rows["es-seed"]["auc"] == 1.0
    assert rows["es-first-click"]["exact"] < 0.5


@pytest.mark.parametrize("stated", [None, "other", "foltr-audit"])
def test_nothing_is_replayed_without_the_fact(tmp_path: Path, stated: str | None) -> None:
    write_seeded(tmp_path / "trace", clients=5, rounds=1, perturbation=stated)
    refused = attacked(tmp_path / "trace", "--method", "es-seed")
    assert refused.code == 2
    assert "seeds drive NumPy's RandomState (fact perturbation)" in refused.one_error()


def test_seeds_that_explain_no_query_are_left_unread(tmp_path: Path) -> None:
    """Clients of the same data whose queries do not follow from their seeds: nothing is named."""
    data = write_seeded(tmp_path / "trace", perturbation=GENERATOR)
    opened = Trace.open(tmp_path / "trace")
    (seen,) = Observer(opened.header, data).views(next(iter(opened.rounds())))
    clicks, explained = SeededClients(seen.view).replayed()
    assert explained.all()
    assert clicks.any()
    candidates = seen.view.candidates
    assert candidates is not None
    moved = np.roll(candidates.query, 1, axis=0)
    different = moved[:, 0] != candidates.query[:, 0]
    other = replace(seen.view, candidates=replace(candidates, query=moved))
    clicks, explained = SeededClients(other).replayed()
    assert not explained[different].any()
    assert not clicks[different].any()


def fractions(k: int) -> list[Fraction]:
    """The values of MaxRR as fractions."""
    return [Fraction(0), *(Fraction(1, rank) for rank in range(1, k + 1))]


def brute_force(mean: Fraction, laws: Floats) -> Floats:
    """P(mean | value r of interaction i), (n, v): every tuple of values walked."""
    n, v = laws.shape
    out = np.zeros((n, v))
    values = fractions(v - 1)
    for ranks in product(range(v), repeat=n):
        if sum((values[rank] for rank in ranks), Fraction(0)) == n * mean:
            for i in range(n):
                others = [laws[j, ranks[j]] for j in range(n) if j != i]
                out[i, ranks[i]] += float(np.prod(others))
    return out


@settings(max_examples=60, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from([(1, 1), (1, 10), (2, 10), (3, 3), (3, 6), (4, 4), (5, 2)]),
    zeros=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_every_tuple_that_explains_a_mean_counts(
    seed: int, shape: tuple[int, int], zeros: bool, dtype: type
) -> None:
    """Also with values that never happen, and a mean that was rounded."""
    rng = np.random.default_rng(seed)
    n, k = shape
    laws = rng.dirichlet(np.ones(k + 1), size=(3, n))
    if zeros:
        laws[rng.random(laws.shape) < 0.3] = 0.0
    values = fractions(k)
    exact = [sum((values[rank] for rank in rng.integers(0, k + 1, n)), Fraction(0)) / n for _ in range(3)]
    means: Floats = np.array([float(mean) for mean in exact]).astype(dtype)
    found = mean_likelihoods(means, laws)
    for mean, law, likely in zip(exact, laws, found, strict=True):
        np.testing.assert_allclose(likely, brute_force(mean, law), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_sums_are_those_of_all_tuples(n: int) -> None:
    sums = reachable_sums(n, 10)
    assert sums is not None
    assert sums.unit == 2520
    every = {sum(ranks, Fraction(0)) for ranks in product(fractions(10), repeat=n)}
    assert [Fraction(total, 2520) for total in sums.totals.tolist()] == sorted(every)


def test_a_mean_between_two_sums_counts_as_the_nearer_one() -> None:
    laws = np.full((5, 1, 3), 1 / 3)
    likely = mean_likelihoods(np.array([-3.0, 0.2, 0.3, 0.8, 7.0]), laws)[:, 0]
    assert likely.argmax(axis=1).tolist() == [0, 0, 2, 1, 1]


def test_too_many_sums_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evolution_messages, "MOST_SUMS", 100)
    reachable_sums.cache_clear()
    assert reachable_sums(2, 10) is not None
    assert reachable_sums(3, 10) is None
    with pytest.raises(ValueError, match="3 reciprocal ranks"):
        mean_likelihoods(np.zeros(1), np.full((1, 3, 11), 1 / 11))
    reachable_sums.cache_clear()
