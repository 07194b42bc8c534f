"""Clients, periods and twins of a training as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from foltr_audit.report.results.periods import PeriodRow
from foltr_audit.report.results.settings import differing, short_scenario
from foltr_audit.report.results.twins import TwinRow
from foltr_audit.report.tables.columns import (
    claimed_column,
    interval_text,
    percent,
    percent_column,
    setting_columns,
    short_column,
)
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.simulation.intent_metrics import PERIOD
from foltr_audit.simulation.population_summary import GroupFacts, PopulationFacts
from foltr_audit.utils.formatting import short

MOST_GROUPS = 24
"""Groups of clients in the table; more are in JSON."""


_GROUPS: list[Column[GroupFacts]] = [
    Column("group", lambda row: row.group, "fold"),
    Column("clients", lambda row: f"{row.clients:,}"),
    percent_column("share", lambda row: row.share),
    Column("intent", lambda row: "-" if row.intent is None else str(row.intent)),
    Column("grades", lambda row: "all" if row.grades is None else ",".join(map(str, row.grades))),
    Column("clicks", lambda row: row.click_model, "fold"),
    Column("inter-\nactions", lambda row: str(row.interactions)),
    Column("queries", lambda row: f"{row.queries:,}"),
    short_column("relevant\na query", lambda row: row.relevant_per_query, 2),
]


def population_table(made: PopulationFacts, every: Sequence[PopulationFacts]) -> Table:
    """The clients of one of several settings, a row for each group."""
    words = [
        f"{name}: {percent(1 - strength)} of the interactions are of any kind of clients"
        for name, strength in made.strengths.items()
        if strength < 1
    ]
    if len(made.groups) > MOST_GROUPS:
        words.append(f"{MOST_GROUPS} of {len(made.groups)} groups: all with --json")
    return make_table(
        f"{made.clients:,} clients, {short_scenario(made.scenario, [other.scenario for other in every])}",
        _GROUPS,
        made.groups[:MOST_GROUPS],
        caption="\n".join(words),
    )


def periods_table(rows: Sequence[PeriodRow]) -> Table:
    """The metrics of each period of a changing intent."""
    runs = sorted({row.runs for row in rows})
    means = f"means of {' or '.join(map(str, runs))} runs; " if runs != [1] else ""
    lower = " and ".join(metric.label for metric in PERIOD.values() if not metric.higher_is_better)
    twins = "" if any(row.delta_runs for row in rows) else " (with --twins)"
    columns: list[Column[PeriodRow]] = [
        *setting_columns(rows, differing([row.setting for row in rows])),
        claimed_column(),
        Column("period", lambda row: str(row.period)),
        Column("interactions", lambda row: f"{row.first + 1:,}-{row.end:,}"),
        Column("intent", lambda row: "-" if row.intent is None else str(row.intent)),
        short_column("drop", lambda row: row.drop),
        short_column("delta", lambda row: row.delta),
        short_column("online\nmean", lambda row: row.online_mean),
        short_column("offline\nat its end", lambda row: row.ndcg),
    ]
    return make_table(
        "periods of a leading intent",
        columns,
        rows,
        caption=f"{means}on the training queries, intents weighted as they are likely\n"
        f"{lower}: lower is better; delta: against training under the leading intent alone{twins}",
    )


def twins_table(rows: Sequence[TwinRow]) -> Table:
    """Runs compared with their twins."""
    columns: list[Column[TwinRow]] = [
        *setting_columns(rows, differing([row.setting for row in rows])),
        claimed_column(),
        Column("twin", lambda row: row.twin, "fold"),
        Column("metric", lambda row: row.metric.replace("_", " "), "fold"),
        Column("pairs", lambda row: str(row.pairs)),
        short_column("run", lambda row: row.mean, 4),
        short_column("twin", lambda row: row.mean_twin, 4),
        short_column("difference", lambda row: row.difference.value, 4),
        Column("95 %", lambda row: interval_text(row.difference, lambda end: short(end, 4))),
        Column("p", lambda row: short(row.p_bonferroni) + row.stars),
    ]
    return make_table(
        "compared with the same training in another world, its twin",
        columns,
        rows,
        caption="difference: run - twin; p: paired two-sided t-test over runs, Bonferroni within a metric, "
        "* below .05, ** below .01",
    )
