"""Sums in a fixed order: the bits of the same sum in Python, and close to correctly rounded sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.kernels import sums

JOBS: dict[str, tuple[Any, Callable[..., float], Callable[..., Any]]] = {
    "products": (sums.product_sum, sums.plain_product_sum, lambda a, b: a * b),
    "differences": (sums.difference_sum, sums.plain_difference_sum, lambda a, b: abs(a - b)),
    "squared": (sums.squared_difference_sum, sums.plain_squared_difference_sum, lambda a, b: (a - b) ** 2),
}


@numba.njit(error_model="numpy")
def sizes(a: Any) -> float:
    return sums.size_sum(a)


def compiled(name: str) -> Callable[..., float]:
    job = JOBS[name][0]

    @numba.njit(error_model="numpy")
    def total(a: Any, b: Any) -> float:
        return float(job(a, b))

    return cast("Callable[..., float]", total)


def numbers(size: int, dtype: str, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng([size, seed])
    return (rng.normal(size=size) * 10.0 ** rng.integers(-6, 7, size=size)).astype(dtype)


@pytest.mark.parametrize("dtypes", [("float32", "float64"), ("float64", "float64")])
@pytest.mark.parametrize("name", JOBS)
def test_sums_of_two_vectors(name: str, dtypes: tuple[str, str]) -> None:
    total, plain, term = compiled(name), JOBS[name][1], JOBS[name][2]
    for size in (*range(50), 64, 136, 769):
        a, b = numbers(size, dtypes[0], 1), numbers(size, dtypes[1], 2)
        found = total(a, b)
        assert found == plain(a, b)
        terms = [term(x, y) for x, y in zip(a.astype(float).tolist(), b.tolist(), strict=True)]
        assert found == pytest.approx(math.fsum(terms), abs=1e-14 * math.fsum(map(abs, terms)))


def test_sums_of_sizes() -> None:
    for size in (*range(50), 64, 136, 769):
        a = numbers(size, "float64", 3)
        assert sizes(a) == sums.plain_size_sum(a)
        assert sizes(a) == pytest.approx(math.fsum(abs(a)), rel=1e-14)


@numba.njit(error_model="numpy")
def four_products(matrix: Any, first: int, vector: Any) -> sums.FourNumbers:
    return sums.row_products(matrix, first, vector)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_products_of_four_rows_are_those_of_one_row_after_the_other(dtype: str) -> None:
    product = compiled("products")
    for size in (*range(20), 46, 136):
        matrix, vector = numbers(7 * size, dtype, 5).reshape(7, size), numbers(size, "float64", 6)
        found = four_products(matrix, 2, vector)
        assert found == sums.plain_row_products(matrix, 2, vector)
        assert found == tuple(product(matrix[row], vector) for row in range(2, 6))


def test_the_order_is_that_of_lanes() -> None:
    """Lanes 0 and 4 cancel before anything else is added to them; one after the other, 1 would be lost."""
    a = np.zeros(8)
    a[0], a[4], a[5] = 1e20, -1e20, 1.0
    assert compiled("products")(a, np.ones(8)) == 1.0
    a[4], a[1] = 1.0, -1e20  # now they meet last
    assert compiled("products")(a, np.ones(8)) == 0.0


def test_vectors_whose_numbers_lie_apart_are_refused() -> None:
    a = np.ones((4, 4))
    with pytest.raises(numba.TypingError):
        compiled("products")(a[:, 0], a[:, 1])
