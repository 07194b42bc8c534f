"""What every report of a plan of trainings holds: configuration, data, utility and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foltr_audit.experiments.periods import SERVED, TrainingHistory, served_groups
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.judge.significance import FEWEST
from foltr_audit.report.documents import Document, Row, Section, nested
from foltr_audit.report.settings import (
    DATASET,
    SETTING,
    UTILITY,
    WARNING,
    Pool,
    Setting,
    dataset_line,
    dataset_row,
    setting_columns,
    utility_rows,
    warning_row,
)
from foltr_audit.report.table import Column, Table, columns_of, make_table, value_cell
from foltr_audit.utils.formatting import JsonValue

# --- Groups of clients: how well they are served, as rows and as a table below that of all clients -


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
        *map(once, columns_of("trained on=trained_on:words")),
        *map(once, setting_columns(rows, without=["trained_on"])),
        *map(once, columns_of("claimed=eps_claimed:claim")),
        *columns_of("group:fold; online\nmean=online_mean; online\nlast=online_last"),
        difference_column("- all", "online_mean"),
    ]
    if any(row.estimate("ndcg@10").known for row in rows):
        columns += [*columns_of("own intent\noffline=ndcg@10"), difference_column("- all", "ndcg@10")]
    return make_table(
        "nDCG@10 by group of clients, worst served first",
        columns,
        with_totals(rows, "all clients", SERVED),
        caption="online: mean of the rounds, and of their last tenth; of documents of a single grade it is 0 "
        f"or 1\n- all: less that of all clients in the same run{intervals}",
        section=lambda row: str(row.setting),
    )


# --- What every report of a plan of trainings holds: configuration, data, utility and warnings -----


@dataclass(frozen=True, kw_only=True)
class PlanReport(Document):
    """The result of a plan of trainings; a subclass adds its own rows.

    Attributes:
        config: the plan as a plain table.
        utility_groups: how well each group of clients is served; left out where clients do not differ.
        warnings: one row per chain and warning.
    """

    SHARED = Section(
        "config:table",
        nested("dataset", DATASET, many=False),
        nested("utility", UTILITY),
        nested("utility_groups", SERVED_GROUP, optional=True),
        nested("warnings", WARNING),
    )

    config: Mapping[str, JsonValue]
    dataset: Row
    utility: tuple[Row, ...]
    utility_groups: tuple[Row, ...] = ()
    warnings: tuple[Row, ...] = ()

    @classmethod
    def shared(cls, plan: Plan, runs: Sequence[Run], warnings: Iterable[Row] = ()) -> dict[str, Any]:
        """Configuration, data, utility and warnings of some runs, the last with further ones."""
        told = dict.fromkeys(
            (each, "+".join(run.spec.defense)) for run in runs for each in run.record.warnings
        )
        return {
            "config": plan.public.table(),
            "dataset": dataset_row([run.data for run in runs]),
            "utility": utility_rows(runs),
            "warnings": (*(warning_row(*each) for each in told), *warnings),
        }

    @property
    def about(self) -> str:
        """The data and how they were prepared."""
        return dataset_line(self.dataset, self.config, self.utility)
