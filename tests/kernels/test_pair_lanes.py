"""Coefficients of eight lists at once: the bits of one list after the other, and exact weights."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from foltr_audit.kernels.pdgd import fill_pairs, plain_fill_pairs
from tests.fixtures.reference import exact_pair_weights, observed_pairs


@numba.njit(error_model="numpy")
def compiled_pairs(
    drawn: Any,
    tails: Any,
    clicks: Any,
    first: int,
    candidates: bool,
    only_observed: bool,
    left: Any,
    out: Any,
    pairs: Any,
) -> None:
    fill_pairs(drawn, tails, clicks, first, candidates, only_observed, left, out, pairs)


def lists(seed: int, k: int) -> tuple[Any, Any, Any]:
    """Weights (k, 16), some lists shorter than k or far apart, the weights of other documents, and clicks."""
    rng = np.random.default_rng([seed, k])
    lengths = rng.integers(0, k + 1, size=16)
    drawn = rng.random((k, 16)) ** 4
    drawn[:, 3] *= 1e-26
    drawn[0, 5] = np.nan
    drawn[np.arange(k)[:, np.newaxis] >= lengths] = 0.0
    return drawn, rng.random(16), (rng.random((k, 16)) < 0.3) & (drawn != 0.0)


def found(fill: Any, given: tuple[Any, Any, Any], candidates: bool, only_observed: bool) -> tuple[Any, Any]:
    drawn, tails, clicks = given
    out, pairs = np.full(drawn.shape, np.nan), np.full(16, 99)
    left = np.empty((2 * drawn.shape[0] + 2, 8))
    for first in (0, 8):
        fill(drawn, tails, clicks, first, candidates, only_observed, left, out, pairs)
    return out, pairs


@pytest.mark.parametrize("k", [1, 2, 7, 10, 12])
@pytest.mark.parametrize("only_observed", [True, False])
@pytest.mark.parametrize("candidates", [True, False])
def test_eight_lists_have_the_bits_of_one_after_the_other(
    candidates: bool, only_observed: bool, k: int
) -> None:
    given = lists(0, k)
    here, plain = (
        found(fill, given, candidates, only_observed) for fill in (compiled_pairs, plain_fill_pairs)
    )
    assert here[1].tolist() == plain[1].tolist()
    kept = here[1] >= 0
    assert here[0][:, kept].tobytes() == plain[0][:, kept].tobytes()


@pytest.mark.parametrize("only_observed", [True, False])
@pytest.mark.parametrize("candidates", [True, False])
def test_coefficients_are_sums_of_exact_weights(candidates: bool, only_observed: bool) -> None:
    drawn, tails, clicks = lists(1, 9)
    out, pairs = found(compiled_pairs, (drawn, tails, clicks), candidates, only_observed)
    far = [
        column for column in range(16) if np.isnan(drawn[:, column]).any() or (drawn[:, column] == 0).all()
    ]
    compared = 0
    for column in sorted(set(range(16)) - {3, *far}):
        shown = np.flatnonzero(drawn[:, column])
        scores = np.log(np.append(drawn[shown, column], tails[column]))
        exact = exact_pair_weights(scores, shown.tolist(), candidates)
        expected = np.zeros(9)
        teaching = observed_pairs(clicks[shown, column].tolist(), only_observed)
        for winner, loser in teaching:
            expected[winner] += exact[winner, loser]
            expected[loser] -= exact[winner, loser]
        np.testing.assert_allclose(out[:, column], expected, rtol=1e-9, atol=1e-12)
        assert pairs[column] == len(teaching)
        compared += len(teaching)
    assert compared > 20
    assert pairs[3] <= 0
