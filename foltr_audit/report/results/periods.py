"""The metrics of each period of a changing intent: one row per setting and period, means over its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from foltr_audit.experiments.runner import RunResult
from foltr_audit.report.results.base import Row, groups
from foltr_audit.report.results.twins import SpecRuns, fixed_intents, runs_by_spec
from foltr_audit.simulation.intent_metrics import deltas, drops, offline_ends, online_means
from foltr_audit.utils.arrays import Floats


def period_rows(cells: Sequence[RunResult], among: SpecRuns | None = None) -> list[Row]:
    """One row per group and period where the leading intent changes; the first period has no drop.

    Twins are searched `among` all runs, or else among the cells themselves.
    Each metric is the mean over the runs that have it, and `delta_runs` counts those with the twin.
    """
    among, rows = runs_by_spec(cells) if among is None else among, []
    for group in groups(cells):
        environment = group.cells[0].world.environment
        if environment is None or not environment.change_points:
            continue
        runs = [_of_run(cell, among) for cell in group.cells]
        total = len(group.cells[0].trained.rounds) * group.cells[0].world.per_round
        for number, period in enumerate(environment.periods):
            column = {name: np.array([run[name][number] for run in runs]) for name in runs[0]}
            rows.append(
                {
                    **group.setting,
                    "runs": len(runs),
                    "period": number + 1,
                    "first": period.first,
                    "end": min(period.end, total) if number + 1 < len(environment.periods) else total,
                    "intent": None if period.intent is None else period.intent + 1,
                    **{name: _mean(values) for name, values in column.items()},
                    "delta_runs": int((~np.isnan(column["ndcg_delta@10"])).sum()),
                }
            )
    return rows


def _of_run(cell: RunResult, among: SpecRuns) -> Mapping[str, Floats]:
    """Every metric of `intent_metrics.PERIOD` of one run, float64 (periods,) each."""
    if cell.world.environment is None:
        return {}
    rounds, environment, n = cell.trained.rounds, cell.world.environment, cell.world.per_round
    twins = {intent: twin.trained.rounds for intent, twin in fixed_intents(cell, among).items()}
    return {
        "ndcg_drop@10": np.concatenate([[np.nan], drops(rounds, environment, n)]),
        "ndcg_delta@10": deltas(rounds, twins, environment, n),
        "online_mean": online_means(rounds, environment, n),
        "ndcg@10": offline_ends(rounds, environment, n),
    }


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
