"""Scores, lists in the order of scores or sampled from Plackett-Luce, and weighted sums of features."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.core.rankers import Ranker
from foltr_audit.core.records import Dataset
from foltr_audit.kernels.numpy_order import ascending, reversed_lists
from foltr_audit.kernels.philox import uniforms
from foltr_audit.kernels.plackett_luce import sampled_lists
from foltr_audit.kernels.ranking import weighted_features
from tests.fixtures.reference import chi_square_p, dataset, list_probability, numba_threads
from tests.fixtures.tiny import score_order

KEY = np.uint64(20240607)
LENGTHS = [3, 12, 1, 7]
QUERIES = np.array([1, 0, 3, 2, 1])


def ragged(seed: int = 0, features: int = 5) -> Dataset:
    rng = np.random.default_rng(seed)
    rows = sum(LENGTHS)
    return dataset(rng.normal(size=(rows, features)), np.zeros(rows), LENGTHS)


def sample(scores: list[float], k: int, clients: NDArray[np.int64], first: int = 0) -> NDArray[np.int64]:
    starts = np.arange(clients.size + 1) * len(scores)
    flat = np.tile(np.array(scores, dtype=np.float64), clients.size)
    return sampled_lists(flat, starts, k, first, clients, 3, 17, KEY)


def plackett_luce(scores: list[float], k: int) -> dict[tuple[int, ...], float]:
    """Probability of every list of k documents."""
    weights = [Decimal(score).exp() for score in scores]
    pool = range(len(scores))
    return {shown: float(list_probability(weights, shown, pool)) for shown in permutations(pool, k)}


def fit(shown: NDArray[np.int64], law: dict[tuple[int, ...], float]) -> float:
    """How well sampled lists agree with a law, as a p-value."""
    number = {order: i for i, order in enumerate(law)}
    found, times = np.unique(shown, axis=0, return_counts=True)
    counts = np.zeros(len(law))
    for order, count in zip(found.tolist(), times, strict=True):
        counts[number[tuple(order)]] = count
    return chi_square_p(counts, list(law.values()))


@pytest.mark.parametrize("features", [1, 7, 8, 46, 136])
def test_the_order_of_a_sum_does_not_depend_on_where_a_document_stands(features: int) -> None:
    """Rows whose sum depends on the order of its terms: every place in a cohort must choose the same."""
    rng = np.random.default_rng(features)
    row = (rng.normal(size=features) * 10.0 ** rng.integers(-8, 9, size=features)).astype(np.float32)
    theta = rng.normal(size=(1, features))
    lengths = [1, 2, 3, 8, 17]
    data = dataset(np.tile(row, (sum(lengths), 1)).tolist(), [0] * sum(lengths), lengths)
    scores, _ = Ranker(features).scores(theta, data, np.array([3, 0, 4, 1, 2]))
    assert len(set(scores.tolist())) == 1
    exact = sum(Fraction(float(x)) * Fraction(t) for x, t in zip(row, theta[0], strict=True))
    size = sum(abs(float(x) * t) for x, t in zip(row, theta[0], strict=True))
    assert abs(scores[0] - float(exact)) <= features * 2.3e-16 * size


@settings(max_examples=60, derandomize=True)
@given(
    lists=st.lists(
        st.lists(st.sampled_from([-2.5, -1.0, 0.0, 0.0, 1.0, 1e300]), min_size=1, max_size=14),
        min_size=1,
        max_size=5,
    ),
    k=st.integers(1, 12),
)
def test_top_lists_sort_by_score_and_then_by_position(lists: list[list[float]], k: int) -> None:
    starts = np.concatenate([[0], np.cumsum([len(values) for values in lists])])
    shown = score_order(np.concatenate(lists), starts, k)
    for values, row in zip(lists, shown.tolist(), strict=True):
        best = sorted(range(len(values)), key=lambda i: (-values[i], i))[:k]
        assert row == best + [-1] * (k - len(best))


@pytest.mark.parametrize(
    ("scores", "k"),
    [([0.0, 0.0, 0.0], 3), ([0.3, -0.8, 1.5], 2), ([0.0, 1.0, -0.5, 2.0], 4), ([5.0, 4.0, 4.5, 1.0], 3)],
)
def test_sampled_lists_follow_plackett_luce(scores: list[float], k: int) -> None:
    law = plackett_luce(scores, k)
    np.testing.assert_allclose(sum(law.values()), 1.0, rtol=1e-12)
    shown = sample(scores, k, np.arange(60_000))
    assert 1e-4 < fit(shown, law) < 1 - 1e-4


@pytest.mark.parametrize("size", [3, 8, 23, 60])
def test_each_number_finds_its_document(size: int) -> None:
    """The first document up to which those left weigh more than the number's share of all that is left."""
    clients, scores = np.arange(50), 2.0 * np.random.default_rng(size).normal(size=(50, size))
    found = sampled_lists(scores.ravel(), np.arange(51) * size, 10, 0, clients, 3, 17, KEY)
    for left, numbers, shown in zip(np.exp(scores), uniforms(0, 10, clients, 3, 17, KEY), found, strict=True):
        for number, document in zip(numbers[:size], shown, strict=False):
            below = np.cumsum(left)
            assert document == np.searchsorted(below, number * below[-1], side="right")
            left[document] = 0.0


def test_the_test_of_plackett_luce_can_fail() -> None:
    scores = [0.0, 1.0, -0.5, 2.0]
    shown = sample(scores, 4, np.arange(60_000))
    assert fit(shown, plackett_luce([1.1 * score for score in scores], 4)) < 1e-9
    assert fit(shown, plackett_luce([0.0] * 4, 4)) < 1e-9
    # Normal instead of Gumbel variates of the same variance: Thurstone's model, not Plackett-Luce.
    normal = np.random.default_rng(0).normal(scores, np.pi / np.sqrt(6), size=(60_000, 4))
    assert fit(np.argsort(-normal, axis=1), plackett_luce(scores, 4)) < 1e-9


def test_a_score_spread_of_thousands_breaks_nothing() -> None:
    log3 = float(np.log(3.0))
    shown = sample([-1000.0, 0.0, 1000.0, 500.0, -1000.0 + log3], 5, np.arange(20_000))
    assert np.all(shown[:, :3] == [2, 3, 1])
    # What is left are the two worst; the sum of all exponentials would have swallowed them.
    worse_last = np.bincount(shown[:, 3], minlength=5)[[0, 4]]
    assert 1e-4 < chi_square_p(worse_last, [0.25, 0.75]) < 1 - 1e-4


def test_lists_of_short_queries_are_padded() -> None:
    data = ragged()
    theta = np.random.default_rng(2).normal(size=(1, 5))
    scores, starts = Ranker(5).scores(theta, data, QUERIES)
    sampled = sampled_lists(scores, starts, 10, 0, np.arange(QUERIES.size), 0, 1, KEY)
    for shown in (sampled, score_order(scores, starts, 10)):
        for row, query in zip(shown, QUERIES, strict=True):
            length = min(10, LENGTHS[query])
            assert np.all(row[length:] == -1)
            assert len(set(row[:length])) == length
            assert row[:length].min() >= 0
            assert row[:length].max() < LENGTHS[query]


def test_a_sampled_list_depends_on_the_clients_own_stream_only() -> None:
    scores, clients = [0.1, 0.5, -0.3, 0.0, 0.2], np.array([7, 3, 11, 7])
    together = sample(scores, 4, clients)
    for row, client in zip(together, clients, strict=True):
        np.testing.assert_array_equal(sample(scores, 4, np.array([client]))[0], row)
    np.testing.assert_array_equal(together[0], together[3])
    many = np.arange(500)
    assert np.any(sample(scores, 4, many) != sample(scores, 4, many, first=5))


def test_any_number_of_threads_gives_the_same_bytes() -> None:
    data = ragged(features=40)
    queries = np.random.default_rng(5).integers(0, len(LENGTHS), size=300)
    theta = np.random.default_rng(6).normal(size=(300, 40))

    def all_bytes(threads: int) -> list[bytes]:
        with numba_threads(threads):
            scores, starts = Ranker(40).scores(theta, data, queries)
            shown = sampled_lists(scores, starts, 10, 0, np.arange(300), 0, 1, KEY)
            weights = np.where(shown >= 0, theta[:, :10], 0.0)
            sums = weighted_features(data.features, data.offsets, queries, shown, weights)
            return [a.tobytes() for a in (scores, score_order(scores, starts, 10), shown, sums)]

    assert all_bytes(2) == all_bytes(1)


# --- the order of NumPy 1.24, on any processor -----------------------------------------------------------

# `numpy.argsort` of these digits as float32, by NumPy 1.24.4 with its default kind.
SORTED = {
    "21220100202001100": "16 4 6 7 15 9 12 11 1 14 13 5 0 3 2 10 8",
    "11110001001101101010": "9 17 15 12 8 6 19 4 5 7 18 10 11 3 13 14 2 16 1 0",
    "200441332413321443334133311021023": (
        "1 2 30 27 26 14 25 10 21 5 29 28 13 31 8 0 22 24 23 32 18 17 12 11 7 6 19 20 15 9 4 3 16"
    ),
    "012303000123220332300020212311201203100103233013002103320122": (
        "0 23 34 21 20 19 37 38 14 31 45 40 48 49 8 7 6 4 52 56 39 36 51 57 32 46 28 29 1 25 9 26 2 55 50 10 "
        "12 42 13 59 22 58 17 30 24 33 54 53 3 5 16 35 47 11 18 44 27 41 15 43"
    ),
}


@pytest.mark.parametrize("digits", SORTED)
def test_equal_numbers_lie_as_numpy_put_them(digits: str) -> None:
    values = np.array([int(digit) for digit in digits], dtype=np.float32)
    assert ascending(values).tolist() == [int(place) for place in SORTED[digits].split()]


@given(st.lists(st.integers(-3, 3), max_size=200))
def test_the_order_is_a_sorted_permutation(numbers: list[int]) -> None:
    values = np.array(numbers, dtype=np.float32)
    order = ascending(values)
    assert sorted(order.tolist()) == list(range(len(numbers)))
    assert values[order].tolist() == sorted(numbers)
    if len(numbers) <= 16:
        assert order.tolist() == np.argsort(values, kind="stable").tolist()


def test_the_longest_and_most_uneven_lists_are_sorted() -> None:
    for values in (np.arange(5000.0), -np.arange(5000.0), np.zeros(5000), np.arange(5000.0) % 7):
        order = ascending(values.astype(np.float32))
        assert values[order].tolist() == sorted(values)


def test_lists_of_different_scores_are_those_of_every_other_order() -> None:
    sizes = (1, 3, 10, 17, 40, 100)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    scores = np.random.default_rng(2).normal(size=starts[-1])
    np.testing.assert_array_equal(reversed_lists(scores, starts, 10), score_order(scores, starts, 10))


def test_scores_that_are_equal_in_single_precision_are_equal() -> None:
    starts = np.array([0, 3])
    scores = np.array([1.0, 1.0 + 1e-12, 0.5])
    assert reversed_lists(scores, starts, 3).tolist() == [[1, 0, 2]]
    assert reversed_lists(scores[[1, 0, 2]], starts, 3).tolist() == [[1, 0, 2]]
    assert score_order(scores[[1, 0, 2]], starts, 3).tolist() == [[0, 1, 2]]
