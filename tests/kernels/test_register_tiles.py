"""Products of matrices in registers: the bits of the same sums in Python, term after term."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from foltr_audit.kernels.sums import add_products, plain_add_products
from foltr_audit.utils.arrays import Floats


def numbers(shape: tuple[int, ...], seed: int) -> Floats:
    """Numbers of very different sizes, so that every order of a sum has bits of its own."""
    rng = np.random.default_rng([*shape, seed])
    return rng.normal(size=shape) * 10.0 ** rng.integers(-6, 7, size=shape)


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
    add_products(w, (0, terms, 1), x, (0, columns), found, (0, columns), terms, rows, columns)
    assert found.tobytes() == expected.tobytes()
    found = s.copy()
    plain_add_products(rows, columns)(w, (0, terms, 1), x, (0, columns), found, (0, columns), terms)
    assert found.tobytes() == expected.tobytes()


def test_matrices_may_lie_anywhere_in_their_arrays_and_the_rest_is_left_alone() -> None:
    rows, columns, terms = 6, 11, 5
    weights, inputs, sums = numbers((70,), 4), numbers((200,), 5), numbers((300,), 6)
    w = np.array([[weights[3 + 2 * u + 12 * j] for j in range(terms)] for u in range(rows)])
    x = np.array([[inputs[7 + 30 * j + i] for i in range(columns)] for j in range(terms)])
    s = np.array([[sums[1 + 40 * u + i] for i in range(columns)] for u in range(rows)])
    expected = sums.copy()
    for u, row in enumerate(one_after_the_other(w, x, s)):
        expected[1 + 40 * u : 1 + 40 * u + columns] = row
    add_products(weights, (3, 2, 12), inputs, (7, 30), sums, (1, 40), terms, rows, columns)
    assert sums.tobytes() == expected.tobytes()


def test_another_order_has_other_bits() -> None:
    """The test above can fail."""
    w, x, s = numbers((4, 46), 1), numbers((46, 8), 2), numbers((4, 8), 3)
    backwards = one_after_the_other(w[:, ::-1], x[::-1], s)
    assert backwards.tobytes() != one_after_the_other(w, x, s).tobytes()


def test_other_arrays_are_refused() -> None:
    @numba.njit
    def narrow(w: Any) -> None:
        add_products(w, (0, 1, 1), w, (0, 1), w, (0, 1), 1, 1, 1)

    with pytest.raises(numba.TypingError):
        narrow(np.zeros(3, dtype=np.float32))
