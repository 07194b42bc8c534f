"""Sums in a fixed order: the bits of the same sum in Python, term after term, and close to exact sums."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.kernels import sums
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
    sums.plain_add_tile(w, (0, terms, 1), x, (0, columns), found, (0, columns), terms, rows, columns)
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
