"""Means and ratios with their intervals, against a bootstrap over queries in plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.judge.bootstrap import QueryBootstrap, interval
from foltr_audit.rng import Streams
from foltr_audit.utils.rows import Estimate
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
