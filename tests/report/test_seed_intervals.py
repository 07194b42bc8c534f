"""Intervals over seeds with fixed folds: by SciPy in one stratum, and by their coverage in several."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from foltr_audit.experiments.published import LEVEL, stratified_interval


def test_one_stratum_is_the_usual_interval_of_a_mean() -> None:
    values = [0.41, 0.44, 0.43, 0.4, 0.47]
    low, high = ttest_1samp(values, 0.0).confidence_interval(LEVEL)
    assert stratified_interval(values, [0] * 5) == pytest.approx((low, high), rel=1e-12)


def test_a_single_run_of_a_fold_has_no_spread() -> None:
    assert stratified_interval([0.4, 0.5, 0.6], [1, 1, 2]) is None


def covered(strata: list[int], pooled: bool) -> float:
    """How often an interval of values around the levels of their strata holds the mean of these levels."""
    rng, levels = np.random.default_rng(4), np.array([0.1, 0.5, 0.9])
    kinds, hits = np.array(strata), 0
    for _ in range(2000):
        values = levels[kinds] + rng.normal(scale=0.01, size=kinds.size)
        found = stratified_interval(values.tolist(), [0] * kinds.size if pooled else strata)
        assert found is not None
        hits += found[0] <= levels[kinds].mean() <= found[1]
    return hits / 2000


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    """Four binomial standard deviations around the level; without strata it is far too wide."""
    assert abs(covered([0, 1, 2] * 3, pooled=False) - LEVEL) < 4 * (LEVEL * (1 - LEVEL) / 2000) ** 0.5
    assert covered([0, 1, 2] * 3, pooled=True) == 1.0
