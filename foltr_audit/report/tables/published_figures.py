"""Published metrics of trained rankers compared with those that the cells of a preset found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape

from foltr_audit.core.ranking_metrics import online_sum
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.experiments.plan import Table as SpecTable
from foltr_audit.experiments.presets import Preset, PublishedFigure
from foltr_audit.experiments.runner import RunResult
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.base import groups, utility_rows
from foltr_audit.report.results.periods import period_rows
from foltr_audit.report.results.published_extent import PresetComparison, StudyExtent
from foltr_audit.report.results.seed_intervals import seed_intervals
from foltr_audit.report.results.twins import SpecRuns, runs_by_spec
from foltr_audit.report.tables.columns import short_column
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.formatting import short
from foltr_audit.utils.rows import JsonValue, ResultRow

if TYPE_CHECKING:
    from rich.console import Console


Fields = Mapping[str, JsonValue]
"""The columns of a row of a report, and the fields of its Spec."""

SUM = "online_sum"
"""The metric that grows with the number of rounds."""

PERIOD = "period"
"""The column that only rows of periods have."""


INTERVALS = "intervals"
"""The field with the intervals of a row's metrics, by metric."""


@dataclass(frozen=True, kw_only=True)
class FigureRow(ResultRow):
    """A published number and the mean of the values found in its place, or None.

    Attributes:
        cell: name of the preset's cell.
        where: columns that select the rows of the report.
        metric: name of the metric.
        published, found: the numbers; `approximate` if the published one is.
        low, high: 95 % interval of the found one over seeds, with the same folds; None of a single run.
        published_a_round, found_a_round: discounted sums as means over their rounds.
    """

    cell: str
    where: Mapping[str, JsonValue]
    metric: str
    published: float
    approximate: bool
    found: float | None
    low: float | None
    high: float | None
    difference: float | None
    published_a_round: float | None
    found_a_round: float | None

    def number(self, value: float | None) -> str:
        """A number next to the published one: counts in full, sums with two digits, else with three."""
        if value is not None and abs(self.published) >= 1 and float(self.published).is_integer():
            return f"{value:,.0f}"
        return short(value, 2 if self.metric == SUM else 3)


@dataclass(frozen=True, kw_only=True)
class FigureComparison(PresetComparison):
    """One row per published number, with the mean of the values found in its place, or None."""

    rows: Sequence[FigureRow]

    @classmethod
    def of(
        cls, preset: Preset, cells: Mapping[str, Sequence[RunResult]], extent: StudyExtent
    ) -> FigureComparison:
        """The comparison with what was run for each cell of a preset, at least one Spec each, by its name."""
        among = runs_by_spec([cell for mine in cells.values() for cell in mine])
        return cls.of_rows(preset, {name: list(_found(mine, among)) for name, mine in cells.items()}, extent)

    @classmethod
    def of_rows(
        cls, preset: Preset, found: Mapping[str, Sequence[Fields]], extent: StudyExtent
    ) -> FigureComparison:
        """The comparison with the rows of reports, by the cell of the preset."""
        full = {name: _rounds(mine) for name, mine in preset.tables().items()}
        rows = [
            _row(figure, found.get(figure.cell, []), full.get(figure.cell))
            for figure in preset.published.figures
        ]
        return cls(preset=preset, extent=extent, rows=rows)

    def only(self, *cells: str) -> FigureComparison:
        """The rows of some cells."""
        return replace(self, rows=[row for row in self.rows if row.cell in cells])

    def print(self, console: Console) -> None:
        """One table of all systems, or of each table of a study, and what is published without numbers."""
        names = [None] if self.preset.cells else list(dict.fromkeys(row.cell for row in self.rows))
        for name in names if self.rows else ():
            print_table((self if name is None else self.only(name))._table(), console)
            console.print()
        if self.preset.published.shows:
            console.print(escape(f"published: {self.preset.published.shows}"), highlight=False)

    def _table(self) -> Table:
        metrics = dict.fromkeys(row.metric.replace("_", " ") for row in self.rows)
        columns: list[Column[FigureRow]] = [
            Column("system", lambda row: row.cell, "fold"),
            *map(_place_column, dict.fromkeys(name for row in self.rows for name in row.where)),
        ]
        if len(metrics) > 1:
            columns.append(Column("metric", lambda row: row.metric.replace("_", " "), "fold"))
        columns += [
            Column("published", lambda row: f"{'~' * row.approximate}{row.number(row.published)}"),
            Column("found", lambda row: row.number(row.found)),
            Column("difference", _difference),
        ]
        if any(row.low is not None for row in self.rows):
            columns.insert(-1, Column("95 % interval", _interval))
        if any(row.metric == SUM for row in self.rows):
            columns.append(short_column("a round:\npublished", lambda row: row.published_a_round))
            columns.append(short_column("found", lambda row: row.found_a_round))
        title = f"{self.preset.published.title}: {', '.join(metrics)} as published and found"
        return make_table(title, columns, self.rows, caption=self._caption())

    def _caption(self) -> str:
        lines = [f"published: of {self.preset.published.data}; found: on {self.extent}"]
        if any(row.approximate for row in self.rows):
            lines.append("~: published as an approximate number")
        if any(row.low is not None for row in self.rows):
            lines.append("95 % interval: of the mean over seeds, with the same folds")
        if any(row.metric == SUM for row in self.rows):
            lines.append("a round: the sum divided by that of the discounts of its rounds")
        if self.extent.scale < 1:
            lines.append("scaled: models have learnt from fewer rounds, and means are of fewer runs")
        return "\n".join(lines)


def _place_column(name: str) -> Column[FigureRow]:
    header = name.rpartition(".")[2].replace("_", " ")
    return Column(header, lambda row: str(row.where.get(name, "")), "fold")


def _interval(row: FigureRow) -> str:
    return "" if row.low is None else f"{row.number(row.low)} to {row.number(row.high)}"


def _difference(row: FigureRow) -> str:
    text = row.number(row.difference)
    return text if text.startswith("-") else f"+{text}"


def _found(cells: Sequence[RunResult], among: SpecRuns) -> Iterator[Fields]:
    """Rows of a cell's reports with their Spec fields; twins are searched `among` all runs."""
    for group in groups(cells):
        fields = flat(group.cells[0].spec.table())
        intervals = {INTERVALS: seed_intervals(group.cells)}
        for row in utility_rows(group.cells):
            yield {**fields, **row.plain(), **intervals}
        yield from ({**fields, **row.plain()} for row in period_rows(group.cells, among))


def _rounds(tables: Sequence[SpecTable]) -> int | None:
    """Rounds of Spec tables; None where they differ."""
    rounds = {Spec.parse(table).train.rounds for table in tables}
    return rounds.pop() if len(rounds) == 1 else None


def _row(figure: PublishedFigure, found: Sequence[Fields], full: int | None) -> FigureRow:
    """A published number and the mean of all rows in its place; `full`: rounds at scale 1."""
    there = [row for row in found if figure.metric in row and _is_at(row, flat(figure.where))]
    values = [value for row in there if isinstance(value := row[figure.metric], int | float)]
    value = sum(values) / len(values) if values else None
    rounds = there[0].get("train.rounds") if there else None
    low, high = _interval_in(there, figure.metric)
    return FigureRow(
        cell=figure.cell,
        where=flat(figure.where),
        metric=figure.metric,
        published=figure.value,
        approximate=figure.approximate,
        found=value,
        low=low,
        high=high,
        difference=None if value is None else value - figure.value,
        published_a_round=_a_round(figure, figure.value, full),
        found_a_round=_a_round(figure, value, rounds if isinstance(rounds, int) else None),
    )


def _interval_in(there: Sequence[Fields], metric: str) -> tuple[float | None, float | None]:
    """The interval of a metric, of a single row only."""
    known = there[0].get(INTERVALS) if len(there) == 1 else None
    found = known.get(metric) if isinstance(known, dict) else None
    match found:
        case [float(low), float(high)]:
            return low, high
        case _:
            return None, None


def _a_round(figure: PublishedFigure, value: float | None, rounds: int | None) -> float | None:
    """A discounted sum as a mean over its rounds; None of anything else."""
    if figure.metric != SUM or value is None or rounds is None:
        return None
    return value / online_sum(np.ones(rounds))


def _is_at(row: Fields, where: Mapping[str, JsonValue]) -> bool:
    """Whether a row is of this place; one of a period only where the place names a period."""
    wanted = {PERIOD: None, **flat(where)}
    return all(row.get(name) == value for name, value in wanted.items())
