"""Clients, periods and twins of a training as rich tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.results.base import Row
from foltr_audit.report.results.settings import differing, heading, setting_text, short_scenario
from foltr_audit.report.tables.layout import percent, table
from foltr_audit.simulation.intent_metrics import PERIOD
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.table import Table

MOST_GROUPS = 24
"""Groups of clients in the table; more are in JSON."""


def population_table(made: Row, every: Sequence[Row]) -> Table:
    """Who the clients of one of several settings are, a row for each group."""
    scenario = short_scenario(made["scenario"], [other["scenario"] for other in every])
    rows, words = made["groups"], []
    for name, strength in made["strengths"].items():
        if strength < 1:
            words.append(f"{name}: {percent(1 - strength)} of the interactions are of any kind of clients")
    if len(rows) > MOST_GROUPS:
        words.append(f"{MOST_GROUPS} of {len(rows)} groups: all with --json")
    found = table(f"{made['clients']:,} clients, {escape(scenario)}", "\n".join(words) or None)
    found.add_column("group", overflow="fold")
    for text in ("clients", "share", "intent", "grades"):
        found.add_column(text, justify="right", no_wrap=True)
    found.add_column("clicks", overflow="fold")
    for text in ("inter-\nactions", "queries", "relevant\na query"):
        found.add_column(text, justify="right", no_wrap=True)
    for row in rows[:MOST_GROUPS]:
        found.add_row(
            escape(row["group"]),
            f"{row['clients']:,}",
            percent(row["share"]),
            "-" if row["intent"] is None else str(row["intent"]),
            "all" if row["grades"] is None else ",".join(map(str, row["grades"])),
            escape(row["click_model"]),
            str(row["interactions"]),
            f"{row['queries']:,}",
            short(row["relevant_per_query"], 2),
        )
    return found


def periods_table(rows: Sequence[Row]) -> Table:
    """What each period of a changing intent brought."""
    runs = sorted({row["runs"] for row in rows})
    means = f"means of {' or '.join(map(str, runs))} runs; " if runs != [1] else ""
    lower = " and ".join(metric.label for metric in PERIOD.values() if not metric.higher_is_better)
    found = table(
        "periods of a leading intent",
        f"{means}on the training queries, intents weighted as they are likely\n{lower}: lower is better; "
        "delta: against training under the leading intent alone"
        + ("" if any(row["delta_runs"] for row in rows) else " (with --twins)"),
    )
    apart = _settings(found, rows)
    for text in ("period", "interactions", "intent", "drop", "delta", "online\nmean", "offline\nat its end"):
        found.add_column(text, justify="right", no_wrap=True)
    for row in rows:
        found.add_row(
            *(escape(setting_text(row, name, rows)) for name in apart),
            epsilon(row["eps_claimed"]),
            str(row["period"]),
            f"{row['first'] + 1:,}-{row['end']:,}",
            "-" if row["intent"] is None else str(row["intent"]),
            *(short(row[name]) for name in PERIOD),
        )
    return found


def twins_table(rows: Sequence[Row]) -> Table:
    """Runs beside what they are held against."""
    found = table(
        "beside the same training in the world that it is held against",
        "difference: run - twin; p: paired two-sided t-test over runs, Bonferroni within a metric, "
        "* below .05, ** below .01",
    )
    apart = _settings(found, rows)
    found.add_column("twin", overflow="fold")
    found.add_column("metric", overflow="fold")
    for text in ("pairs", "run", "twin", "difference", "95 %", "p"):
        found.add_column(text, justify="right", no_wrap=True)
    for row in rows:
        ends = row["difference_ci95"]
        found.add_row(
            *(escape(setting_text(row, name, rows)) for name in apart),
            epsilon(row["eps_claimed"]),
            escape(row["twin"]),
            row["metric"].replace("_", " "),
            str(row["pairs"]),
            *(short(row[name], 4) for name in ("mean", "mean_twin", "difference")),
            "-" if ends is None else " to ".join(short(end, 4) for end in ends),
            short(row["p_bonferroni"]) + row["stars"],
        )
    return found


def _settings(found: Table, rows: Sequence[Row]) -> list[str]:
    """The settings that rows differ in, each with its column in front, and epsilon after them."""
    apart = differing(rows)
    for name in apart:
        found.add_column(heading(name), overflow="fold")
    found.add_column("eps", justify="right", no_wrap=True)
    return apart
