"""Attack success and utility by group of clients, as tables on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from foltr_audit.judge.scoring import RANDOM
from foltr_audit.judge.significance import FEWEST
from foltr_audit.report.results.base import GroupMetric, UtilityGroupRow
from foltr_audit.report.results.group_success import GroupRow
from foltr_audit.report.results.settings import differing
from foltr_audit.report.tables.columns import (
    claimed_column,
    estimate_cell,
    in_method_order,
    setting_columns,
    trained_on_column,
)
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.utils.formatting import short

Grouped = TypeVar("Grouped", bound="GroupRow | UtilityGroupRow")


@dataclass(frozen=True, kw_only=True)
class _GroupLine(Generic[Grouped]):
    """A group, or all groups of a setting together above the first one.

    Attributes:
        row: of the group; of all groups, that of the first one.
        block: number of the setting.
        total: name of all groups together; empty for one group.
        lists: number of lists.
    """

    row: Grouped
    block: int
    total: str = ""
    lists: int = 0


def groups_table(rows: Sequence[GroupRow], of: str = "clients") -> Table:
    """Which groups of `clients` or `lists` attacks read best, highest AUC first; rows of one world.

    Of the guesses without a message only the random one is shown.
    """
    shown = [row for row in rows if not row.baseline or row.method == RANDOM]
    lines: list[_GroupLine[GroupRow]] = []
    for number, block in enumerate(_blocks(in_method_order(shown), lambda row: row.found.place)):
        lists = sum(row.found.lists for row in block)
        lines.append(_GroupLine(row=block[0], block=number, total=f"all {of}", lists=lists))
        lines += [_GroupLine(row=row, block=number, lists=row.found.lists) for row in block]
    columns: list[Column[_GroupLine[GroupRow]]] = [
        _of_totals(Column[GroupRow]("method", lambda row: row.method, "fold")),
        _of_totals(claimed_column()),
        Column("group", lambda line: line.total or line.row.found.group, "fold"),
        Column("lists", lambda line: str(line.lists)),
        _metric_column("F1", lambda row: row.found.f1),
        _metric_column("exact", lambda row: row.found.exact),
        _metric_column("AUC", lambda row: row.found.auc),
        _difference_column("AUC - all", lambda row: row.found.auc),
    ]
    return make_table(
        f"by group of {of}, hit hardest (highest AUC) first",
        columns,
        lines,
        caption=f"AUC - all: less that of all {of}, in the same resamples of queries\n"
        "below each value: its 95 % interval, not widened for the choice of the first",
        dim=lambda line: line.row.baseline,
        section=lambda line: line.row.method,
    )


def utility_groups_table(rows: Sequence[UtilityGroupRow]) -> Table:
    """How well each group of clients is served, the worst first, below all clients; rows of all settings."""
    several = max(row.runs for row in rows) >= FEWEST
    intervals = "\nbelow each value: its 95 % interval over runs" if several else ""
    lines: list[_GroupLine[UtilityGroupRow]] = []
    for number, block in enumerate(_blocks(rows, lambda row: row.place)):
        lines.append(_GroupLine(row=block[0], block=number, total="all clients"))
        lines += [_GroupLine(row=row, block=number) for row in block]
    apart = [name for name in differing([row.setting for row in rows]) if name != "trained_on"]
    names: list[Column[UtilityGroupRow]] = [
        trained_on_column(),
        *setting_columns(rows, apart),
        claimed_column(),
    ]
    columns: list[Column[_GroupLine[UtilityGroupRow]]] = [
        *map(_of_totals, names),
        Column("group", lambda line: line.total or line.row.group, "fold"),
        _metric_column("online\nmean", lambda row: row.online_mean),
        _metric_column("online\nlast", lambda row: row.online_last),
        _difference_column("- all", lambda row: row.online_mean),
    ]
    if any(row.ndcg.own.known for row in rows):
        columns.append(_metric_column("own intent\noffline", lambda row: row.ndcg))
        columns.append(_difference_column("- all", lambda row: row.ndcg))
    return make_table(
        "nDCG@10 by group of clients, worst served first",
        columns,
        lines,
        caption="online: mean of the rounds, and of their last tenth; of documents of a single grade it is 0 "
        f"or 1\n- all: less that of all clients in the same run{intervals}",
        section=lambda line: line.block,
    )


def _blocks(rows: Sequence[Grouped], place: Callable[[Grouped], int]) -> Iterator[list[Grouped]]:
    """The rows of each setting, which begin with the first group."""
    starts = [number for number, row in enumerate(rows) if place(row) == 1]
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        yield list(rows[start:end])


def _of_totals(column: Column[Grouped]) -> Column[_GroupLine[Grouped]]:
    """A column that only has text in the line above the groups of a setting."""
    return Column(column.header, lambda line: column.cell(line.row) if line.total else "", column.align)


def _metric_column(header: str, metric: Callable[[Grouped], GroupMetric]) -> Column[_GroupLine[Grouped]]:
    """A metric of a group with its interval; above the groups that of all."""

    def cell(line: _GroupLine[Grouped]) -> Cell:
        found = metric(line.row)
        return Cell(short(found.everybody)) if line.total else estimate_cell(found.own)

    return Column(header, cell)


def _difference_column(header: str, metric: Callable[[Grouped], GroupMetric]) -> Column[_GroupLine[Grouped]]:
    """What a metric of a group differs by from that of all, which differs by nothing."""
    return Column(header, lambda line: "" if line.total else estimate_cell(metric(line.row).difference))
