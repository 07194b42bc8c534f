"""Client steps on JAX arrays, against plain NumPy; skipped without JAX."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.plugins import ClientStep
from tests.fixtures import listwise_trace

jax = pytest.importorskip("jax", reason="JAX is not installed")

D, L = 7, 5


def plain(model: Any, rows: Any, clicks: Any) -> Any:
    """The step of the listwise trace, on JAX arrays."""
    p = jax.nn.softmax(rows @ model)
    return 0.1 * rows.T @ (clicks - clicks.sum() * p)


def test_a_function_of_jax_arrays_is_that_of_numpy_arrays_in_double_precision() -> None:
    rng = np.random.default_rng(1)
    model, rows = rng.normal(size=D), rng.normal(size=(L, D))
    patterns = np.array(list(product([0.0, 1.0], repeat=L)))
    step = fa.jax_step(plain, D, scores=lambda model, rows: rows @ model)
    expected = np.array([listwise_trace.step(model, rows, clicks) for clicks in patterns])
    np.testing.assert_allclose(step.updates(model, rows, patterns), expected, atol=1e-12)
    np.testing.assert_allclose(step.scores(model, rows), rows @ model, atol=1e-12)
    clicks = rng.random(L)
    np.testing.assert_allclose(
        step.slopes(model, rows, clicks), ClientStep.slopes(step, model, rows, clicks), atol=1e-8
    )


def test_a_trace_is_attacked_by_a_function_of_jax_arrays(tmp_path: Path) -> None:
    folder = listwise_trace.write(tmp_path / "trace")
    report = fa.attack_trace(folder, ["map", "lad"], step=fa.jax_step(plain, listwise_trace.FEATURES))
    found = {row.method: row.found.exact.value for row in report.results}
    assert found["map"] == found["lad"] == 1.0
