"""A training beside others: its twin without a defense, its periods, and both as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.records.population import Environment
from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.run import Run
from foltr_audit.judge.significance import PairedTest, bonferroni, paired_t_test, stars
from foltr_audit.report.results.base import RunGroup, Setting, differing, groups, short_scenario
from foltr_audit.report.tables.columns import (
    claimed_column,
    interval_text,
    percent,
    percent_column,
    setting_columns,
    short_column,
)
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.simulation.client_population import GroupFacts, PopulationFacts
from foltr_audit.simulation.intent_metrics import (
    PERIOD,
    PLAYED,
    current,
    deltas,
    drops,
    offline_ends,
    online_means,
    period_of_rounds,
    specific_offline,
    specific_online,
)
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.formatting import short
from foltr_audit.utils.rows import ResultRow, column

SPECIFIC = "one ranker per intent"
"""The name of rankers of which each learns one intent only."""

SpecRuns = Mapping[Spec, Run]
"""The result of every Spec that was run."""


def runs_by_spec(cells: Sequence[Run]) -> SpecRuns:
    return {cell.spec: cell for cell in cells}


def fixed_intents(cell: Run, among: SpecRuns) -> dict[int, Run]:
    """The twins with a constant intent of a cell whose leading intent changes, by the intent, from 0."""
    if cell.world.environment is None or not cell.world.environment.change_points:
        return {}
    twins = [among[spec] for spec in cell.world.twins.values() if spec in among]
    return {intent: twin for twin in twins if (intent := _only_intent(twin.world.environment)) is not None}


def specific_rankers(cell: Run, among: SpecRuns) -> list[Run]:
    """The rankers that learn each intent of a cell alone, in the order of intents; none if one is missing."""
    twins = [among[spec] for spec in cell.world.twins.values() if spec in among]
    kept = {
        twin.world.environment.kept: twin
        for twin in twins
        if twin.world.environment is not None and twin.world.environment.kept is not None
    }
    complete = cell.world.environment is not None and len(kept) == cell.world.environment.n_intents
    return [twin for _, twin in sorted(kept.items())] if complete else []


def _only_intent(environment: Environment | None) -> int | None:
    if environment is None or environment.kept is not None or len(environment.periods) != 1:
        return None
    return environment.periods[0].intent


def reference_values(cell: Run, metric: str, among: SpecRuns) -> Floats | None:
    """The metric of the rankers of one intent that a cell is compared with, float64 (rounds,); or None.

    Where intents take turns it is the twin of the leading one, NaN without; where they are mixed, all of them
    together.
    """
    specific = specific_rankers(cell, among)
    if specific:
        rows = [twin.trained.rounds for twin in specific]
        return (
            specific_offline(rows)
            if metric == OFFLINE_NDCG
            else specific_online(rows, count_interactions(specific))
        )
    twins = fixed_intents(cell, among)
    if metric != OFFLINE_NDCG or not twins or cell.world.environment is None:
        return None
    environment, rounds = cell.world.environment, len(cell.trained.rounds)
    where = period_of_rounds(rounds, environment, cell.record.per_round)
    reference = np.full(rounds, np.nan)
    for number, period in enumerate(environment.periods):
        if period.intent is not None and period.intent in twins:
            values = current(twins[period.intent].trained.rounds, environment, cell.record.per_round)
            reference[where == number] = values[where == number]
    return reference


def reference_specs(cells: Sequence[Run]) -> set[Spec]:
    """The Specs that only serve for comparison with others."""
    among = runs_by_spec(cells)
    twins = [twin for cell in cells for twin in fixed_intents(cell, among).values()]
    rankers = [ranker for cell in cells for ranker in specific_rankers(cell, among)]
    return {each.spec for each in (*twins, *rankers)}


def count_interactions(rankers: Sequence[Run]) -> Ints:
    """Interactions that each ranker played in each round, int64 (I, rounds)."""
    counts = [
        [row.get(PLAYED, ranker.record.per_round) for row in ranker.trained.rounds] for ranker in rankers
    ]
    return np.array(counts, dtype=np.int64)


# --- pairs -----------------------------------------------------------------------------------------


class TwinPair(NamedTuple):
    """Final offline and mean online nDCG@10 of a run and of its twin."""

    name: str
    ours: Mapping[str, float]
    twin: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class TwinRow(ResultRow):
    """A metric of a setting compared with that of one of its twins, with a paired t-test over its runs.

    Attributes:
        setting: what was run.
        twin: name of the twin.
        metric: name of the metric.
        pairs: number of runs.
        mean, mean_twin: over the runs.
        difference: run less twin.
        p: of the test; None of a single run.
        p_bonferroni: corrected for the tests of the metric; `stars` say how small it is.
    """

    setting: Setting = column(embedded=True)
    twin: str
    metric: str
    pairs: int
    mean: float
    mean_twin: float
    difference: Estimate
    p: float | None
    p_bonferroni: float | None = None
    stars: str = ""


def twin_rows(cells: Sequence[Run]) -> tuple[TwinRow, ...]:
    """One row per group, twin and metric."""
    among, rows = runs_by_spec(cells), []
    for group in groups(cells):
        pairs = [pair for cell in group.cells for pair in _pairs(cell, among)]
        for name in dict.fromkeys(pair.name for pair in pairs):
            chosen = [pair for pair in pairs if pair.name == name]
            rows += [_row(group, name, metric, chosen) for metric in (OFFLINE_NDCG, "online_mean")]
    tests = {
        row.metric: [other.p for other in rows if other.metric == row.metric and other.p is not None]
        for row in rows
    }
    return tuple(_corrected(row, tests[row.metric]) for row in rows)


def _pairs(cell: Run, among: SpecRuns) -> Iterator[TwinPair]:
    rankers, ours = specific_rankers(cell, among), _own(cell)
    if rankers:
        rows, counts = [twin.trained.rounds for twin in rankers], count_interactions(rankers)
        online = np.array([[row[ONLINE_NDCG] for row in twin] for twin in rows])
        known = np.where(np.isnan(online), 0, counts)
        mean = float((known * np.nan_to_num(online)).sum() / max(1, known.sum()))
        yield TwinPair(SPECIFIC, ours, {OFFLINE_NDCG: float(specific_offline(rows)[-1]), "online_mean": mean})
    left_out = {twin.spec for twin in (*rankers, *fixed_intents(cell, among).values())}
    for name, spec in cell.world.twins.items():
        if spec in among and spec not in left_out and not _alone(among[spec]):
            yield TwinPair(name, ours, _own(among[spec]))


def _alone(cell: Run) -> bool:
    return cell.world.environment is not None and cell.world.environment.kept is not None


def _own(cell: Run) -> dict[str, float]:
    return {OFFLINE_NDCG: cell.trained.ndcg, "online_mean": cell.trained.online_mean}


def _row(group: RunGroup, name: str, metric: str, pairs: Sequence[TwinPair]) -> TwinRow:
    ours = np.array([pair.ours[metric] for pair in pairs])
    twin = np.array([pair.twin[metric] for pair in pairs])
    test = _test(ours, twin)
    return TwinRow(
        setting=group.setting,
        twin=name,
        metric=metric,
        pairs=len(pairs),
        mean=float(ours.mean()),
        mean_twin=float(twin.mean()),
        difference=Estimate(float((ours - twin).mean()), None if test is None else test.ends),
        p=None if test is None else test.p,
    )


def _test(ours: Floats, twin: Floats) -> PairedTest | None:
    finite = np.isfinite(ours).all() and np.isfinite(twin).all()
    return paired_t_test(ours, twin) if ours.size > 1 and finite else None


def _corrected(row: TwinRow, tests: Sequence[float]) -> TwinRow:
    """The row with its p corrected for all `tests` of its metric."""
    if row.p is None:
        return row
    corrected = bonferroni(tests)[tests.index(row.p)]
    return replace(row, p_bonferroni=corrected, stars=stars(corrected))


@dataclass(frozen=True, kw_only=True)
class PeriodRow(ResultRow):
    """The metrics of one period of a changing intent, each the mean over the runs that have it.

    Attributes:
        setting: what was run.
        runs: number of runs.
        period: its number, from 1.
        first, end: its first interaction, and the one after its last.
        intent: the leading intent, from 1; None if there is none.
        drop, delta, online_mean, ndcg: see `intent_metrics.PERIOD`; the first period has no drop.
        delta_runs: number of runs with the twin that `delta` compares with.
    """

    setting: Setting = column(embedded=True)
    runs: int
    period: int
    first: int
    end: int
    intent: int | None
    drop: float | None = column("ndcg_drop@10")
    delta: float | None = column("ndcg_delta@10")
    online_mean: float | None
    ndcg: float | None = column("ndcg@10")
    delta_runs: int


def period_rows(cells: Sequence[Run], among: SpecRuns | None = None) -> tuple[PeriodRow, ...]:
    """One row per group and period where the leading intent changes.

    Twins are searched `among` all runs, or else among the cells themselves.
    """
    among, rows = runs_by_spec(cells) if among is None else among, []
    for group in groups(cells):
        environment = group.cells[0].world.environment
        if environment is None or not environment.change_points:
            continue
        metrics = np.stack([_metrics_of_run(cell, among, environment) for cell in group.cells])
        total = len(group.cells[0].trained.rounds) * group.cells[0].record.per_round
        for number, period in enumerate(environment.periods):
            drop, delta, online, offline = metrics[:, :, number].T
            rows.append(
                PeriodRow(
                    setting=group.setting,
                    runs=len(group.cells),
                    period=number + 1,
                    first=period.first,
                    end=min(period.end, total) if number + 1 < len(environment.periods) else total,
                    intent=None if period.intent is None else period.intent + 1,
                    drop=_mean(drop),
                    delta=_mean(delta),
                    online_mean=_mean(online),
                    ndcg=_mean(offline),
                    delta_runs=int((~np.isnan(delta)).sum()),
                )
            )
    return tuple(rows)


def _metrics_of_run(cell: Run, among: SpecRuns, environment: Environment) -> Floats:
    """Every metric of `intent_metrics.PERIOD` of one run, in the order of a row, float64 (4, periods)."""
    rounds, n = cell.trained.rounds, cell.record.per_round
    twins = {intent: twin.trained.rounds for intent, twin in fixed_intents(cell, among).items()}
    return np.stack(
        [
            np.concatenate([[np.nan], drops(rounds, environment, n)]),
            deltas(rounds, twins, environment, n),
            online_means(rounds, environment, n),
            offline_ends(rounds, environment, n),
        ]
    )


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None


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
