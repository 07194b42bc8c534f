"""Intervals of means over runs, where only the seed differs from run to run and folds stay the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from foltr_audit.experiments.runner import RunResult
from foltr_audit.experiments.stages import TrainResult
from foltr_audit.utils.rows import JsonValue

LEVEL = 0.95
"""Confidence of the intervals."""


def seed_intervals(cells: Sequence[RunResult]) -> dict[str, JsonValue]:
    """The interval of the mean of each metric of trained models, by its column, as a list of two numbers.

    Empty where a fold was run once, since the spread over seeds is then not known.
    """
    folds = [cell.spec.data.fold for cell in cells]
    values = [_metrics(cell.trained) for cell in cells]
    found: dict[str, JsonValue] = {}
    for name in values[0]:
        limits = stratified_interval([one[name] for one in values], folds)
        if limits is not None:
            found[name] = list(limits)
    return found


def _metrics(trained: TrainResult) -> Mapping[str, float]:
    return {
        "ndcg@10": trained.ndcg,
        "online_sum": trained.online_sum,
        "online_mean": trained.online_mean,
        "maxrr_last_10": trained.maxrr_last,
    }


def stratified_interval(values: Sequence[float], strata: Sequence[int]) -> tuple[float, float] | None:
    """Student's interval of the mean of `values` (n,), which vary inside of their strata (n,) only.

    The variance of the mean is the sum over strata of n_s var_s / n^2, with n - S degrees of freedom; None if
    a stratum has a single value.

    Source: Cochran 1977, "Sampling techniques", section 5.3.
    """
    from scipy.special import stdtrit

    numbers, kinds = np.array(values), np.array(strata)
    parts = [numbers[kinds == kind] for kind in np.unique(kinds)]
    if min(part.size for part in parts) < 2:
        return None
    variance = sum(part.size * float(part.var(ddof=1)) for part in parts) / numbers.size**2
    reach = float(stdtrit(numbers.size - len(parts), (1 + LEVEL) / 2)) * math.sqrt(variance)
    mean = float(numbers.mean())
    return mean - reach, mean + reach
