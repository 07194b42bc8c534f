"""The order of equal scores: that of NumPy 1.24, whose answers are written down, on any processor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.kernels.numpy_order import ascending, reversed_lists
from foltr_audit.kernels.ranking import top_lists

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
    np.testing.assert_array_equal(reversed_lists(scores, starts, 10), top_lists(scores, starts, 10))


def test_scores_that_are_equal_in_single_precision_are_equal() -> None:
    starts = np.array([0, 3])
    scores = np.array([1.0, 1.0 + 1e-12, 0.5])
    assert reversed_lists(scores, starts, 3).tolist() == [[1, 0, 2]]
    assert reversed_lists(scores[[1, 0, 2]], starts, 3).tolist() == [[1, 0, 2]]
    assert top_lists(scores[[1, 0, 2]], starts, 3).tolist() == [[0, 1, 2]]
