"""The report of `train`: its rows, tables and short answer."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.ranking_metrics import OFFLINE, OFFLINE_NDCG, ONLINE, ONLINE_DISCOUNT, ONLINE_NDCG
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runs.folder import ROUNDS, report_write_errors
from foltr_audit.recorder import atomic_files
from foltr_audit.report.pictures.curves import training_figure
from foltr_audit.report.render.terminal import BriefAnswer, first_rows, print_table
from foltr_audit.report.results.base import (
    DatasetFacts,
    Report,
    RunGroup,
    Setting,
    UtilityRow,
    differing,
    groups,
    setting_label,
    utility_rows,
    warning_rows,
)
from foltr_audit.report.results.groups import utility_group_rows, utility_groups_table
from foltr_audit.report.results.twins import (
    PeriodRow,
    TwinRow,
    period_rows,
    periods_table,
    population_table,
    twin_rows,
    twins_table,
)
from foltr_audit.report.results.wording import counted
from foltr_audit.report.tables.columns import (
    claimed_column,
    dataset_line,
    defense_columns,
    no_relevant,
    percent_column,
    setting_columns,
    short_column,
    systems_of,
    trained_on_column,
)
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.simulation.population_summary import PopulationFacts
from foltr_audit.utils.formatting import JsonValue, json_text, short
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure
    from rich.console import Console

# --- rows and the report ---------------------------------------------------------------------------

"""Name of the rounds' table in a folder of Runs."""


@dataclass(frozen=True, kw_only=True)
class RoundRow(ResultRow):
    """One round of a run.

    Attributes:
        run: repetition.
        click_model: the click model of the Spec.
        setting: what was run.
        round: its number, from 0.
        metrics: the metrics by name, of groups and intents too.
    """

    run: int
    click_model: str
    setting: Setting = column(embedded=True)
    round: int
    metrics: Mapping[str, JsonValue] = column(embedded=True)

    def value(self, name: str) -> float | None:
        """A metric of the round; None if it was not taken."""
        value = self.metrics.get(name)
        return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True, kw_only=True)
class TrainReport(Report):
    """The result of `train`.

    Attributes:
        population: where clients differ, who they are: `clients`, `strengths`, and a row for each group.
        periods: one row per setting and period of a leading intent, see `period_rows`.
        twins: one row per setting, metric and twin that was trained too, see `twin_rows`.
        rounds: one row per run and round.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/train/1"

    population: tuple[PopulationFacts, ...]
    periods: tuple[PeriodRow, ...]
    twins: tuple[TwinRow, ...]
    rounds: tuple[RoundRow, ...]

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        print_train(self, console)

    def short_answer(self) -> BriefAnswer:
        """The conclusion with one table."""
        return brief_train(self)

    def figure(self) -> Figure:
        """The learning curves, offline and online."""
        return training_figure(self)

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[Run]) -> TrainReport:
        return cls(
            config=plan.public.table(),
            dataset=DatasetFacts.of([cell.data for cell in cells]),
            utility=utility_rows(cells),
            utility_groups=utility_group_rows(cells),
            warnings=warning_rows(cells),
            population=_populations(cells),
            periods=period_rows(cells),
            twins=twin_rows(cells),
            rounds=tuple(row for group in groups(cells) for row in _rounds(group)),
        )

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
    def of(cls, cells: Sequence[Run]) -> TrainSpeed:
        """The speed of all rounds of some Specs."""
        trained = [cell.trained for cell in cells]
        later = sum(run.later[0] for run in trained), sum(run.later[1] for run in trained)
        return cls(sum(run.interactions for run in trained), sum(run.seconds for run in trained), later)

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


@dataclass(frozen=True)
class WireCost:
    """What a wire defense costs a client in a round; its seconds, like `TrainSpeed`, are no part of a report.

    Attributes:
        name: of the defense.
        bytes: bytes that a client sends on average, by stage.
        seconds: its own work, by stage.
        aborted: share of the rounds that were aborted.
    """

    name: str
    bytes: dict[str, float]
    seconds: dict[str, float]
    aborted: float

    @classmethod
    def of(cls, cell: Run) -> Iterator[WireCost]:
        """One for each wire defense of a Spec that was run."""
        spec, rounds, size = cell.spec, cell.trained.rounds, cell.trained.parameters.size
        names = [name for name in rounds[-1] if name.startswith("bytes_")]
        for wire in DefenseChain(parse_chain(spec.defense)).links("wire"):
            yield cls(
                name=wire.name,
                bytes={name.removeprefix("bytes_"): _mean(rounds, name) for name in names},
                seconds=wire.client_seconds(spec.population.cohort_size, size),
                aborted=_mean(rounds, "aborted"),
            )

    def __str__(self) -> str:
        sent = ", ".join(f"{stage} {count:,.0f}" for stage, count in self.bytes.items())
        return (
            f"{self.name}: a client sends {sum(self.bytes.values()):,.0f} bytes a round ({sent}) and works "
            f"{1e3 * sum(self.seconds.values()):.2f} ms; {100 * self.aborted:.0f} % of the rounds aborted"
        )


def _populations(cells: Sequence[Run]) -> tuple[PopulationFacts, ...]:
    """Each population once, as the first run of a setting has it."""
    made = [group.cells[0].world.described for group in groups(cells)]
    return tuple({json_text(facts.plain()): facts for facts in made if facts is not None}.values())


def _mean(rounds: Sequence[Mapping[str, float]], name: str) -> float:
    values = [float(row[name]) for row in rounds if name in row]
    return sum(values) / len(values) if values else 0.0


def _flat(value: object) -> object:
    return json_text(value) if isinstance(value, list | tuple | dict) else value


def _rounds(group: RunGroup) -> Iterator[RoundRow]:
    for cell in group.cells:
        for row in cell.trained.rounds:
            yield RoundRow(
                run=cell.spec.repetition,
                click_model=cell.spec.train.click_model,
                setting=group.setting,
                round=int(row["round"]),
                metrics={name: value for name, value in row.items() if name != "round"},
            )


# --- tables ----------------------------------------------------------------------------------------

MOST_ROUNDS = 20
"""Rounds of a setting in the table; more are in JSON and Parquet."""

_METRICS = {
    ONLINE_NDCG: f"online\n{ONLINE['online_ndcg@10'].label}",
    **{
        name: f"offline\n{OFFLINE[name].label}"
        for name in (OFFLINE_NDCG, "offline_mrr@10", "offline_map@10", "offline_dcg@10")
    },
    "maxrr": f"online\n{ONLINE['maxrr'].label}",
}


def print_train(report: TrainReport, console: Console, *, rounds: bool = True) -> None:
    """The clients, some rounds if asked for, periods, twins, and the metrics of the final model."""
    console.print(dataset_line(report.dataset, report.config, systems_of(report.utility)))
    for made in report.population:
        print_table(population_table(made, report.population), console)
    if rounds:
        print_table(_rounds_table(report.rounds), console)
    if report.periods:
        print_table(periods_table(report.periods), console)
    if report.twins:
        print_table(twins_table(report.twins), console)
    print_table(utility_table_of(report, report.utility), console)
    if report.utility_groups:
        print_table(utility_groups_table(report.utility_groups), console)


def utility_table_of(report: TrainReport, rows: Sequence[UtilityRow]) -> Table:
    """How good the trained models of some rows are."""
    part = evaluated_on([row.metrics for row in report.rounds])
    return _utility_table(rows, no_relevant(report.config), part)


def _rounds_table(rows: Sequence[RoundRow]) -> Table:
    apart = differing([row.setting for row in rows])
    chosen = _chosen(rows)
    kinds = {tuple(str(row.setting.value(name)) for name in apart): row for row in rows}
    columns: list[Column[RoundRow]] = [
        *setting_columns(list(kinds.values()), apart),
        claimed_column(),
        Column("round", lambda row: str(row.round)),
        *(short_column(header, partial(RoundRow.value, name=name)) for name, header in _METRICS.items()),
    ]
    spare = ("offline_dcg@10", "offline_map@10", "offline_mrr@10", "maxrr")
    return make_table(
        "rounds",
        columns,
        [_mean_row(pooled) for pooled in _pooled(rows, apart, chosen)],
        caption=_caption(rows, chosen),
        spare=[_METRICS[name] for name in spare],
    )


def _caption(rows: Sequence[RoundRow], chosen: Sequence[int]) -> str:
    """What the numbers are, and which rounds are left out."""
    runs, rounds = len({row.run for row in rows}), len({row.round for row in rows})
    means = f"means of {runs} runs; " if runs > 1 else ""
    lacking = f"\n{len(chosen)} of {rounds} rounds: all with --json or --out" if len(chosen) < rounds else ""
    part = evaluated_on([row.metrics for row in rows])
    return f"{means}offline: the global model after the round, on {part}{lacking}"


def _chosen(rows: Sequence[RoundRow]) -> list[int]:
    """Rounds to show: all if few, else evenly spaced ones with offline metrics, the last one included."""
    every = sorted({row.round for row in rows})
    if len(every) <= MOST_ROUNDS:
        return every
    offline = [(row.round, row.value(OFFLINE_NDCG)) for row in rows]
    rounds = sorted({number for number, value in offline if value is not None and not math.isnan(value)})
    step = -(-len(rounds) // MOST_ROUNDS)
    return rounds[::-step][::-1]


def _pooled(rows: Sequence[RoundRow], apart: Sequence[str], rounds: Sequence[int]) -> list[list[RoundRow]]:
    """The rows of some rounds, those of all runs of a setting and round together."""
    pools: dict[tuple[object, ...], list[RoundRow]] = {}
    for row in rows:
        if row.round in rounds:
            setting = [
                str(row.setting.value(name)) for name in (*apart, "eps_claimed", "trained_on", "defense")
            ]
            pools.setdefault((*setting, row.round), []).append(row)
    return list(pools.values())


def _mean_row(rows: Sequence[RoundRow]) -> RoundRow:
    """The first of some rows with the means of the shown metrics."""
    means = {}
    for name in _METRICS:
        known = [value for row in rows if (value := row.value(name)) is not None]
        means[name] = sum(known) / len(known) if known else None
    return replace(rows[0], metrics=means)


def _utility_table(rows: Sequence[UtilityRow], words: str, part: str) -> Table:
    apart = [
        name for name in differing([row.setting for row in rows]) if name not in ("trained_on", "defense")
    ]
    columns: list[Column[UtilityRow]] = [
        trained_on_column(),
        *setting_columns(rows, apart),
        *defense_columns(rows),
        short_column("untrained", lambda row: row.untrained),
        short_column("trained", lambda row: row.ndcg),
        short_column("ideal", lambda row: row.ceiling),
        short_column("online\nmean", lambda row: row.online_mean),
        short_column("online\nsum", lambda row: row.online_sum, 2),
        percent_column("clipped", lambda row: row.clipped),
        Column("runs", lambda row: str(row.runs)),
    ]
    return make_table(
        f"nDCG@10 of the trained model ({part.replace('the ', '')}) and of what its users saw (online)",
        columns,
        rows,
        caption=f"ideal: what the best possible ranking reaches; queries without relevant documents {words}\n"
        f"online: mean of the rounds, and sum of the rounds with discount {ONLINE_DISCOUNT}",
        spare=("runs", "clipped", "online\nsum", "ideal", "untrained"),
    )


# --- the short answer ------------------------------------------------------------------------------


def print_brief_train(report: TrainReport, console: Console, *, quiet: bool = False) -> None:
    """Print the short answer, and the comparison with twins if some were trained."""
    brief_train(report).print(console, quiet=quiet)
    if report.twins and not quiet:
        print_table(twins_table(report.twins), console)


def brief_train(report: TrainReport) -> BriefAnswer:
    rows, more = first_rows(report.utility, "rows")
    tables = {
        "the metrics of each round": bool(report.rounds),
        "the periods of each intent": bool(report.periods),
        "groups of clients": bool(report.utility_groups or report.population),
    }
    return BriefAnswer(
        conclusion=(_conclusion(report),),
        about=dataset_line(report.dataset, report.config, systems_of(report.utility)),
        table=utility_table_of(report, rows),
        left_out=(*more, *(name for name, there in tables.items() if there)),
    )


def _conclusion(report: TrainReport) -> str:
    rows = report.utility
    rounds = len({row.round for row in report.rounds})
    known = [row for row in rows if row.ndcg == row.ndcg]
    if not known:
        return "No model could be evaluated: no query has a relevant document."
    best = max(known, key=lambda row: row.ndcg)
    name = f"{setting_label(best.setting, [row.setting for row in rows])}: " if len(rows) > 1 else ""
    of = f"The best of {len(rows)} rankers, {name.removesuffix(': ')}, has" if name else "The ranker has"
    return f"{of} an nDCG@10 of {short(best.ndcg)} after {counted(rounds, 'round')}{_beside(best)}."


def _beside(row: UtilityRow) -> str:
    """What the untrained model and the ideal ranking have, on which queries."""
    parts = [f"untrained {short(row.untrained)}"] if row.untrained is not None else []
    parts += [f"ideal {short(row.ceiling)}"] if row.ceiling is not None else []
    return f" on {row.evaluated_on} ({', '.join(parts)})" if parts else f" on {row.evaluated_on}"
