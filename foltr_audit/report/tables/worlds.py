"""Clients, periods and twins of a training as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.base import Row
from foltr_audit.report.results.settings import differing, short_scenario
from foltr_audit.report.tables.layout import (
    Column,
    difference_interval_column,
    epsilon_column,
    percent,
    percent_column,
    rows_table,
    setting_columns,
    short_column,
    short_columns,
    text_column,
)
from foltr_audit.simulation.intent_metrics import PERIOD
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.table import Table

MOST_GROUPS = 24
"""Groups of clients in the table; more are in JSON."""


def population_table(made: Row, every: Sequence[Row]) -> Table:
    """The clients of one of several settings, a row for each group."""
    scenario = short_scenario(made["scenario"], [other["scenario"] for other in every])
    rows, words = made["groups"], []
    for name, strength in made["strengths"].items():
        if strength < 1:
            words.append(f"{name}: {percent(1 - strength)} of the interactions are of any kind of clients")
    if len(rows) > MOST_GROUPS:
        words.append(f"{MOST_GROUPS} of {len(rows)} groups: all with --json")
    return rows_table(
        f"{made['clients']:,} clients, {escape(scenario)}",
        "\n".join(words) or None,
        [
            text_column("group", "group"),
            Column("clients", lambda row: f"{row['clients']:,}"),
            percent_column("share", "share"),
            _intent_column(),
            Column(
                "grades", lambda row: "all" if row["grades"] is None else ",".join(map(str, row["grades"]))
            ),
            text_column("clicks", "click_model"),
            text_column("inter-\nactions", "interactions", "number"),
            Column("queries", lambda row: f"{row['queries']:,}"),
            short_column("relevant\na query", "relevant_per_query", 2),
        ],
        rows[:MOST_GROUPS],
    )


def periods_table(rows: Sequence[Row]) -> Table:
    """The metrics of each period of a changing intent."""
    runs = sorted({row["runs"] for row in rows})
    means = f"means of {' or '.join(map(str, runs))} runs; " if runs != [1] else ""
    lower = " and ".join(metric.label for metric in PERIOD.values() if not metric.higher_is_better)
    twins = "" if any(row["delta_runs"] for row in rows) else " (with --twins)"
    metrics = zip(PERIOD, ("drop", "delta", "online\nmean", "offline\nat its end"), strict=True)
    return rows_table(
        "periods of a leading intent",
        f"{means}on the training queries, intents weighted as they are likely\n{lower}: lower is better; "
        f"delta: against training under the leading intent alone{twins}",
        [
            *setting_columns(rows, differing(rows)),
            epsilon_column(),
            text_column("period", "period", "number"),
            Column("interactions", lambda row: f"{row['first'] + 1:,}-{row['end']:,}"),
            _intent_column(),
            *(short_column(header, name) for name, header in metrics),
        ],
        rows,
    )


def _intent_column() -> Column:
    return Column("intent", lambda row: "-" if row["intent"] is None else str(row["intent"]))


def twins_table(rows: Sequence[Row]) -> Table:
    """Runs compared with their twins."""
    return rows_table(
        "compared with the same training in another world, its twin",
        "difference: run - twin; p: paired two-sided t-test over runs, Bonferroni within a metric, "
        "* below .05, ** below .01",
        [
            *setting_columns(rows, differing(rows)),
            epsilon_column(),
            text_column("twin", "twin"),
            Column("metric", lambda row: row["metric"].replace("_", " "), "fold"),
            text_column("pairs", "pairs", "number"),
            *short_columns({"run": "mean", "twin": "mean_twin", "difference": "difference"}, 4),
            difference_interval_column(lambda end: short(end, 4)),
            Column("p", lambda row: short(row["p_bonferroni"]) + row["stars"]),
        ],
        rows,
    )
