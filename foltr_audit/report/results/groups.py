"""Groups of clients: how well they are served and attacked, as rows and as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG, mean_of_rounds
from foltr_audit.core.records.population import Population
from foltr_audit.core.results import Estimate
from foltr_audit.experiments.run import Run
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import GROUP_METRICS, RANDOM, AttackScorer, GroupScore, group_scores
from foltr_audit.judge.significance import FEWEST, mean_interval
from foltr_audit.report.results.attack_rows import AttackPlace, OfAttack
from foltr_audit.report.results.base import GroupMetric, Setting, UtilityGroupRow, differing, groups
from foltr_audit.report.tables.columns import (
    claimed_column,
    estimate_cell,
    in_method_order,
    setting_columns,
    trained_on_column,
)
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.formatting import short
from foltr_audit.utils.rows import ResultRow, column

# --- how groups are served -------------------------------------------------------------------------

LAST = 10
"""The last tenth of the rounds counts as the last ones, at least one round."""


class TrainingHistory(NamedTuple):
    """One training.

    Attributes:
        population: who its clients were.
        rounds: the metrics of each round by name.
    """

    population: Population
    rounds: Sequence[Mapping[str, float]]


def utility_group_rows(cells: Sequence[Run]) -> tuple[UtilityGroupRow, ...]:
    """The rows of all settings; none of settings in which clients do not differ."""
    return tuple(
        row
        for group in groups(cells)
        for row in rows_of_trainings(
            [TrainingHistory(cell.world.population, cell.trained.rounds) for cell in group.cells],
            group.setting,
        )
    )


def rows_of_trainings(trainings: Sequence[TrainingHistory], setting: Setting) -> list[UtilityGroupRow]:
    """One row per group of clients, worst served (lowest online nDCG@10) first; none of a single group.

    All metrics are means over trainings; intervals are Student's over three or more trainings.

    Args:
        trainings: repetitions of one setting.
        setting: what was run.
    """
    names = dict.fromkeys(name for played in trainings for name in played.population.groups)
    if len(names) < 2:
        return []
    every = [_of_everybody(played) for played in trainings]
    of_groups: list[tuple[str, list[GroupMetric]]] = []
    for name in names:
        own = [_of_group(played, name) for played in trainings]
        metrics = [_metric(_column(own, number), _column(every, number)) for number in range(3)]
        of_groups.append((name, metrics))
    of_groups.sort(key=lambda group: group[1][0].own.value if group[1][0].own.known else inf)
    lasting = {_last(played.rounds) for played in trainings}
    return [
        UtilityGroupRow(
            setting=setting,
            runs=len(trainings),
            last_rounds=max(lasting, default=0),
            group=name,
            place=place,
            online_mean=mean,
            online_last=last,
            ndcg=ndcg,
        )
        for place, (name, (mean, last, ndcg)) in enumerate(of_groups, start=1)
    ]


def _of_everybody(played: TrainingHistory) -> tuple[float, ...]:
    """The metrics of all clients, in the order of the row."""
    online = _values(played.rounds, ONLINE_NDCG)
    return (
        mean_of_rounds(online),
        mean_of_rounds(online[-_last(played.rounds) :]),
        _final(played.rounds, OFFLINE_NDCG),
    )


def _of_group(played: TrainingHistory, name: str) -> tuple[float, ...]:
    """The metrics of one group, in the order of the row; NaN where they are not known."""
    online = _values(played.rounds, f"{ONLINE_NDCG}/{name}")
    intent = _intent(played.population, name)
    offline = float("nan") if intent is None else _final(played.rounds, f"{OFFLINE_NDCG}/intent {intent + 1}")
    return mean_of_rounds(online), mean_of_rounds(online[-_last(played.rounds) :]), offline


def _intent(population: Population, name: str) -> int | None:
    """A group's own intent, from 0; None where it has none, or the population has no such group."""
    if name not in population.groups:
        return None
    own = population.own(np.array([population.groups.index(name)]))
    values = [trait.values[int(number[0])] for trait, number in zip(population.traits, own, strict=True)]
    return next((value.intent for value in values if value.intent is not None), None)


def _last(rounds: Sequence[Mapping[str, float]]) -> int:
    return max(1, len(rounds) // LAST)


def _values(rounds: Sequence[Mapping[str, float]], name: str) -> Floats:
    return np.array([row.get(name, np.nan) for row in rounds], dtype=np.float64)


def _final(rounds: Sequence[Mapping[str, float]], name: str) -> float:
    return float(rounds[-1].get(name, np.nan)) if rounds else float("nan")


def _column(rows: Sequence[tuple[float, ...]], number: int) -> Floats:
    return np.array([row[number] for row in rows], dtype=np.float64)


def _metric(own: Floats, every: Floats) -> GroupMetric:
    """A metric of a group and of all clients in each training, both (runs,)."""
    both = ~np.isnan(own) & ~np.isnan(every)
    own, every = own[both], every[both]
    return GroupMetric(
        own=Estimate(mean_of_rounds(own), mean_interval(own)),
        everybody=mean_of_rounds(every),
        difference=Estimate(mean_of_rounds(own - every), mean_interval(own - every, -1.0)),
    )


# --- how groups are attacked -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GroupSuccess(ResultRow):
    """How well a guesser does on one group of clients.

    Attributes:
        group: name of the group.
        place: its place among the groups of the guesser, the hardest hit being 1.
        lists: its lists with a click, which are judged; `skipped` have none.
        queries: different queries of the judged lists.
    """

    group: str
    place: int
    lists: int
    skipped: int
    queries: int
    accuracy: GroupMetric = column("accuracy", embedded=True)
    precision: GroupMetric = column("precision", embedded=True)
    recall: GroupMetric = column("recall", embedded=True)
    f1: GroupMetric = column("f1", embedded=True)
    exact: GroupMetric = column("exact", embedded=True)
    auc: GroupMetric = column("auc", embedded=True)


@dataclass(frozen=True, kw_only=True)
class GroupRow(ResultRow, OfAttack):
    """How well a guesser does on one group of clients of a setting."""

    method: str
    baseline: bool
    where: AttackPlace = column(embedded=True)
    found: GroupSuccess = column(embedded=True)


def scored_groups(evidence: ClickEvidence, streams: Streams) -> Iterator[tuple[str, bool, GroupSuccess]]:
    """Method, whether it is a baseline, and metrics of every guesser and group of clients, hit hardest first.

    There are none where clients do not differ.
    """
    if len(evidence.groups) < 2:
        return
    for guesser in group_scores(AttackScorer(evidence, streams)):
        baseline = guesser.method == RANDOM or guesser.method in evidence.baselines
        for place, group in enumerate(guesser.groups, start=1):
            yield guesser.method, baseline, _success(group, place, guesser.everybody)


def _success(group: GroupScore, place: int, everybody: dict[str, float]) -> GroupSuccess:
    def metric(name: str) -> GroupMetric:
        return GroupMetric(
            own=group.metrics[name], everybody=everybody[name], difference=group.differences[name]
        )

    return GroupSuccess(
        group=group.group,
        place=place,
        lists=group.lists,
        skipped=group.skipped,
        queries=group.queries,
        **{name: metric(name) for name in GROUP_METRICS},
    )


def group_rows(evidence: ClickEvidence, where: AttackPlace, streams: Streams) -> Iterator[GroupRow]:
    """One row per guesser and group of clients."""
    for method, baseline, success in scored_groups(evidence, streams):
        yield GroupRow(method=method, baseline=baseline, where=where, found=success)


# --- tables ----------------------------------------------------------------------------------------

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
    enough_runs = max(row.runs for row in rows) >= FEWEST
    intervals = "\nbelow each value: its 95 % interval over runs" if enough_runs else ""
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
        value = metric(line.row)
        return Cell(short(value.everybody)) if line.total else estimate_cell(value.own)

    return Column(header, cell)


def _difference_column(header: str, metric: Callable[[Grouped], GroupMetric]) -> Column[_GroupLine[Grouped]]:
    """What a metric of a group differs by from that of all, which differs by nothing."""
    return Column(header, lambda line: "" if line.total else estimate_cell(metric(line.row).difference))
