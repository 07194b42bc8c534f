"""The report of `train` as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from foltr_audit.core.ranking_metrics import OFFLINE, OFFLINE_NDCG, ONLINE, ONLINE_DISCOUNT, ONLINE_NDCG
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.base import UtilityRow
from foltr_audit.report.results.settings import differing
from foltr_audit.report.results.train import RoundRow, TrainReport
from foltr_audit.report.tables.columns import (
    claimed_column,
    dataset_line,
    defense_columns,
    no_relevant,
    percent_column,
    setting_columns,
    short_column,
    systems_of,
    trained_on_column,
)
from foltr_audit.report.tables.group_tables import utility_groups_table
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.report.tables.worlds import periods_table, population_table, twins_table
from foltr_audit.simulation.intent_metrics import evaluated_on

if TYPE_CHECKING:
    from rich.console import Console

MOST_ROUNDS = 20
"""Rounds of a setting in the table; more are in JSON and Parquet."""

_METRICS = {
    ONLINE_NDCG: f"online\n{ONLINE['online_ndcg@10'].label}",
    **{
        name: f"offline\n{OFFLINE[name].label}"
        for name in (OFFLINE_NDCG, "offline_mrr@10", "offline_map@10", "offline_dcg@10")
    },
    "maxrr": f"online\n{ONLINE['maxrr'].label}",
}


def print_train(report: TrainReport, console: Console, *, rounds: bool = True) -> None:
    """The clients, some rounds if asked for, periods, twins, and the metrics of the final model."""
    console.print(dataset_line(report.dataset, report.config, systems_of(report.utility)))
    for made in report.population:
        print_table(population_table(made, report.population), console)
    if rounds:
        print_table(_rounds_table(report.rounds), console)
    if report.periods:
        print_table(periods_table(report.periods), console)
    if report.twins:
        print_table(twins_table(report.twins), console)
    print_table(utility_table_of(report, report.utility), console)
    if report.utility_groups:
        print_table(utility_groups_table(report.utility_groups), console)


def utility_table_of(report: TrainReport, rows: Sequence[UtilityRow]) -> Table:
    """How good the trained models of some rows are."""
    part = evaluated_on([row.metrics for row in report.rounds])
    return _utility_table(rows, no_relevant(report.config), part)


def _rounds_table(rows: Sequence[RoundRow]) -> Table:
    apart = differing([row.setting for row in rows])
    chosen = _chosen(rows)
    kinds = {tuple(str(row.setting.value(name)) for name in apart): row for row in rows}
    columns: list[Column[RoundRow]] = [
        *setting_columns(list(kinds.values()), apart),
        claimed_column(),
        Column("round", lambda row: str(row.round)),
        *(short_column(header, partial(RoundRow.value, name=name)) for name, header in _METRICS.items()),
    ]
    spare = ("offline_dcg@10", "offline_map@10", "offline_mrr@10", "maxrr")
    return make_table(
        "rounds",
        columns,
        [_mean(pooled) for pooled in _pooled(rows, apart, chosen)],
        caption=_caption(rows, chosen),
        spare=[_METRICS[name] for name in spare],
    )


def _caption(rows: Sequence[RoundRow], chosen: Sequence[int]) -> str:
    """What the numbers are, and which rounds are left out."""
    runs, rounds = len({row.run for row in rows}), len({row.round for row in rows})
    means = f"means of {runs} runs; " if runs > 1 else ""
    lacking = f"\n{len(chosen)} of {rounds} rounds: all with --json or --out" if len(chosen) < rounds else ""
    part = evaluated_on([row.metrics for row in rows])
    return f"{means}offline: the global model after the round, on {part}{lacking}"


def _chosen(rows: Sequence[RoundRow]) -> list[int]:
    """Rounds to show: all if few, else evenly spaced ones with offline metrics, the last one included."""
    every = sorted({row.round for row in rows})
    if len(every) <= MOST_ROUNDS:
        return every
    offline = [(row.round, row.value(OFFLINE_NDCG)) for row in rows]
    rounds = sorted({number for number, value in offline if value is not None and not math.isnan(value)})
    step = -(-len(rounds) // MOST_ROUNDS)
    return rounds[::-step][::-1]


def _pooled(rows: Sequence[RoundRow], apart: Sequence[str], rounds: Sequence[int]) -> list[list[RoundRow]]:
    """The rows of some rounds, those of all runs of a setting and round together."""
    found: dict[tuple[object, ...], list[RoundRow]] = {}
    for row in rows:
        if row.round in rounds:
            setting = [
                str(row.setting.value(name)) for name in (*apart, "eps_claimed", "trained_on", "defense")
            ]
            found.setdefault((*setting, row.round), []).append(row)
    return list(found.values())


def _mean(rows: Sequence[RoundRow]) -> RoundRow:
    """The first of some rows with the means of the shown metrics."""
    means = {}
    for name in _METRICS:
        known = [value for row in rows if (value := row.value(name)) is not None]
        means[name] = sum(known) / len(known) if known else None
    return replace(rows[0], metrics=means)


def _utility_table(rows: Sequence[UtilityRow], words: str, part: str) -> Table:
    apart = [
        name for name in differing([row.setting for row in rows]) if name not in ("trained_on", "defense")
    ]
    columns: list[Column[UtilityRow]] = [
        trained_on_column(),
        *setting_columns(rows, apart),
        *defense_columns(rows),
        short_column("untrained", lambda row: row.untrained),
        short_column("trained", lambda row: row.ndcg),
        short_column("ideal", lambda row: row.ceiling),
        short_column("online\nmean", lambda row: row.online_mean),
        short_column("online\nsum", lambda row: row.online_sum, 2),
        percent_column("clipped", lambda row: row.clipped),
        Column("runs", lambda row: str(row.runs)),
    ]
    return make_table(
        f"nDCG@10 of the trained model ({part.replace('the ', '')}) and of what its users saw (online)",
        columns,
        rows,
        caption=f"ideal: what the best possible ranking reaches; queries without relevant documents {words}\n"
        f"online: mean of the rounds, and sum of the rounds with discount {ONLINE_DISCOUNT}",
        spare=("runs", "clipped", "online\nsum", "ideal", "untrained"),
    )
