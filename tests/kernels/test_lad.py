"""Least absolute deviations against linear programs, medians, and the conditions of an optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.kernels.elementary import largest_exponent, scaled, typical_exponent
from foltr_audit.kernels.kinks import median_event
from foltr_audit.kernels.regression import least_absolute
from foltr_audit.utils.arrays import Floats

NOISES = ("none", "rounding", "sparse", "laplace", "cauchy")
P, M = 46, 11


def noise(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Noise of size about 1: none, that of float32, 8 % of large entries, or dense."""
    dense = {
        "none": np.zeros(shape),
        "rounding": 1e-8 * rng.normal(size=shape),
        "sparse": np.where(rng.random(shape) < 0.08, rng.laplace(size=shape), 0.0),
        "laplace": rng.laplace(size=shape),
        "cauchy": rng.standard_cauchy(size=shape),
    }
    return dense[kind]


def systems(n: int, rows: int, m: int, kind: str, seed: int) -> tuple[Floats, Floats, Floats]:
    """Random columns (n, rows, m), values (n, rows) and the unknowns (n, m) behind them."""
    rng = np.random.default_rng(seed)
    columns, b = rng.normal(size=(n, rows, m)), rng.normal(size=(n, m))
    return columns, np.einsum("npm,nm->np", columns, b) + noise(kind, (n, rows), rng), b


def solve(X: Floats, y: Floats) -> Floats:
    return np.asarray(least_absolute(X[np.newaxis], y[np.newaxis])[0])


def least_squares(columns: Floats, values: Floats) -> Floats:
    """The shortest least-squares solution of each system, from NumPy."""
    return np.stack([np.linalg.lstsq(X, y, rcond=None)[0] for X, y in zip(columns, values, strict=True)])


# --- it is a minimiser -------------------------------------------------------------------------------


def tied(seed: int) -> tuple[Floats, Floats]:
    """A system of which so much is 0, 1 or -1 that a descent marks time at most vertices.

    With an even seed differences of potentials on a graph, few of them not 0; else any numbers.
    """
    rng = np.random.default_rng(seed)
    m = int(rng.integers(10, 60))
    rows = int(rng.integers(m, 4 * m))
    if seed % 2:
        X = rng.integers(-1, 2, size=(rows, m)).astype(np.float64)
    else:
        X = np.zeros((rows, m))
        ends = np.argsort(rng.random((rows, m)), axis=1)[:, :2]
        np.put_along_axis(X, ends, np.array([1.0, -1.0]), axis=1)
    return X, (rng.random(rows) < (0.5 if seed % 2 else 0.1)).astype(np.float64)


@settings(max_examples=60, derandomize=True)
@given(
    ratios=st.lists(st.integers(-50, 50), min_size=1, max_size=15, unique=True),
    seed=st.integers(0, 10**6),
)
def test_one_unknown_is_a_weighted_median(ratios: list[int], seed: int) -> None:
    """`sum |x_i| |y_i / x_i - b|`: the ratio at which half of the weight is reached."""
    x = np.random.default_rng(seed).normal(size=len(ratios))
    ratio = np.array(ratios, dtype=np.float64)
    order = np.argsort(ratio)
    reached = np.cumsum(np.abs(x)[order])
    median = ratio[order][np.searchsorted(reached, reached[-1] / 2)]
    assert solve(x[:, np.newaxis], x * ratio)[0] == pytest.approx(median, abs=1e-12)


# --- what does not change it -------------------------------------------------------------------------


@settings(max_examples=60, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 20),
    kind=st.sampled_from(NOISES[1:]),
    factor=st.floats(1e-3, 1e3),
    order=st.permutations(range(20)),
)
def test_shifted_scaled_and_permuted_systems(
    seed: int, m: int, kind: str, factor: float, order: list[int]
) -> None:
    columns, values, _ = systems(4, 30, m, kind, seed)
    b = least_absolute(columns, values)
    room = 1e-9 * (1 + np.abs(b).max())
    shift = np.random.default_rng(seed).normal(size=m)
    permuted = [column for column in order if column < m]
    sizes = np.exp(np.random.default_rng(seed).normal(size=m))
    np.testing.assert_allclose(
        least_absolute(columns, values + columns @ shift), b + shift, rtol=0, atol=room
    )
    np.testing.assert_allclose(least_absolute(columns, factor * values) / factor, b, rtol=0, atol=room)
    np.testing.assert_allclose(least_absolute(-columns, values), -b, rtol=0, atol=room)
    np.testing.assert_allclose(
        least_absolute(columns[..., permuted], values), b[:, permuted], rtol=0, atol=room
    )
    np.testing.assert_allclose(least_absolute(columns * sizes, values) * sizes, b, rtol=0, atol=room)


@pytest.mark.parametrize("pairs", range(1, 12))
def test_ties_follow_the_numbers_of_equations(pairs: int) -> None:
    """Between the two middle values all are medians; weights of nearly 1 say which of them it is."""
    y = np.random.default_rng(pairs).permutation(2 * pairs).astype(np.float64)
    heavier = np.arange(2 * pairs) * (np.sqrt(5) - 1) / 2 % 1
    upper = heavier[y >= pairs].sum() > heavier[y < pairs].sum()
    assert solve(np.ones((2 * pairs, 1)), y)[0] == pytest.approx(pairs if upper else pairs - 1, abs=1e-12)


@settings(max_examples=80, derandomize=True)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(8)))
def test_ties_do_not_depend_on_the_order_of_columns(seed: int, order: list[int]) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(int(rng.integers(2, 25)), 8)).astype(np.float64)
    y = rng.integers(-3, 4, size=len(X)).astype(np.float64)
    np.testing.assert_allclose(solve(X[:, order], y), solve(X, y)[order], rtol=0, atol=1e-9)


@settings(max_examples=60, derandomize=True)
@given(exponent=st.integers(-900, 900), kind=st.sampled_from(NOISES), columns=st.booleans())
def test_powers_of_two_change_no_bit(exponent: int, kind: str, columns: bool) -> None:
    X, y, _ = systems(2, P, M, kind, 13)
    b = least_absolute(X, y)
    if columns:
        exponents = np.where(np.arange(M) % 2, exponent, -exponent)
        assert np.array_equal(least_absolute(np.ldexp(X, exponents), y), np.ldexp(b, -exponents))
    else:
        assert np.array_equal(least_absolute(X, np.ldexp(y, exponent)), np.ldexp(b, exponent))


# --- dependent columns -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NOISES)
def test_of_all_unknowns_with_its_fit_it_is_the_shortest(kind: str) -> None:
    columns, values, _ = systems(4, 20, 9, kind, 18)
    rng = np.random.default_rng(19)
    mixed = columns @ rng.normal(size=(9, 14)) * np.exp(rng.normal(size=14))
    b = least_absolute(mixed, values)
    fit = np.einsum("npm,nm->np", mixed, b)
    np.testing.assert_allclose(b, least_squares(mixed, fit), rtol=0, atol=1e-9 * np.abs(b).max())
    whole = np.einsum("npm,nm->np", columns, least_absolute(columns, values))
    np.testing.assert_allclose(fit, whole, rtol=0, atol=1e-9 * np.abs(fit).max())


def test_twins_share_their_weight_and_zero_columns_have_none() -> None:
    columns, values, b = systems(5, P, 3, "sparse", 20)
    wide = np.stack(
        [columns[..., 0], columns[..., 1], columns[..., 0], np.zeros((5, P)), columns[..., 2]], -1
    )
    half = b[:, 0] / 2
    expected = np.stack([half, b[:, 1], half, np.zeros(5), b[:, 2]], axis=-1)
    np.testing.assert_allclose(least_absolute(wide, values), expected, rtol=0, atol=1e-12)


# --- numbers of any size -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-9, 1e9, 1e300])
@pytest.mark.parametrize("kind", NOISES)
def test_values_of_any_size(kind: str, size: float) -> None:
    columns, values, _ = systems(3, P, M, kind, 21)
    b = least_absolute(columns, values)
    np.testing.assert_allclose(
        least_absolute(columns, values * size) / size, b, rtol=0, atol=1e-9 if size > 1e-310 else 1e-2
    )


# --- its parts ---------------------------------------------------------------------------------------


@settings(max_examples=100, derandomize=True)
@given(
    kinks=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), max_size=12),
    slope=st.integers(-30, -1),
)
def test_the_kink_from_which_on_a_slope_is_not_negative(kinks: list[tuple[int, int]], slope: int) -> None:
    events = np.array(kinks, dtype=np.float64).reshape(-1, 2).T.copy()
    order = np.arange(len(kinks))
    found = median_event(events, order, len(kinks), float(slope))
    times, rises = events[:, order]
    assert sorted(order) == list(range(len(kinks)))
    assert slope + rises[:found].sum() < 0
    if found == len(kinks):
        assert slope + sum(rise for _, rise in kinks) < 0
    else:
        assert slope + rises[: found + 1].sum() >= 0
        assert times[:found].max(initial=0) <= times[found] <= times[found:].min()


def test_exponents() -> None:
    assert largest_exponent(np.array([[0.0, 0.0], [3.0, -5.0], [1e-320, 0.0]])).tolist() == [-4000, 3, -1063]
    rows = np.array([[0.0, 0.0, 8.0, 1.0, -2.0], [1e308, 1e-300, 0.0, 0.0, 1e-300], [0.0] * 5])
    assert typical_exponent(rows).tolist() == [2, 1024 - 900, -4000]
    assert scaled(np.array([3.0, 1.0, 1.0]), np.array([1, 2000, -2000])).tolist() == [6.0, np.inf, 0.0]
