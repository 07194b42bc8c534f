"""Means, ratios and shares with their intervals: plain loops, and how often they hold the truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from foltr_audit.core.results import Estimate, Interval
from foltr_audit.judge.bootstrap import QueryBootstrap, binomial_interval, interval, share_interval
from foltr_audit.judge.scoring import ScoreRanking
from foltr_audit.rng import Streams
from tests.fixtures.evidence import middle, resampled

QUERIES = np.array(["b", "a", "b", "c", "c", "c", "d", "e"])


def draws(seed: int, n: int, count: int = 300) -> NDArray[np.int64]:
    return Streams(seed).generator("bootstrap").integers(0, n, size=(count, n))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_mean_and_its_interval_equal_a_plain_loop(seed: int) -> None:
    values = np.array([0.1, 0.9, 0.4, 0.3, np.nan, 1.0, 0.0, np.nan])
    defined = ~np.isnan(values)
    found = QueryBootstrap(QUERIES, Streams(seed), 300).mean(values)
    loop = resampled(np.where(defined, values, 0.0), defined.astype(float), QUERIES, draws(seed, 5))
    assert found.value == pytest.approx(np.nanmean(values), rel=1e-12)
    assert found.ci95 == pytest.approx(middle(loop), rel=1e-12)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_ratio_and_its_interval_equal_a_plain_loop(seed: int) -> None:
    above = np.array([1.0, 3.0, 0.0, 2.0, 1.0, 1.0, 0.0, 4.0])
    below = np.array([2.0, 4.0, 3.0, 2.0, 5.0, 1.0, 0.0, 8.0])
    resamples = QueryBootstrap(QUERIES, Streams(seed), 300)
    loop = resampled(above, below, QUERIES, draws(seed, 5))
    plain = resamples.ratio(above, below)
    assert plain.value == pytest.approx(12 / 25, rel=1e-12)
    assert plain.ci95 == pytest.approx(middle(loop), rel=1e-12)
    squared = resamples.ratio(above, below, lambda share: share**2)
    assert squared.value == pytest.approx((12 / 25) ** 2, rel=1e-12)
    assert squared.ci95 == pytest.approx(middle(loop**2), rel=1e-12)


def test_resamples_depend_on_seed_and_number_of_queries_only() -> None:
    one, renamed = QueryBootstrap(QUERIES, Streams(1)), QueryBootstrap(np.array(list("vwxyz")), Streams(1))
    assert np.array_equal(one.weights, renamed.weights)
    assert not np.array_equal(one.weights, QueryBootstrap(QUERIES, Streams(2)).weights)
    assert one.names.tolist() == ["a", "b", "c", "d", "e"]
    assert one.cluster.tolist() == [1, 0, 1, 2, 2, 2, 3, 4]
    assert (one.weights.sum(axis=1) == 5).all()


def test_nothing_is_defined() -> None:
    for query in (QUERIES, QUERIES[:0]):
        resamples, zeros = QueryBootstrap(query, Streams(1)), np.zeros(query.size)
        for found in (resamples.mean(zeros * np.nan), resamples.ratio(zeros, zeros)):
            assert np.isnan(found.value)
            assert found.ci95 is None


def test_one_query_has_no_interval() -> None:
    one = QueryBootstrap(np.array(["a", "a", "a"]), Streams(1))
    assert one.mean(np.array([0.0, 0.5, 1.0])) == Estimate(0.5, None)
    assert one.ratio(np.ones(3), np.full(3, 2.0)) == Estimate(0.5, None)
    two = QueryBootstrap(np.array(["a", "a", "b"]), Streams(1))
    assert two.mean(np.array([0.0, 1.0, np.nan])) == Estimate(0.5, None)


def test_the_middle_95_percent() -> None:
    values = np.arange(1001.0)
    assert interval(values, 2) == (25.0, 975.0)
    assert interval(np.append(values, np.nan), 2) == (25.0, 975.0)
    assert interval(values, 1) is None
    assert interval(np.full(3, np.nan), 2) is None


# --- shares near 0 and 1 --------------------------------------------------------------------------


NEAR_THE_ENDS = (0.005, 0.02, 0.05, 0.1, 0.9, 0.95, 0.98, 0.995)


def held(ends: Interval | None, truth: float) -> bool:
    assert ends is not None
    return ends[0] - 1e-12 <= truth <= ends[1] + 1e-12


def coverage(queries: int, truth: float, *, plain: bool = False) -> float:
    """How often the interval of `queries` lists that are each right or wrong holds the truth, exactly."""
    resamples = QueryBootstrap(np.array([f"{q:03d}" for q in range(queries)]), Streams(1), 400)
    total = 0.0
    for hits in range(queries + 1):
        found = resamples.means((np.arange(queries) < hits).astype(np.float64), share=True)
        ends = interval(found.draws, queries) if plain else found.score.ci95
        total += float(binom.pmf(hits, queries, truth)) * held(ends, truth)
    return total


@pytest.mark.parametrize("queries", [5, 8, 14, 30, 60])
def test_near_the_ends_an_interval_holds_the_truth_as_often_as_it_says(queries: int) -> None:
    assert min(coverage(queries, truth) for truth in NEAR_THE_ENDS) >= 0.95


@pytest.mark.parametrize("queries", [5, 14, 30])
def test_resamples_alone_do_not(queries: int) -> None:
    assert min(coverage(queries, truth, plain=True) for truth in NEAR_THE_ENDS) < 0.6


def test_lists_of_one_query_are_one_trial() -> None:
    """20 lists of 5 queries, alike within a query: the interval is that of 5."""
    truth, rng, held_in, alone = 0.9, np.random.default_rng(4), 0, 0
    resamples = QueryBootstrap(np.repeat(list("abcde"), 4), Streams(1), 300)
    for _ in range(400):
        found = resamples.means(np.repeat(rng.random(5) < truth, 4).astype(np.float64), share=True)
        held_in += held(found.score.ci95, truth)
        alone += held(interval(found.draws, 5), truth)
    assert held_in / 400 >= 0.95
    assert alone / 400 < 0.6


@pytest.mark.slow
def test_shares_of_documents_hold_the_truth_too() -> None:
    """Accuracy of ten documents a list, of which few lists are wrong, but those on most documents."""
    rng, held_in = np.random.default_rng(5), 0
    resamples = QueryBootstrap(np.array([f"{q:02d}" for q in range(14)]), Streams(1), 400)
    truth = 0.97 + 0.03 * 0.3
    for _ in range(1000):
        wrong = rng.random(14) < 0.03
        found = resamples.share(np.where(wrong, 0.3, 1.0))
        held_in += held(found.ci95, truth)
    assert held_in / 1000 >= 0.95


def aucs(queries: int, miss: float, repeats: int) -> tuple[float, float]:
    """How often the interval of an AUC holds the truth, and how often the plain bootstrap's does.

    Each query has one clicked document, scored above all others but for a share `miss` of the queries, where
    it lies below all of them.
    """
    rng = np.random.default_rng(6)
    cluster = np.repeat(np.arange(queries), 5)
    clicked = np.tile([True, False, False, False, False], queries)
    resamples = QueryBootstrap(np.array([f"{q:02d}" for q in range(queries)]), Streams(1), 300)
    found = [0, 0]
    for _ in range(repeats):
        low = np.repeat(rng.random(queries) < miss, 5)
        scores = rng.random(clicked.size) + np.where(clicked, np.where(low, -2.0, 2.0), 0.0)
        areas = ScoreRanking.of(scores, clicked, cluster).areas(resamples)
        found[0] += held(areas.score.ci95, 1.0 - miss)
        found[1] += held(interval(areas.draws, queries), 1.0 - miss)
    return found[0] / repeats, found[1] / repeats


@pytest.mark.parametrize(("queries", "miss"), [(5, 0.05), (14, 0.03)])
def test_the_interval_of_an_auc_near_1_holds_the_truth(queries: int, miss: float) -> None:
    ours, plain = aucs(queries, miss, 200)
    assert ours >= 0.95
    assert plain < 0.6


def test_an_auc_with_one_list_of_a_class_has_no_interval() -> None:
    clicked = np.array([True, True, True, False])
    found = ScoreRanking.of(np.array([3.0, 2.0, 1.0, 0.0]), clicked, np.arange(4))
    assert found.auc(QueryBootstrap(np.array(list("abcd")), Streams(1))).ci95 is None


def test_five_of_five() -> None:
    """.025 to the power of 1/5, the closed form of Clopper and Pearson's lower end."""
    resamples = QueryBootstrap(np.array(list("abcde")), Streams(1))
    assert resamples.share(np.ones(5)).ci95 == pytest.approx((0.025**0.2, 1.0))
    assert resamples.share(np.zeros(5)).ci95 == pytest.approx((0.0, 1 - 0.025**0.2))
    assert binomial_interval(0, 5) == pytest.approx((0.0, 1 - 0.025**0.2))


def test_the_ends_of_a_binomial_interval_are_as_unlikely_as_they_say() -> None:
    for hits, trials in ((1, 7), (3, 20), (19, 20)):
        low, high = binomial_interval(hits, trials)
        assert binom.sf(hits - 1, trials, low) == pytest.approx(0.025)
        assert binom.cdf(hits, trials, high) == pytest.approx(0.025)


def test_what_many_queries_carry_keeps_the_interval_of_its_resamples() -> None:
    values = np.concatenate([np.ones(30), np.zeros(30)])
    found = QueryBootstrap(np.array([f"{q:02d}" for q in range(60)]), Streams(1)).means(values, share=True)
    assert found.score.ci95 == interval(found.draws, 60)
    assert share_interval(0.8, np.full(1000, 0.8), 60) == (0.8, 0.8)


def test_a_share_that_is_too_small_to_square_is_none() -> None:
    resamples = QueryBootstrap(np.array(list("abcde")), Streams(1))
    assert resamples.share(np.full(5, 1e-199)).ci95 == pytest.approx(resamples.share(np.zeros(5)).ci95)


def test_a_difference_of_two_certain_shares_is_not_certain() -> None:
    resamples = QueryBootstrap(np.array(list("abcde")), Streams(1))
    values = np.ones(5), np.array([1.0, 1.0, 1.0, np.nan, np.nan])
    one, other = (resamples.means(each, share=True) for each in values)
    found = one.minus(other)
    assert found.value == 0.0
    assert found.ci95 == pytest.approx((0.025**0.2 - 1.0, 1.0 - 0.025 ** (1 / 3)))
