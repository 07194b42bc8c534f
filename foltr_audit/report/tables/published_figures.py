"""Published metrics of trained rankers compared with those that the cells of a preset found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape

from foltr_audit.core.ranking_metrics import online_sum
from foltr_audit.core.spec.experiment import Spec, flat
from foltr_audit.experiments.plan import Table
from foltr_audit.experiments.presets import Preset, PublishedFigure
from foltr_audit.experiments.runner import RunResult
from foltr_audit.report.results.base import Row, groups, utility_rows
from foltr_audit.report.results.periods import period_rows
from foltr_audit.report.results.published_extent import PresetComparison, StudyExtent
from foltr_audit.report.results.twins import SpecRuns, runs_by_spec
from foltr_audit.report.tables.layout import Column, rows_table, short_column
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable


SUM = "online_sum"
"""The metric that grows with the number of rounds."""

PERIOD = "period"
"""The column that only rows of periods have."""


class FigureComparison(PresetComparison):
    """One row per published number, with the mean of the values found in its place, or None."""

    @classmethod
    def of(
        cls, preset: Preset, cells: Mapping[str, Sequence[RunResult]], extent: StudyExtent
    ) -> FigureComparison:
        """The comparison with what was run for each cell of a preset, at least one Spec each, by its name."""
        among = runs_by_spec([cell for mine in cells.values() for cell in mine])
        return cls.of_rows(preset, {name: list(_found(mine, among)) for name, mine in cells.items()}, extent)

    @classmethod
    def of_rows(
        cls, preset: Preset, found: Mapping[str, Sequence[Row]], extent: StudyExtent
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
        return replace(self, rows=[row for row in self.rows if row["cell"] in cells])

    def print(self, console: Console) -> None:
        """One table of all systems, or of each table of a study, and what is published without numbers."""
        names = [None] if self.preset.cells else list(dict.fromkeys(row["cell"] for row in self.rows))
        for name in names if self.rows else ():
            console.print((self if name is None else self.only(name))._table())
            console.print()
        if self.preset.published.shows:
            console.print(escape(f"published: {self.preset.published.shows}"), highlight=False)

    def _table(self) -> RichTable:
        metrics = dict.fromkeys(row["metric"].replace("_", " ") for row in self.rows)
        columns = [Column("system", lambda row: escape(row["cell"]), "fold")]
        columns += [
            _place_column(name) for name in dict.fromkeys(n for row in self.rows for n in row["where"])
        ]
        if len(metrics) > 1:
            columns.append(Column("metric", lambda row: row["metric"].replace("_", " "), "fold"))
        columns += [
            Column("published", lambda row: f"{'~' * row['approximate']}{_number(row['published'], row)}"),
            Column("found", lambda row: _number(row["found"], row)),
            Column("difference", _difference),
        ]
        if any(row["metric"] == SUM for row in self.rows):
            columns.append(short_column("a round:\npublished", "published_a_round"))
            columns.append(short_column("found", "found_a_round"))
        title = f"{self.preset.published.title}: {', '.join(metrics)} as published and found"
        return rows_table(escape(title), escape(self._caption()), columns, self.rows)

    def _caption(self) -> str:
        lines = [f"published: of {self.preset.published.data}; found: on {self.extent}"]
        if any(row["approximate"] for row in self.rows):
            lines.append("~: published as an approximate number")
        if any(row["metric"] == SUM for row in self.rows):
            lines.append("a round: the sum divided by that of the discounts of its rounds")
        if self.extent.scale < 1:
            lines.append("scaled: models have learnt from fewer rounds, and means are of fewer runs")
        return "\n".join(lines)


def _place_column(name: str) -> Column:
    header = escape(name.rpartition(".")[2].replace("_", " "))
    return Column(header, lambda row: escape(str(row["where"].get(name, ""))), "fold")


def _difference(row: Row) -> str:
    text = _number(row["difference"], row)
    return text if text.startswith("-") else f"+{text}"


def _number(value: float | None, row: Row) -> str:
    """A number next to a published one: counts in full, sums with two digits, all else with three."""
    if value is not None and abs(row["published"]) >= 1 and float(row["published"]).is_integer():
        return f"{value:,.0f}"
    return short(value, 2 if row["metric"] == SUM else 3)


def _found(cells: Sequence[RunResult], among: SpecRuns) -> Iterator[Row]:
    """Rows of a cell's reports with their Spec fields; twins are searched `among` all runs."""
    for group in groups(cells):
        fields = flat(group.cells[0].spec.table())
        for row in (*utility_rows(group.cells), *period_rows(group.cells, among)):
            yield {**fields, **row}


def _rounds(tables: Sequence[Table]) -> int | None:
    """Rounds of Spec tables; None where they differ."""
    rounds = {Spec.parse(table).train.rounds for table in tables}
    return rounds.pop() if len(rounds) == 1 else None


def _row(figure: PublishedFigure, found: Sequence[Row], full: int | None) -> Row:
    """A published number and the mean of all rows in its place; `full`: rounds at scale 1."""
    there = [row for row in found if figure.metric in row and _is_at(row, figure.where)]
    values = [row[figure.metric] for row in there if row[figure.metric] is not None]
    value = sum(values) / len(values) if values else None
    rounds = there[0].get("train.rounds") if there else None
    return {
        "cell": figure.cell,
        "where": flat(figure.where),
        "metric": figure.metric,
        "published": figure.value,
        "approximate": figure.approximate,
        "found": value,
        "difference": None if value is None else value - figure.value,
        "published_a_round": _a_round(figure, figure.value, full),
        "found_a_round": _a_round(figure, value, rounds),
    }


def _a_round(figure: PublishedFigure, value: float | None, rounds: int | None) -> float | None:
    """A discounted sum as a mean over its rounds; None of anything else."""
    if figure.metric != SUM or value is None or rounds is None:
        return None
    return value / online_sum(np.ones(rounds))


def _is_at(row: Row, where: Mapping[str, Any]) -> bool:
    """Whether a row is of this place; one of a period only where the place names a period."""
    wanted = {PERIOD: None, **flat(where)}
    return all(row.get(name) == value for name, value in wanted.items())
