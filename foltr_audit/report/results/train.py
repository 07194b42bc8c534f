"""The report of `train`: one row per run and round."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import RunResult
from foltr_audit.experiments.runs.folder import report_write_errors
from foltr_audit.recorder import atomic_files
from foltr_audit.report.results.base import (
    DatasetFacts,
    Report,
    RunGroup,
    Setting,
    groups,
    utility_rows,
    warning_rows,
)
from foltr_audit.report.results.group_utility import utility_group_rows
from foltr_audit.report.results.periods import PeriodRow, period_rows
from foltr_audit.report.results.twins import TwinRow, twin_rows
from foltr_audit.simulation.population_summary import PopulationFacts
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.rows import JsonValue, ResultRow, column

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.report.tables.brief.short_answer import BriefAnswer

ROUNDS = "rounds.parquet"
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
        found = self.metrics.get(name)
        return float(found) if isinstance(found, int | float) else None


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
        from foltr_audit.report.tables.train import print_train

        print_train(self, console)

    def short_answer(self) -> BriefAnswer:
        """The conclusion with one table."""
        from foltr_audit.report.tables.brief.train import brief_train

        return brief_train(self)

    def figure(self) -> Figure:
        """The learning curves, offline and online."""
        from foltr_audit.report.pictures.curves import training_figure

        return training_figure(self)

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[RunResult]) -> TrainReport:
        """The report on the cells of a plan."""
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
    def of(cls, cells: Sequence[RunResult]) -> TrainSpeed:
        """The speed of all rounds of some Specs."""
        trained = [cell.trained for cell in cells]
        later = sum(run.later[0] for run in trained), sum(run.later[1] for run in trained)
        return cls(sum(run.interactions for run in trained), sum(run.seconds for run in trained), later)

    def row(self) -> dict[str, JsonValue]:
        """The same for JSON."""
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
    def of(cls, cell: RunResult) -> Iterator[WireCost]:
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


def _populations(cells: Sequence[RunResult]) -> tuple[PopulationFacts, ...]:
    """Each population once, as the first run of a setting has it."""
    made = [group.cells[0].world.described for group in groups(cells)]
    return tuple({json_text(each.plain()): each for each in made if each is not None}.values())


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
