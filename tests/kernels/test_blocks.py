"""Blocks as vectors: the bits of the same sums in Python."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest

from foltr_audit.kernels import sums


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
    rng = np.random.default_rng(0)
    for place in range(8):
        values = rng.normal(size=(3, 24)) * 10.0 ** rng.integers(-6, 7, size=(3, 24))
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
