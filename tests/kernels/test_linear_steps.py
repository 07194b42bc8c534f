"""Steps of linear models in registers: the bits of the same sums in Python, term after term."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from foltr_audit.kernels.local_steps import move_model, plain_move_model


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
