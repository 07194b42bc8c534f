"""The cost of computing the same bits on every processor, compared with what the compiler would do."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numba
import numpy as np

from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.timing import TimingTask, interleave
from foltr_audit.kernels.elementary import exp
from foltr_audit.kernels.sums import product_sum

_DOCUMENTS = 1000
_FEATURES = (46, 136)


@numba.njit(error_model="numpy")
def _in_lanes(features: Any, models: Any, row: int) -> float:
    return float(product_sum(features[row], models[0]))


@numba.njit(error_model="numpy", fastmath={"reassoc"})
def _in_any_order(features: Any, models: Any, row: int) -> float:
    total = 0.0
    for j in range(models.shape[1]):
        total += features[row, j] * models[0, j]
    return total


@numba.njit(error_model="numpy")
def _own(features: Any, models: Any, row: int) -> float:
    return float(exp(models[0, row % models.shape[1]]))


@numba.njit(error_model="numpy")
def _of_the_library(features: Any, models: Any, row: int) -> float:
    return math.exp(models[0, row % models.shape[1]])


def _over_all(one: Callable[..., float]) -> Callable[..., float]:
    @numba.njit(error_model="numpy")
    def total(features: Any, models: Any, times: int) -> float:
        found = 0.0
        for _ in range(times):
            for row in range(features.shape[0]):
                found += one(features, models, row)
        return found

    return cast("Callable[..., float]", total)


_WORK = {
    "lanes": _over_all(_in_lanes),
    "any": _over_all(_in_any_order),
    "own": _over_all(_own),
    "library": _over_all(_of_the_library),
}


def fixed_order(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Ratios of rates: sums in fixed lanes, and our own exponential."""
    rng, figures = np.random.default_rng(1), []
    for size in _FEATURES:
        features = rng.normal(size=(_DOCUMENTS, size)).astype(np.float32)
        models = rng.normal(size=(1, size))
        contestants = [
            TimingTask(name, partial(work, features, models), _DOCUMENTS) for name, work in _WORK.items()
        ]
        rates = interleave(contestants, options.turns, options.least)
        lanes, own = rates.ratio("lanes", "any"), rates.ratio("own", "library")
        text = f"sums of {size} products: fixed lanes / order of the compiler's choice"
        figures.append(BenchmarkFigure.of(f"order.sums_{size}", text, lanes, "x"))
    return [*figures, BenchmarkFigure.of("order.exp", "exponential: ours / the library's", own, "x")]
