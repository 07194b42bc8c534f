"""Click rates before any message: against loops over all patterns and all grades."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.records.view import ClickBelief
from foltr_audit.inference.count_decoder import cascade_rates, median_rates, weighted_median
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from tests.fixtures.tiny import BELIEF
from tests.inference.test_pattern_decoder import walk_down


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
    rates, chances = [], []
    for grades in product(range(3), repeat=k):
        rates.append(cascade_rates(BELIEF.click[list(grades)], BELIEF.stop[list(grades)]))
        chances.append(np.prod(BELIEF.grades[np.arange(k), list(grades)]))
    table, weights = np.array(rates), np.array(chances)
    for j, median in enumerate(median_rates(BELIEF, k)):
        errors = [weights @ np.abs(table[:, j] - other) for other in np.unique(table[:, j])]
        assert weights @ np.abs(table[:, j] - median) == pytest.approx(min(errors), rel=1e-9)


def test_positions_beyond_the_known_ones_are_like_the_last() -> None:
    short = ClickBelief(click=BELIEF.click, stop=BELIEF.stop, grades=BELIEF.grades[:2])
    longer = np.concatenate([BELIEF.grades[:2], BELIEF.grades[1:2].repeat(3, axis=0)])
    same = ClickBelief(click=BELIEF.click, stop=BELIEF.stop, grades=longer)
    assert np.array_equal(median_rates(short, 5), median_rates(same, 5))


@settings(derandomize=True)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=12))
def test_the_weighted_median_is_that_of_repeated_values(pairs: list[tuple[int, int]]) -> None:
    values, weights = np.array(pairs, dtype=np.float64).T
    repeated = np.sort(values.repeat(weights.astype(np.int64)))
    assert weighted_median(values, weights) == repeated[(repeated.size - 1) // 2]
