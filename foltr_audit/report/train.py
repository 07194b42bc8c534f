"""The report of `train`: rounds, periods, twins and utility, and its short answer."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.ranking_metrics import OFFLINE, OFFLINE_NDCG, ONLINE, ONLINE_NDCG
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
from foltr_audit.report.plan_report import PlanReport, served_group_rows, served_groups_table
from foltr_audit.report.settings import (
    SETTING,
    each_run,
    pools,
    setting_columns,
    setting_label,
    short_scenario,
    utility_table,
)
from foltr_audit.report.table import (
    Column,
    Table,
    columns_of,
    counted,
    interval_text,
    make_table,
    percent,
)
from foltr_audit.report.terminal import BriefAnswer, first_rows, print_table
from foltr_audit.simulation.intent_metrics import PERIOD
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
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
        clients = [pool.runs[0].record.population for pool in pools(runs)]
        return cls(
            **cls.shared(plan, runs),
            utility_groups=served_group_rows(pools(runs)),
            population=tuple(
                POPULATION.row(table) for n, table in enumerate(clients) if table and table not in clients[:n]
            ),
            periods=period_rows(runs),
            twins=twin_rows(runs),
            rounds=tuple(_rounds(runs)),
            curves={metric: curves(runs, metric) for metric in PANELS},
        )

    def show(self, console: Console, *, rounds: bool = True) -> None:
        """Print clients, some rounds if asked for, periods, twins, and the metrics of the final model."""
        console.print(self.about)
        tables = [population_table(made, self.population) for made in self.population]
        if rounds:
            tables.append(_rounds_table(self.rounds, self.utility[0]["evaluated_on"]))
        if self.periods:
            tables.append(periods_table(self.periods))
        if self.twins:
            tables.append(twins_table(self.twins))
        tables.append(utility_table(self.utility, self.config, online=True))
        if self.utility_groups:
            tables.append(served_groups_table(self.utility_groups))
        for table in tables:
            print_table(table, console)

    def show_short(self, console: Console, *, quiet: bool = False) -> None:
        """Print the short answer, and the comparison with twins if some were trained."""
        super().show_short(console, quiet=quiet)
        if self.twins and not quiet:
            print_table(twins_table(self.twins), console)

    def short_answer(self) -> BriefAnswer:
        rows, more = first_rows(self.utility, "rows")
        tables = {
            "the metrics of each round": self.rounds,
            "the periods of each intent": self.periods,
            "groups of clients": self.utility_groups or self.population,
        }
        return BriefAnswer(
            conclusion=(_conclusion(self),),
            about=self.about,
            table=utility_table(rows, self.config, online=True),
            left_out=(*more, *(name for name, hidden in tables.items() if hidden)),
        )

    def figure(self) -> Figure:
        """The learning curves of the metrics in `PANELS`."""
        return draw(self.curves, self.dataset)

    def save_rounds(self, folder: Path) -> None:
        """Write the rounds as `rounds.parquet` into a folder.

        Raises:
            FoltrAuditError: it cannot be written.
        """
        buffer = io.BytesIO()
        self.to_frame().write_parquet(buffer)
        with report_write_errors(folder):
            atomic_files.write_bytes(folder / ROUNDS, buffer.getvalue())


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
            yield ROUND.row({**own, **metrics, "round": int(metrics["round"])}, setting)


# --- speed and cost: printed next to a report, which has the same bytes each time --------------------


def train_speed(runs: Sequence[Run]) -> dict[str, Any]:
    """How long the rounds took, without start-up and reading.

    The rate is that after the first round, in which kernels may be compiled; None without a later round.
    """
    trained = [run.trained for run in runs]
    later, seconds = (sum(part) for part in zip(*(each.later for each in trained), strict=True))
    return {
        "interactions": sum(each.interactions for each in trained),
        "seconds": sum(each.seconds for each in trained),
        "interactions_per_second": later / seconds if later and seconds else None,
    }


def speed_text(speed: Mapping[str, Any]) -> str:
    rate = speed["interactions_per_second"]
    known = "" if rate is None else f" ({rate:,.0f} a second after the first round)"
    return f"{speed['interactions']:,} interactions in {speed['seconds']:.1f} s{known}"


def wire_costs(run: Run) -> Iterator[str]:
    """What each wire defense of a run costs a client in a round."""
    rounds, size = run.trained.rounds, run.trained.parameters.size
    sent = {name: _mean(rounds, name) for name in rounds[-1] if name.startswith("bytes_")}
    stages = ", ".join(f"{name.removeprefix('bytes_')} {count:,.0f}" for name, count in sent.items())
    for wire in DefenseChain(parse_chain(run.spec.defense)).links("wire"):
        seconds = wire.client_seconds(run.spec.population.cohort_size, size)
        yield (
            f"{wire.name}: a client sends {sum(sent.values()):,.0f} bytes a round ({stages}) and works "
            f"{1e3 * sum(seconds.values()):.2f} ms; {100 * _mean(rounds, 'aborted'):.0f} % of the rounds "
            "aborted"
        )


def _mean(rounds: Sequence[Mapping[str, float]], name: str) -> float:
    values = [row[name] for row in rounds if name in row]
    return sum(values) / len(values) if values else 0.0


# --- tables ----------------------------------------------------------------------------------------

MOST_ROUNDS = 20
"""Rounds of a setting in the table; more are in JSON and Parquet."""

MOST_GROUPS = 24
"""Groups of clients in the table; more are in JSON."""

_METRICS = {
    ONLINE_NDCG: f"online\n{ONLINE[ONLINE_NDCG].label}",
    **{
        name: f"offline\n{OFFLINE[name].label}"
        for name in (OFFLINE_NDCG, "offline_mrr@10", "offline_map@10", "offline_dcg@10")
    },
    **{name: f"online\n{ONLINE[name].label}" for name in ("maxrr", "dcg", "online_dcg@10")},
}
_SPARE = ("online_dcg@10", "dcg", "offline_dcg@10", "offline_map@10", "offline_mrr@10", "maxrr")


def _rounds_table(rows: Sequence[Row], part: str) -> Table:
    """Means over repeated runs; of many rounds evenly spaced ones with offline metrics, up to the last."""
    every = sorted({row["round"] for row in rows})
    chosen = every
    if len(every) > MOST_ROUNDS:
        offline = sorted({row["round"] for row in rows if not math.isnan(row.number(OFFLINE_NDCG))})
        chosen = offline[:: -max(1, math.ceil(len(offline) / MOST_ROUNDS))][::-1]
    same: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["round"] in chosen:
            same.setdefault((str(row.setting), row["round"]), []).append(row)
    means = [
        members[0].with_values(
            **{name: sum(row.number(name) for row in members) / len(members) for name in _METRICS}
        )
        for members in same.values()
    ]
    runs = len({row["run"] for row in rows})
    lacking = f"\n{len(chosen)} of {len(every)} rounds: all with --json or --out"
    return make_table(
        "rounds",
        [
            *setting_columns(means),
            *columns_of("claimed=eps_claimed:claim; round"),
            *columns_of("; ".join(f"{header}={name}:3" for name, header in _METRICS.items())),
        ],
        means,
        caption=f"{f'means of {runs} runs; ' if runs > 1 else ''}offline: the global model after the round, "
        f"on {part}{lacking if len(chosen) < len(every) else ''}",
        spare=[_METRICS[name] for name in _SPARE],
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
            *columns_of("group:fold; clients; share:%; intent"),
            Column(
                "grades", lambda row: "all" if row["grades"] is None else ",".join(map(str, row["grades"]))
            ),
            *columns_of("clicks=click_model:fold; inter-\nactions=interactions; queries"),
            *columns_of("relevant\na query=relevant_per_query:2"),
        ],
        groups[:MOST_GROUPS],
        caption="\n".join(words),
    )


def periods_table(rows: Sequence[Row]) -> Table:
    runs = sorted({row["runs"] for row in rows})
    means = f"means of {' or '.join(map(str, runs))} runs; " if runs != [1] else ""
    lower = " and ".join(metric.label for metric in PERIOD.values() if not metric.higher_is_better)
    twins = "" if any(row["delta_runs"] for row in rows) else " (with --twins)"
    return make_table(
        "periods of a leading intent",
        [
            *setting_columns(rows),
            *columns_of("claimed=eps_claimed:claim; period"),
            Column("interactions", lambda row: f"{row['first'] + 1:,}-{row['end']:,}"),
            *columns_of("intent; drop=ndcg_drop@10:3; delta=ndcg_delta@10:3; online\nmean=online_mean:3"),
            *columns_of("offline\nat its end=ndcg@10:3"),
        ],
        rows,
        caption=f"{means}on the training queries, intents weighted as they are likely\n"
        f"{lower}: lower is better; delta: against training under the leading intent alone{twins}",
    )


def twins_table(rows: Sequence[Row]) -> Table:
    return make_table(
        "nDCG@10 compared with the same training in another world, its twin",
        [
            *setting_columns(rows),
            *columns_of("claimed=eps_claimed:claim; twin:fold"),
            Column("metric", lambda row: row["metric"].replace("_", " "), "fold"),
            *columns_of("pairs; run=mean:4; twin=mean_twin:4; difference:4"),
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
    who = f"The best of {len(rows)} rankers, {label}," if len(rows) > 1 else "The ranker"
    rounds = counted(len({row["round"] for row in report.rounds}), "round")
    limits = {"untrained": best["ndcg@10_untrained"], "ideal": best["ndcg@10_ceiling"]}
    beside = [f"{name} {short(value)}" for name, value in limits.items() if value is not None]
    against = f" ({', '.join(beside)})" if beside else ""
    return (
        f"{who} has an nDCG@10 of {short(best['ndcg@10'])} after {rounds} on {best['evaluated_on']}{against}."
    )
