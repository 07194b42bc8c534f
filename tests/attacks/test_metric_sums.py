"""Sums of reciprocal ranks: reached exactly, and explained as a loop over all multisets explains them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from foltr_audit.attacks import evolution_messages
from foltr_audit.attacks.evolution_messages import mean_likelihoods, reachable_sums
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.utils.arrays import Floats


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
