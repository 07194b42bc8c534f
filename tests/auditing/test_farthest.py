"""The farthest two points, against every pair looked at one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.auditing.canaries import farthest_flip, farthest_pair
from foltr_audit.utils.arrays import Floats


def distances(points: Floats, order: int) -> Floats:
    """Every distance of two points, (n, n)."""
    differences = points[:, np.newaxis] - points[np.newaxis]
    return np.asarray(np.linalg.norm(differences, ord=order, axis=2))


def points_of(seed: int, n: int, P: int) -> Floats:
    """Points with heavy tails, some of them twice."""
    rng = np.random.default_rng(seed)
    points = rng.standard_t(2, size=(n, P))
    return np.ascontiguousarray(points[rng.integers(n, size=n)])


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 6), st.sampled_from([1, 2]))
def test_no_two_points_are_farther_apart(seed: int, n: int, P: int, order: int) -> None:
    points = points_of(seed, n, P)
    every = distances(points, order)
    i, j, apart = farthest_pair(points, order, 0.0)
    assert apart == pytest.approx(every.max(), rel=1e-12)
    if every.max() > 0:
        assert every[i, j] == pytest.approx(every.max(), rel=1e-12)
    assert farthest_pair(points, order, float(every.max()) * 1.01 + 1e-9)[:2] == (-1, -1)


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 6), st.sampled_from([1, 2]))
def test_points_on_a_sphere_are_no_farther_apart_up_to_rounding(
    seed: int, n: int, P: int, order: int
) -> None:
    points = points_of(seed, n, P)
    points /= np.linalg.norm(points, ord=order, axis=1, keepdims=True)
    farthest = float(distances(points, order).max())
    assert farthest_pair(points, order, 0.0)[2] == pytest.approx(farthest, rel=2e-9, abs=1e-12)
    assert farthest_pair(points, order, 2.0) == (-1, -1, 2.0)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5), st.sampled_from([1, 2]))
def test_flips_differ_in_one_bit(seed: int, k: int, P: int, order: int) -> None:
    points = points_of(seed, 2**k, P)
    every = distances(points, order)
    rows = np.arange(2**k)
    flips = np.array([[bin(a ^ b).count("1") == 1 for a in rows] for b in rows])
    i, j, apart = farthest_flip(points, order, 0.0)
    assert apart == pytest.approx(every[flips].max(), rel=1e-12)
    assert apart == 0.0 or bin(i ^ j).count("1") == 1


@pytest.mark.parametrize("order", [1, 2])
def test_rounding_does_not_choose(order: int) -> None:
    far = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5], [-1.5, 0.0]])
    for row in range(4):
        points = far.copy()
        points[row] *= 1 + 1e-13
        assert farthest_pair(points, order, 0.0)[:2] == farthest_pair(far, order, 0.0)[:2]
        assert farthest_flip(points, order, 0.0)[:2] == farthest_flip(far, order, 0.0)[:2]


def test_too_few_points() -> None:
    assert farthest_pair(np.zeros((1, 3)), 1, 0.5) == (-1, -1, 0.5)
    assert farthest_pair(np.zeros((0, 3)), 2, 0.0) == (-1, -1, 0.0)
    assert farthest_flip(np.zeros((1, 3)), 1, 0.0) == (-1, -1, 0.0)
