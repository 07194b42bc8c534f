"""The report of `train` as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from foltr_audit.core.ranking_metrics import OFFLINE, OFFLINE_NDCG, ONLINE, ONLINE_DISCOUNT, ONLINE_NDCG
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.settings import differing
from foltr_audit.report.results.train import TrainReport
from foltr_audit.report.tables.attack import dataset_line, no_relevant
from foltr_audit.report.tables.group_tables import utility_groups_table
from foltr_audit.report.tables.layout import (
    epsilon_column,
    percent_column,
    print_fitting,
    rows_table,
    setting_columns,
    short_column,
    short_columns,
    text_column,
)
from foltr_audit.report.tables.worlds import periods_table, population_table, twins_table
from foltr_audit.simulation.intent_metrics import evaluated_on

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MOST_ROUNDS = 20
"""Rounds of a setting in the table; more are in JSON and Parquet."""

_SHOWN_OFFLINE = (OFFLINE_NDCG, "offline_mrr@10", "offline_map@10", "offline_dcg@10")


def print_train(report: TrainReport, console: Console, *, rounds: bool = True) -> None:
    """The clients, some rounds if asked for, periods, twins, and the metrics of the final model."""
    console.print(dataset_line(report.dataset, report.config, report.utility))
    for made in report.population:
        console.print(population_table(made, report.population))
    if rounds:
        print_fitting(partial(_rounds_table, report.rounds), _LESS_OF_ROUNDS, console)
    if report.periods:
        console.print(periods_table(report.periods))
    if report.twins:
        console.print(twins_table(report.twins))
    words, part = no_relevant(report.config), evaluated_on(report.rounds)
    print_fitting(partial(_utility_table, report.utility, words, part), _LESS_OF_UTILITY, console)
    if report.utility_groups:
        console.print(utility_groups_table(report.utility_groups))


_LESS_OF_ROUNDS = (
    *(f"offline\n{OFFLINE[name].label}" for name in ("offline_dcg@10", "offline_map@10", "offline_mrr@10")),
    f"online\n{ONLINE['maxrr'].label}",
)
_LESS_OF_UTILITY = ("runs", "clipped", "online\nsum", "ceiling", "untrained")
"""Columns that each table leaves out on a narrow terminal, first to last."""


def _rounds_table(rows: Sequence[Row], narrow: bool) -> Table:
    apart = differing(rows)
    kinds = list({tuple(str(row.get(name)) for name in apart): row for row in rows}.values())
    metrics = {
        ONLINE_NDCG: f"online\n{ONLINE['online_ndcg@10'].label}",
        **{name: f"offline\n{OFFLINE[name].label}" for name in _SHOWN_OFFLINE},
        "maxrr": f"online\n{ONLINE['maxrr'].label}",
    }
    return rows_table(
        "rounds",
        _caption(rows),
        [
            *setting_columns(kinds, apart),
            epsilon_column(),
            text_column("round", "round", "number"),
            *(short_column(header, name) for name, header in metrics.items()),
        ],
        [
            pooled[0] | {name: _mean([row.get(name) for row in pooled]) for name in metrics}
            for pooled in _pooled(rows, apart, _chosen(rows))
        ],
        space=0 if narrow else 1,
    )


def _caption(rows: Sequence[Row]) -> str:
    """What the numbers are, and which rounds are left out."""
    runs, rounds = len({row["run"] for row in rows}), len({row["round"] for row in rows})
    means = f"means of {runs} runs; " if runs > 1 else ""
    lacking = f"\n{len(_chosen(rows))} of {rounds} rounds: all with --json or --out"
    return (
        f"{means}offline: the global model after the round, on {evaluated_on(rows)}"
        f"{lacking if len(_chosen(rows)) < rounds else ''}"
    )


def _chosen(rows: Sequence[Row]) -> list[int]:
    """Rounds to show: all if few, else evenly spaced ones with offline metrics, the last one included."""
    every = sorted({row["round"] for row in rows})
    if len(every) <= MOST_ROUNDS:
        return every
    rounds = sorted({row["round"] for row in rows if not math.isnan(row[OFFLINE_NDCG])})
    step = -(-len(rounds) // MOST_ROUNDS)
    return rounds[::-step][::-1]


def _pooled(rows: Sequence[Row], apart: Sequence[str], rounds: Sequence[int]) -> list[list[Row]]:
    """The rows of some rounds, those of all runs of a setting and round together."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row["round"] in rounds:
            setting = tuple(str(row.get(name)) for name in (*apart, "eps_claimed", "trained_on", "defense"))
            found.setdefault((setting, row["round"]), []).append(row)
    return list(found.values())


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _utility_table(rows: Sequence[Row], words: str, part: str, narrow: bool) -> Table:
    apart = [name for name in differing(rows) if name != "trained_on"]
    return rows_table(
        f"nDCG@10 of the trained model ({part.replace('the ', '')}) and of what its users saw (online)",
        f"ceiling: what a perfect ranker reaches; queries without relevant documents {words}\n"
        f"online: mean of the rounds, and sum of the rounds with discount {ONLINE_DISCOUNT}",
        [
            text_column("trained on", "trained_on", "words"),
            *setting_columns(rows, apart),
            epsilon_column(),
            *short_columns({"untrained": "ndcg@10_untrained", "trained": "ndcg@10"}),
            *short_columns({"ceiling": "ndcg@10_ceiling", "online\nmean": "online_mean"}),
            short_column("online\nsum", "online_sum", 2),
            percent_column("clipped", "clipped"),
            text_column("runs", "runs", "number"),
        ],
        rows,
        space=0 if narrow else 1,
    )
