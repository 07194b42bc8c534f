"""Sums in a fixed order: the bits of the same sum in Python, term after term, and close to exact sums."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.kernels import sums
from foltr_audit.kernels.local_steps import move_model, plain_move_model
from foltr_audit.utils.arrays import Floats


@numba.njit(error_model="numpy")
def products(a: Any, b: Any) -> float:
    return float(sums.product_sum(a, b))


@numba.njit(error_model="numpy")
def sizes(a: Any) -> float:
    return sums.size_sum(a)


def numbers(shape: int | tuple[int, ...], seed: int, dtype: str = "float64") -> NDArray[Any]:
    """Numbers of very different sizes, so that every order of a sum has bits of its own."""
    rng = np.random.default_rng([*np.atleast_1d(shape), seed])
    return (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 7, size=shape)).astype(dtype)


@pytest.mark.parametrize("dtypes", [("float32", "float64"), ("float64", "float64")])
def test_sums_of_two_vectors(dtypes: tuple[str, str]) -> None:
    for size in (*range(50), 64, 136, 769):
        a, b = numbers(size, 1, dtypes[0]), numbers(size, 2, dtypes[1])
        found = products(a, b)
        assert found == sums.plain_product_sum(a, b)
        terms = [x * y for x, y in zip(a.astype(float).tolist(), b.tolist(), strict=True)]
        assert found == pytest.approx(math.fsum(terms), abs=1e-14 * math.fsum(map(abs, terms)))


def test_sums_of_sizes() -> None:
    for size in (*range(50), 64, 136, 769):
        a = numbers(size, 3)
        assert sizes(a) == sums.plain_size_sum(a)
        assert sizes(a) == pytest.approx(math.fsum(abs(a)), rel=1e-14)


def test_the_order_is_that_of_lanes() -> None:
    """Lanes 0 and 4 cancel before anything else is added to them; one after the other, 1 would be lost."""
    a = np.zeros(8)
    a[0], a[4], a[5] = 1e20, -1e20, 1.0
    assert products(a, np.ones(8)) == 1.0
    a[4], a[1] = 1.0, -1e20  # now they meet last
    assert products(a, np.ones(8)) == 0.0


def test_vectors_whose_numbers_lie_apart_and_narrow_matrices_are_refused() -> None:
    @numba.njit
    def narrow(w: Any) -> None:
        sums.add_products(w, (0, 1, 1), w, (0, 1), w, (0, 1), 1, 1, 1)

    a = np.ones((4, 4))
    with pytest.raises(numba.TypingError):
        products(a[:, 0], a[:, 1])
    with pytest.raises(numba.TypingError):
        narrow(np.zeros(3, dtype=np.float32))


# --- blocks ----------------------------------------------------------------------------------------------


@numba.njit(error_model="numpy")
def compiled_sums(values: Any, row: int, first: int, place: int) -> tuple[float, float]:
    before = sums.block_sum(values, row, first)
    return before, sums.sum_without(values, row, first, place)


@numba.njit(error_model="numpy")
def compiled_rows(
    totals: Any,
    first: int,
    count: int,
    lasts: Any,
    u: Any,
    rank: int,
    column: int,
    tails: Any,
    found: Any,
    deep: Any,
) -> None:
    sums.add_blocks(totals, first, count, lasts, tails)
    sums.find_blocks(totals, first, count, lasts, u, rank, column, tails, found, deep)


def test_the_sum_of_a_block_with_and_without_one_number() -> None:
    for place in range(8):
        values = numbers((3, 24), place)
        other = values.copy()
        found = compiled_sums(values, 1, 8, place)
        assert found[0] == sums.plain_block_sum(other, 1, 8)
        assert found[1] == sums.plain_sum_without(other, 1, 8, place)
        assert np.array_equal(values, other)
        assert found[1] == pytest.approx(math.fsum(values[1, 8:16]), rel=1e-9, abs=1e-9)


def test_blocks_are_found_as_one_after_the_other() -> None:
    """Also where rounding moves a target past the end, and where a row has no block."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        lasts = rng.integers(-1, 7, size=16)
        there = np.arange(7)[:, np.newaxis] <= lasts
        totals = np.where(there, rng.random((7, 16)) ** 8, np.nan)  # beyond the last block anything may be
        u = rng.choice([rng.random(), 1.0, 1.0 + 1e-15, np.nan], size=(2, 20))
        results = []
        for find in (compiled_rows, plain_rows):
            tails, deep, found = np.empty(16), np.empty(16), np.empty(16, dtype=np.int64)
            for first in (0, 8):
                find(totals, first, 7, lasts, u, 1, 3, tails, found, deep)
            results.append([array.tobytes() for array in (tails, deep, found)])
        assert results[0] == results[1]
        total = np.cumsum(np.where(there, totals, 0.0), axis=0)
        for row in np.flatnonzero((lasts >= 0) & (u[1, 3:19] < 1.0)).tolist():
            expected = int((total[:, row] <= u[1, 3 + row] * total[-1, row]).sum())
            assert found[row] == min(expected, lasts[row])


def plain_rows(*given: Any) -> None:
    """The same in Python, of the same arguments."""
    totals, first, count, lasts, *_, tails, _, _ = given
    sums.plain_add_blocks(totals, first, count, lasts, tails)
    sums.plain_find_blocks(*given)


# --- products of matrices --------------------------------------------------------------------------------


def one_after_the_other(w: Floats, x: Floats, s: Floats) -> Floats:
    """`s + w @ x`, each sum by adding one rounded product after the other, (rows, columns)."""
    out = s.copy()
    for u in range(s.shape[0]):
        for i in range(s.shape[1]):
            for j in range(x.shape[0]):
                out[u, i] = out[u, i] + w[u, j] * x[j, i]
    return out


@pytest.mark.parametrize("terms", [0, 1, 10, 46])
@pytest.mark.parametrize("columns", [1, 7, 8, 16, 21])
@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_terms_are_added_in_their_order(rows: int, columns: int, terms: int) -> None:
    w, x, s = numbers((rows, terms), 1), numbers((terms, columns), 2), numbers((rows, columns), 3)
    expected = one_after_the_other(w, x, s)
    found = s.copy()
    sums.add_products(w, (0, terms, 1), x, (0, columns), found, (0, columns), terms, rows, columns)
    assert found.tobytes() == expected.tobytes()
    found = s.copy()
    sums.plain_add_products(rows, columns)(w, (0, terms, 1), x, (0, columns), found, (0, columns), terms)
    assert found.tobytes() == expected.tobytes()


def test_matrices_may_lie_anywhere_in_their_arrays_and_the_rest_is_left_alone() -> None:
    rows, columns, terms = 6, 11, 5
    weights, inputs, found = numbers(70, 4), numbers(200, 5), numbers(300, 6)
    w = np.array([[weights[3 + 2 * u + 12 * j] for j in range(terms)] for u in range(rows)])
    x = np.array([[inputs[7 + 30 * j + i] for i in range(columns)] for j in range(terms)])
    s = np.array([[found[1 + 40 * u + i] for i in range(columns)] for u in range(rows)])
    expected = found.copy()
    for u, row in enumerate(one_after_the_other(w, x, s)):
        expected[1 + 40 * u : 1 + 40 * u + columns] = row
    sums.add_products(weights, (3, 2, 12), inputs, (7, 30), found, (1, 40), terms, rows, columns)
    assert found.tobytes() == expected.tobytes()


def test_another_order_has_other_bits() -> None:
    """The test above can fail."""
    w, x, s = numbers((4, 46), 1), numbers((46, 8), 2), numbers((4, 8), 3)
    backwards = one_after_the_other(w[:, ::-1], x[::-1], s)
    assert backwards.tobytes() != one_after_the_other(w, x, s).tobytes()


# --- steps of linear models ------------------------------------------------------------------------------


@numba.njit(error_model="numpy")
def compiled_move(
    features: Any, documents: Any, amounts: Any, count: int, rate: float, models: Any, steps: Any, row: int
) -> None:
    move_model(features, documents, amounts, count, rate, models, steps, row)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("parameters", [1, 7, 8, 9, 46, 136])
def test_a_step_has_the_bits_of_sums_term_after_term(parameters: int, dtype: str) -> None:
    rng = np.random.default_rng(parameters)
    features = (rng.normal(size=(20, parameters)) * 10.0 ** rng.integers(-4, 5, size=parameters)).astype(
        dtype
    )
    documents, amounts = rng.permutation(20)[:6], rng.normal(size=6)
    for count in (0, 1, 5):
        results = []
        models, steps = rng.normal(size=(3, parameters)), rng.normal(size=(3, parameters))
        for move in (compiled_move, plain_move_model):
            after, moved = models.copy(), steps.copy()
            move(features, documents, amounts, count, 0.1, after, moved, 1)
            results.append([after.tobytes(), moved.tobytes()])
        assert results[0] == results[1]
        exact = models[1] + 0.1 * amounts[:count] @ features[documents[:count]].astype(np.float64)
        np.testing.assert_allclose(after[1], exact, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(moved[1], steps[1] + after[1] - models[1], rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(after[[0, 2]], models[[0, 2]])
