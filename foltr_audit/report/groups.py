"""Groups of clients: how well they are served, as rows and as a table below that of all clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foltr_audit.experiments.periods import SERVED, TrainingHistory, served_groups
from foltr_audit.judge.significance import FEWEST
from foltr_audit.report.documents import Row, Section
from foltr_audit.report.settings import (
    SETTING,
    Pool,
    Setting,
    claimed_column,
    setting_columns,
    trained_on_column,
)
from foltr_audit.report.table import Column, Table, make_table, value_cell


def beside_all(metric: str) -> str:
    """The columns of a metric of a group: its own, that of all groups, and the difference."""
    return f"{metric}:est {metric}_all:num|null {metric}_difference:est"


def with_totals(rows: Sequence[Row], everybody: str, metrics: Sequence[str]) -> Iterator[Row]:
    """The rows of groups, and above the first of each setting one of all together, whose place is 0."""
    for row in rows:
        if row["place"] == 1:
            values = {metric: row[f"{metric}_all"] for metric in metrics}
            yield row.with_values(group=everybody, place=0, **values)
        yield row


def once(column: Column) -> Column:
    """A column that only has text in the line of all groups."""
    return Column(column.header, lambda row: "" if row["place"] else column.cell(row), column.align)


def difference_column(header: str, metric: str) -> Column:
    """What a metric of a group differs by from that of all, which differs by nothing."""
    name = f"{metric}_difference"
    return Column(header, lambda row: value_cell(row[name]) if row["place"] else "")


SERVED_GROUP = Section(SETTING, "runs:int last_rounds:int group place:int", *map(beside_all, SERVED))


def served_group_rows(pools: Sequence[Pool]) -> tuple[Row, ...]:
    """The groups of all pools, worst served first; none of pools in which clients do not differ."""
    trainings = [
        ([TrainingHistory(run.world.population, run.trained.rounds) for run in pool.runs], pool.setting)
        for pool in pools
    ]
    return tuple(row for training in trainings for row in served_rows(*training))


def served_rows(trainings: Sequence[TrainingHistory], setting: Setting) -> list[Row]:
    """The groups of repeated trainings of one setting."""
    return [SERVED_GROUP.row({**setting.columns(), **values}, setting) for values in served_groups(trainings)]


def served_groups_table(rows: Sequence[Row]) -> Table:
    """How well each group of clients is served, the worst first, below all clients; rows of all settings."""
    enough_runs = max(row["runs"] for row in rows) >= FEWEST
    intervals = "\nin brackets: the 95 % interval over runs" if enough_runs else ""
    columns = [
        *map(once, (trained_on_column(), *setting_columns(rows, without=["trained_on"]), claimed_column())),
        Column("group", "group", "fold"),
        Column("online\nmean", "online_mean"),
        Column("online\nlast", "online_last"),
        difference_column("- all", "online_mean"),
    ]
    if any(row.estimate("ndcg@10").known for row in rows):
        columns += [Column("own intent\noffline", "ndcg@10"), difference_column("- all", "ndcg@10")]
    return make_table(
        "nDCG@10 by group of clients, worst served first",
        columns,
        with_totals(rows, "all clients", SERVED),
        caption="online: mean of the rounds, and of their last tenth; of documents of a single grade it is 0 "
        f"or 1\n- all: less that of all clients in the same run{intervals}",
        section=lambda row: str(row.setting),
    )
