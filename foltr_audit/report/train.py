"""The report of `train`: rounds, periods, twins and utility, and its short answer."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.ranking_metrics import OFFLINE, OFFLINE_NDCG, ONLINE, ONLINE_DISCOUNT, ONLINE_NDCG
from foltr_audit.experiments.periods import (
    SpecRuns,
    compared_with_twins,
    corrected,
    period_values,
    runs_by_spec,
)
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runs.folder import report_write_errors
from foltr_audit.recorder import atomic_files
from foltr_audit.report.curves import PANELS, LearningCurve, curves, draw
from foltr_audit.report.documents import Row, Section, nested
from foltr_audit.report.groups import served_group_rows, served_groups_table
from foltr_audit.report.plan_report import PlanReport
from foltr_audit.report.settings import (
    SETTING,
    by_setting,
    claimed_column,
    defense_columns,
    differing,
    each_run,
    no_relevant,
    pools,
    setting_columns,
    setting_label,
    short_scenario,
    trained_on_column,
)
from foltr_audit.report.table import (
    Column,
    Table,
    counted,
    interval_text,
    make_table,
    percent,
    percent_column,
    short_column,
)
from foltr_audit.report.terminal import BriefAnswer, first_rows, print_table
from foltr_audit.simulation.intent_metrics import PERIOD
from foltr_audit.utils.formatting import JsonValue, json_text, short

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure
    from rich.console import Console

# --- the document ----------------------------------------------------------------------------------

ROUNDS = "rounds.parquet"
"""Name of the rounds' table in a folder of Runs."""

ROUND = Section("run:int click_model", SETTING, "round:int ...")
GROUP = Section(
    "group clients:int share:num intent:int|null grades:[int]|null click_model interactions:int queries:int "
    "relevant_per_query:num"
)
POPULATION = Section("scenario clients:int strengths:{num}", nested("groups", GROUP))
PERIODS = Section(
    SETTING,
    "runs:int period:int first:int end:int intent:int|null ndcg_drop@10:num|null ndcg_delta@10:num|null "
    "online_mean:num|null ndcg@10:num|null delta_runs:int",
)
TWIN = Section(
    SETTING,
    "twin metric pairs:int mean:num mean_twin:num difference:est p:num|null p_bonferroni:num|null stars",
)


@dataclass(frozen=True, kw_only=True)
class TrainReport(PlanReport):
    """The result of `train`.

    Attributes:
        population: where clients differ, who they are: `clients`, `strengths`, and a row for each group.
        periods: one row per setting and period of a leading intent.
        twins: one row per setting, metric and twin that was trained too.
        rounds: one row per run and round.
        curves: the learning curves of each metric that is drawn; no part of the document.
    """

    SCHEMA = "foltr-audit/train/1"
    FIELDS = Section(
        PlanReport.SHARED,
        nested("population", POPULATION),
        nested("periods", PERIODS),
        nested("twins", TWIN),
        nested("rounds", ROUND),
    )

    population: tuple[Row, ...]
    periods: tuple[Row, ...]
    twins: tuple[Row, ...]
    rounds: tuple[Row, ...]
    curves: Mapping[str, list[LearningCurve]] = field(compare=False)

    @classmethod
    def of(cls, plan: Plan, runs: Sequence[Run]) -> TrainReport:
        return cls(
            **cls.shared(plan, runs),
            utility_groups=served_group_rows(pools(runs)),
            population=_populations(runs),
            periods=period_rows(runs),
            twins=twin_rows(runs),
            rounds=tuple(_rounds(runs)),
            curves={metric: curves(runs, metric) for metric in PANELS},
        )

    def show(self, console: Console, *, rounds: bool = True) -> None:
        """Print clients, some rounds if asked for, periods, twins, and the metrics of the final model."""
        console.print(self.about)
        for made in self.population:
            print_table(population_table(made, self.population), console)
        if rounds:
            print_table(_rounds_table(self.rounds, self.utility[0]["evaluated_on"]), console)
        if self.periods:
            print_table(periods_table(self.periods), console)
        if self.twins:
            print_table(twins_table(self.twins), console)
        print_table(self.utility_table(self.utility), console)
        if self.utility_groups:
            print_table(served_groups_table(self.utility_groups), console)

    def print_brief(self, console: Console, *, quiet: bool = False) -> None:
        """Print the short answer, and the comparison with twins if some were trained."""
        self.short_answer().print(console, quiet=quiet)
        if self.twins and not quiet:
            print_table(twins_table(self.twins), console)

    def short_answer(self) -> BriefAnswer:
        """The conclusion with one table."""
        rows, more = first_rows(self.utility, "rows")
        tables = {
            "the metrics of each round": self.rounds,
            "the periods of each intent": self.periods,
            "groups of clients": self.utility_groups or self.population,
        }
        return BriefAnswer(
            conclusion=(_conclusion(self),),
            about=self.about,
            table=self.utility_table(rows),
            left_out=(*more, *(name for name, hidden in tables.items() if hidden)),
        )

    def utility_table(self, rows: Sequence[Row]) -> Table:
        """How good the trained models of some rows are, and what their users saw."""
        apart = [
            name for name in differing([row.setting for row in rows]) if name not in ("trained_on", "defense")
        ]
        part = self.utility[0]["evaluated_on"].replace("the ", "")
        return make_table(
            f"nDCG@10 of the trained model ({part}) and of what its users saw (online)",
            [
                trained_on_column(),
                *setting_columns(rows, apart),
                *defense_columns(rows),
                short_column("untrained", "ndcg@10_untrained"),
                short_column("trained", "ndcg@10"),
                short_column("ideal", "ndcg@10_ceiling"),
                short_column("online\nmean", "online_mean"),
                short_column("online\nsum", "online_sum", 2),
                percent_column("clipped", "clipped"),
                Column("runs", "runs"),
            ],
            rows,
            caption="ideal: what the best possible ranking reaches; queries without relevant documents "
            f"{no_relevant(self.config)}\nonline: mean of the rounds, and sum of the rounds with discount "
            f"{ONLINE_DISCOUNT}",
            spare=("runs", "clipped", "online\nsum", "ideal", "untrained"),
        )

    def figure(self) -> Figure:
        """The learning curves, offline and online."""
        return draw(self.curves, self.dataset)

    def to_frame(self) -> pl.DataFrame:
        """The rounds as a flat data frame: null where JSON has null, lists as their JSON text."""
        import polars as pl

        rows = [{name: _flat(value) for name, value in row.items()} for row in self.rows()]
        return pl.DataFrame(rows, infer_schema_length=None)

    def save_rounds(self, folder: Path) -> None:
        """Write the rounds as `rounds.parquet` into a folder.

        Raises:
            FoltrAuditError: it cannot be written.
        """
        buffer = io.BytesIO()
        self.to_frame().write_parquet(buffer)
        with report_write_errors(folder):
            atomic_files.write_bytes(folder / ROUNDS, buffer.getvalue())


def _flat(value: object) -> object:
    return json_text(value) if isinstance(value, list | tuple | dict) else value


def _populations(runs: Sequence[Run]) -> tuple[Row, ...]:
    """Each population once, as the first run of a setting has it."""
    tables = [pool.runs[0].record.population for pool in pools(runs)]
    distinct = {json_text(table): table for table in tables if table is not None}
    return tuple(POPULATION.row(table) for table in distinct.values())


def period_rows(runs: Sequence[Run], among: SpecRuns | None = None) -> tuple[Row, ...]:
    """A row for each setting and period; twins are searched `among` all runs, or else among these."""
    every = runs_by_spec(runs) if among is None else among
    return tuple(
        PERIODS.row({**pool.setting.columns(), **values}, pool.setting)
        for pool in pools(runs)
        for values in period_values(pool.runs, every)
    )


def twin_rows(runs: Sequence[Run]) -> tuple[Row, ...]:
    """A row for each setting, twin and metric."""
    among = runs_by_spec(runs)
    tests = [
        (pool.setting, values) for pool in pools(runs) for values in compared_with_twins(pool.runs, among)
    ]
    more = corrected([values for _, values in tests])
    return tuple(
        TWIN.row({**setting.columns(), **values, **p}, setting)
        for (setting, values), p in zip(tests, more, strict=True)
    )


def _rounds(runs: Sequence[Run]) -> Iterator[Row]:
    for setting, run in each_run(runs):
        own = {"run": run.spec.repetition, "click_model": run.spec.train.click_model, **setting.columns()}
        for metrics in run.trained.rounds:
            number = int(metrics["round"])
            yield ROUND.row({**own, "round": number, **metrics} | {"round": number}, setting)


# --- speed and cost --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainSpeed:
    """How long the rounds took, without start-up and reading.

    It is printed next to the report but is no part of it: a report has the same bytes each time.

    Attributes:
        interactions: interactions played here.
        seconds: their duration.
        later: interactions after each first round, in which kernels may be compiled, and their duration.
    """

    interactions: int
    seconds: float
    later: tuple[int, float]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> TrainSpeed:
        trained = [run.trained for run in runs]
        later = sum(each.later[0] for each in trained), sum(each.later[1] for each in trained)
        return cls(sum(each.interactions for each in trained), sum(each.seconds for each in trained), later)

    def row(self) -> dict[str, JsonValue]:
        facts: dict[str, JsonValue] = {"interactions": self.interactions, "seconds": self.seconds}
        return {**facts, "interactions_per_second": self.rate}

    @property
    def rate(self) -> float | None:
        """Interactions a second after the first round; None if there was no later round."""
        return self.later[0] / self.later[1] if self.later[0] and self.later[1] else None

    def __str__(self) -> str:
        rate = "" if self.rate is None else f" ({self.rate:,.0f} a second after the first round)"
        return f"{self.interactions:,} interactions in {self.seconds:.1f} s{rate}"


def wire_costs(run: Run) -> Iterator[str]:
    """What each wire defense of a run costs a client in a round; like `TrainSpeed` no part of a report."""
    rounds, size = run.trained.rounds, run.trained.parameters.size
    sent = {
        name.removeprefix("bytes_"): _mean(rounds, name) for name in rounds[-1] if name.startswith("bytes_")
    }
    stages = ", ".join(f"{stage} {count:,.0f}" for stage, count in sent.items())
    for wire in DefenseChain(parse_chain(run.spec.defense)).links("wire"):
        seconds = wire.client_seconds(run.spec.population.cohort_size, size)
        yield (
            f"{wire.name}: a client sends {sum(sent.values()):,.0f} bytes a round ({stages}) and works "
            f"{1e3 * sum(seconds.values()):.2f} ms; {100 * _mean(rounds, 'aborted'):.0f} % of the rounds "
            "aborted"
        )


def _mean(rounds: Sequence[Mapping[str, float]], name: str) -> float:
    values = [float(row[name]) for row in rounds if name in row]
    return sum(values) / len(values) if values else 0.0


# --- tables ----------------------------------------------------------------------------------------

MOST_ROUNDS = 20
"""Rounds of a setting in the table; more are in JSON and Parquet."""

MOST_GROUPS = 24
"""Groups of clients in the table; more are in JSON."""

_METRICS = {
    ONLINE_NDCG: f"online\n{ONLINE['online_ndcg@10'].label}",
    **{
        name: f"offline\n{OFFLINE[name].label}"
        for name in (OFFLINE_NDCG, "offline_mrr@10", "offline_map@10", "offline_dcg@10")
    },
    "maxrr": f"online\n{ONLINE['maxrr'].label}",
}
_SPARE = ("offline_dcg@10", "offline_map@10", "offline_mrr@10", "maxrr")


def _rounds_table(rows: Sequence[Row], part: str) -> Table:
    every, chosen = {row["round"] for row in rows}, _chosen(rows)
    settings = by_setting(rows)
    means = [
        _mean_row(of_round)
        for of_setting in settings
        for number in chosen
        if (of_round := [row for row in of_setting if row["round"] == number])
    ]
    runs = len({row["run"] for row in rows})
    lacking = f"\n{len(chosen)} of {len(every)} rounds: all with --json or --out"
    firsts = [of_setting[0] for of_setting in settings]
    return make_table(
        "rounds",
        [
            *setting_columns(firsts, differing([row.setting for row in firsts])),
            claimed_column(),
            Column("round", "round"),
            *(short_column(header, name) for name, header in _METRICS.items()),
        ],
        means,
        caption=f"{f'means of {runs} runs; ' if runs > 1 else ''}offline: the global model after the round, "
        f"on {part}{lacking if len(chosen) < len(every) else ''}",
        spare=[_METRICS[name] for name in _SPARE],
    )


def _chosen(rows: Sequence[Row]) -> list[int]:
    """Rounds to show: all if few, else evenly spaced ones with offline metrics, the last one included."""
    every = sorted({row["round"] for row in rows})
    if len(every) <= MOST_ROUNDS:
        return every
    offline = sorted({row["round"] for row in rows if not math.isnan(row.number(OFFLINE_NDCG))})
    step = -(-len(offline) // MOST_ROUNDS)
    return offline[::-step][::-1]


def _mean_row(rows: Sequence[Row]) -> Row:
    """The first of the rows of a round with the means of the shown metrics."""
    return rows[0].with_values(
        **{name: sum(row.number(name) for row in rows) / len(rows) for name in _METRICS}
    )


def population_table(made: Row, every: Sequence[Row]) -> Table:
    """The clients of one of several settings, a row for each group."""
    words = [
        f"{name}: {percent(1 - strength)} of the interactions are of any kind of clients"
        for name, strength in made["strengths"].items()
        if strength < 1
    ]
    groups = [GROUP.row(group) for group in made["groups"]]
    if len(groups) > MOST_GROUPS:
        words.append(f"{MOST_GROUPS} of {len(groups)} groups: all with --json")
    return make_table(
        f"{made['clients']:,} clients, "
        f"{short_scenario(made['scenario'], [other['scenario'] for other in every])}",
        [
            Column("group", "group", "fold"),
            Column("clients", "clients"),
            percent_column("share", "share"),
            Column("intent", "intent"),
            Column("grades", _grades),
            Column("clicks", "click_model", "fold"),
            Column("inter-\nactions", "interactions"),
            Column("queries", "queries"),
            short_column("relevant\na query", "relevant_per_query", 2),
        ],
        groups[:MOST_GROUPS],
        caption="\n".join(words),
    )


def _grades(row: Row) -> str:
    return "all" if row["grades"] is None else ",".join(map(str, row["grades"]))


def periods_table(rows: Sequence[Row]) -> Table:
    """The metrics of each period of a changing intent."""
    runs = sorted({row["runs"] for row in rows})
    means = f"means of {' or '.join(map(str, runs))} runs; " if runs != [1] else ""
    lower = " and ".join(metric.label for metric in PERIOD.values() if not metric.higher_is_better)
    twins = "" if any(row["delta_runs"] for row in rows) else " (with --twins)"
    return make_table(
        "periods of a leading intent",
        [
            *setting_columns(rows, differing([row.setting for row in rows])),
            claimed_column(),
            Column("period", "period"),
            Column("interactions", lambda row: f"{row['first'] + 1:,}-{row['end']:,}"),
            Column("intent", "intent"),
            short_column("drop", "ndcg_drop@10"),
            short_column("delta", "ndcg_delta@10"),
            short_column("online\nmean", "online_mean"),
            short_column("offline\nat its end", "ndcg@10"),
        ],
        rows,
        caption=f"{means}on the training queries, intents weighted as they are likely\n"
        f"{lower}: lower is better; delta: against training under the leading intent alone{twins}",
    )


def twins_table(rows: Sequence[Row]) -> Table:
    """Runs compared with their twins."""
    return make_table(
        "nDCG@10 compared with the same training in another world, its twin",
        [
            *setting_columns(rows, differing([row.setting for row in rows])),
            claimed_column(),
            Column("twin", "twin", "fold"),
            Column("metric", lambda row: row["metric"].replace("_", " "), "fold"),
            Column("pairs", "pairs"),
            short_column("run", "mean", 4),
            short_column("twin", "mean_twin", 4),
            short_column("difference", "difference", 4),
            Column("95 %", lambda row: interval_text(row["difference"], 4)),
            Column("p", lambda row: short(row["p_bonferroni"]) + row["stars"]),
        ],
        rows,
        caption="difference: run - twin; p: paired two-sided t-test over runs, Bonferroni within a metric, "
        "* below .05, ** below .01",
    )


# --- the conclusion --------------------------------------------------------------------------------


def _conclusion(report: TrainReport) -> str:
    rows = report.utility
    known = [row for row in rows if not math.isnan(row.number("ndcg@10"))]
    if not known:
        return "No model could be evaluated: no query has a relevant document."
    best = max(known, key=lambda row: row.number("ndcg@10"))
    label = setting_label(best.setting, [row.setting for row in rows])
    of = f"The best of {len(rows)} rankers, {label}, has" if len(rows) > 1 else "The ranker has"
    rounds = counted(len({row["round"] for row in report.rounds}), "round")
    beside = [
        f"{name} {short(best[column])}"
        for name, column in (("untrained", "ndcg@10_untrained"), ("ideal", "ndcg@10_ceiling"))
        if best[column] is not None
    ]
    against = f" ({', '.join(beside)})" if beside else ""
    return f"{of} an nDCG@10 of {short(best['ndcg@10'])} after {rounds} on {best['evaluated_on']}{against}."
