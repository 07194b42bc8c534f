"""The metrics of each period of a changing intent: one row per setting and period, means over its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foltr_audit.core.records.population import Environment
from foltr_audit.experiments.runner import RunResult
from foltr_audit.report.results.base import Setting, groups
from foltr_audit.report.results.twins import SpecRuns, fixed_intents, runs_by_spec
from foltr_audit.simulation.intent_metrics import deltas, drops, offline_ends, online_means
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.rows import ResultRow, column


@dataclass(frozen=True, kw_only=True)
class PeriodRow(ResultRow):
    """The metrics of one period of a changing intent, each the mean over the runs that have it.

    Attributes:
        setting: what was run.
        runs: number of runs.
        period: its number, from 1.
        first, end: its first interaction, and the one after its last.
        intent: the leading intent, from 1; None if there is none.
        drop, delta, online_mean, ndcg: see `intent_metrics.PERIOD`; the first period has no drop.
        delta_runs: number of runs with the twin that `delta` compares with.
    """

    setting: Setting = column(embedded=True)
    runs: int
    period: int
    first: int
    end: int
    intent: int | None
    drop: float | None = column("ndcg_drop@10")
    delta: float | None = column("ndcg_delta@10")
    online_mean: float | None
    ndcg: float | None = column("ndcg@10")
    delta_runs: int


def period_rows(cells: Sequence[RunResult], among: SpecRuns | None = None) -> tuple[PeriodRow, ...]:
    """One row per group and period where the leading intent changes.

    Twins are searched `among` all runs, or else among the cells themselves.
    """
    among, rows = runs_by_spec(cells) if among is None else among, []
    for group in groups(cells):
        environment = group.cells[0].world.environment
        if environment is None or not environment.change_points:
            continue
        runs = [_of_run(cell, among, environment) for cell in group.cells]
        total = len(group.cells[0].trained.rounds) * group.cells[0].world.per_round
        for number, period in enumerate(environment.periods):
            drop, delta, online, offline = (
                np.array([each[number] for each in metric]) for metric in zip(*runs, strict=True)
            )
            rows.append(
                PeriodRow(
                    setting=group.setting,
                    runs=len(runs),
                    period=number + 1,
                    first=period.first,
                    end=min(period.end, total) if number + 1 < len(environment.periods) else total,
                    intent=None if period.intent is None else period.intent + 1,
                    drop=_mean(drop),
                    delta=_mean(delta),
                    online_mean=_mean(online),
                    ndcg=_mean(offline),
                    delta_runs=int((~np.isnan(delta)).sum()),
                )
            )
    return tuple(rows)


def _of_run(
    cell: RunResult, among: SpecRuns, environment: Environment
) -> tuple[Floats, Floats, Floats, Floats]:
    """Every metric of `intent_metrics.PERIOD` of one run, in the order of a row, float64 (periods,) each."""
    rounds, n = cell.trained.rounds, cell.world.per_round
    twins = {intent: twin.trained.rounds for intent, twin in fixed_intents(cell, among).items()}
    return (
        np.concatenate([[np.nan], drops(rounds, environment, n)]),
        deltas(rounds, twins, environment, n),
        online_means(rounds, environment, n),
        offline_ends(rounds, environment, n),
    )


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
