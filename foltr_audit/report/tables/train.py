"""The report of `train` as rich tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.core.ranking_metrics import OFFLINE, ONLINE, ONLINE_DISCOUNT
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.group_utility import utility_groups_table
from foltr_audit.report.results.settings import differing, heading, setting_text
from foltr_audit.report.results.train import TrainReport
from foltr_audit.report.tables.attack import dataset_line, no_relevant
from foltr_audit.report.tables.layout import percent, print_fitting, table
from foltr_audit.report.tables.worlds import periods_table, population_table, twins_table
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MOST_ROUNDS = 20
"""Rounds of a setting in the table; more are in JSON and Parquet."""

_SHOWN_OFFLINE = ("offline_ndcg@10", "offline_mrr@10", "offline_map@10", "offline_dcg@10")


def print_train(report: TrainReport, console: Console, *, rounds: bool = True) -> None:
    """Who took part, some rounds if asked for, what periods and twins show, and the final model's figures."""
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
"""What each table does without on a narrow terminal, first to last."""


def _rounds_table(rows: Sequence[Row], narrow: bool) -> Table:
    apart, shown = differing(rows), ("online_ndcg@10", *_SHOWN_OFFLINE, "maxrr")
    kinds = list({tuple(str(row.get(name)) for name in apart): row for row in rows}.values())
    found = table("rounds", _caption(rows), 0 if narrow else 1)
    for name in apart:
        found.add_column(heading(name), overflow="fold")
    for text in (
        "eps",
        "round",
        f"online\n{ONLINE['online_ndcg@10'].label}",
        *(f"offline\n{OFFLINE[name].label}" for name in _SHOWN_OFFLINE),
        f"online\n{ONLINE['maxrr'].label}",
    ):
        found.add_column(text, justify="right", no_wrap=True)
    for pooled in _pooled(rows, apart, _chosen(rows)):
        row = pooled[0]
        found.add_row(
            *(escape(setting_text(row, name, kinds)) for name in apart),
            epsilon(row["eps_claimed"]),
            str(row["round"]),
            *(short(_mean([each.get(name) for each in pooled])) for name in shown),
        )
    return found


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
    """Rounds to show: of many those with offline metrics, at even distances, the last one among them."""
    every = sorted({row["round"] for row in rows})
    if len(every) <= MOST_ROUNDS:
        return every
    rounds = sorted({row["round"] for row in rows if not math.isnan(row["offline_ndcg@10"])})
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
    found = table(
        f"nDCG@10 of the trained model ({part.replace('the ', '')}) and of what its users saw (online)",
        f"ceiling: what a perfect ranker reaches; queries without relevant documents {words}\n"
        f"online: mean of the rounds, and sum of the rounds with discount {ONLINE_DISCOUNT}",
        0 if narrow else 1,
    )
    apart = [name for name in differing(rows) if name != "trained_on"]
    found.add_column("trained on")
    for name in apart:
        found.add_column(heading(name), overflow="fold")
    for text in (
        "eps",
        "untrained",
        "trained",
        "ceiling",
        "online\nmean",
        "online\nsum",
        "clipped",
        "runs",
    ):
        found.add_column(text, justify="right", no_wrap=True)
    for row in rows:
        found.add_row(
            escape(row["trained_on"]),
            *(escape(setting_text(row, name, rows)) for name in apart),
            epsilon(row["eps_claimed"]),
            *(
                short(row[name])
                for name in ("ndcg@10_untrained", "ndcg@10", "ndcg@10_ceiling", "online_mean")
            ),
            short(row["online_sum"], 2),
            percent(row["clipped"]),
            str(row["runs"]),
        )
    return found
