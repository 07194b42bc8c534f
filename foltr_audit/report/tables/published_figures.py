"""Published figures and attacks beside what is found here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.markup import escape

from foltr_audit.core.ranking_metrics import online_sum
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.experiments.periods import SpecRuns, runs_by_spec
from foltr_audit.experiments.plan import Table as SpecTable
from foltr_audit.experiments.presets import RANDOM, AttackFigures, Preset, PublishedFigure
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.stages import TrainResult
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.base import RunGroup, groups, utility_rows
from foltr_audit.report.tables.columns import method_lines, short_column
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.report.train import period_rows
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.formatting import JsonValue, epsilon, short
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from rich.console import Console

# --- what a comparison covers ----------------------------------------------------------------------


class ParameterOverride(NamedTuple):
    """A parameter of a published study that was given another value.

    Attributes:
        option: the option that did it, or the field of the Spec.
        value: its values now, as text.
        published: those of the study.
    """

    option: str
    value: str
    published: str


@dataclass(frozen=True, kw_only=True)
class StudyExtent:
    """How much of a published study was run, and on what.

    Attributes:
        data: source of the data here.
        synthetic: whether those are synthetic.
        scale: what rounds, repeats and repetitions were multiplied by.
        overridden: what else of it was given another value.
    """

    data: str
    synthetic: bool
    scale: float = 1.0
    overridden: tuple[ParameterOverride, ...] = ()

    @property
    def label(self) -> str:
        """A note for the title of every table; empty for the unchanged study on real data."""
        return ", ".join([*(["synthetic data"] if self.synthetic else []), *self._changes()])

    def __str__(self) -> str:
        kind = "synthetic data" if self.synthetic else "data"
        return ", ".join([f"{kind} {self.data}", *self._changes()])

    def _changes(self) -> Iterator[str]:
        if self.scale < 1:
            yield f"scale {self.scale:g}"
        if self.overridden:
            given = ", ".join(f"{one.option} {one.value}" for one in self.overridden)
            yield f"with {given} instead of {' and '.join(one.published for one in self.overridden)}"


@dataclass(frozen=True, kw_only=True)
class PresetComparison:
    """Published figures and those found; a subclass finds the rows and prints them.

    Attributes:
        preset: the study.
        extent: how much of it was run.
        rows: published and found figures.
    """

    preset: Preset
    extent: StudyExtent
    rows: Sequence[ResultRow]

    @property
    def heading(self) -> str:
        """What was run in one line."""
        return f"{self.preset.name}: {self.preset.published.title}, on {self.extent}"

    def table(self) -> dict[str, JsonValue]:
        """Everything as one plain table."""
        published = self.preset.published
        return {
            "preset": self.preset.name,
            "source": self.preset.source,
            "title": published.title,
            "published_data": published.data,
            "shows": published.shows,
            "data": self.extent.data,
            "synthetic": self.extent.synthetic,
            "scale": self.extent.scale,
            "overridden": [one._asdict() for one in self.extent.overridden],
            "rows": [row.plain() for row in self.rows],
        }

    def print(self, console: Console) -> None:
        """The figures as tables."""
        raise NotImplementedError


# --- attacks ---------------------------------------------------------------------------------------

LEVEL = 0.95
"""Confidence of the intervals."""


def seed_intervals(cells: Sequence[Run]) -> dict[str, JsonValue]:
    """The interval of the mean of each metric of trained models, by its column, as a list of two numbers.

    Empty where a fold was run once, since the spread over seeds is then not known.
    """
    folds = [cell.spec.data.fold for cell in cells]
    values = [_metrics(cell.trained) for cell in cells]
    found: dict[str, JsonValue] = {}
    for name in values[0]:
        limits = stratified_interval([one[name] for one in values], folds)
        if limits is not None:
            found[name] = list(limits)
    return found


def _metrics(trained: TrainResult) -> Mapping[str, float]:
    return {
        "ndcg@10": trained.ndcg,
        "online_sum": trained.online_sum,
        "online_mean": trained.online_mean,
        "maxrr_last_10": trained.maxrr_last,
    }


def stratified_interval(values: Sequence[float], strata: Sequence[int]) -> tuple[float, float] | None:
    """Student's interval of the mean of `values` (n,), which vary inside of their strata (n,) only.

    The variance of the mean is the sum over strata of n_s var_s / n^2, with n - S degrees of freedom; None if
    a stratum has a single value.

    Source: Cochran 1977, "Sampling techniques", section 5.3.
    """
    from scipy.special import stdtrit

    numbers, kinds = np.array(values), np.array(strata)
    parts = [numbers[kinds == kind] for kind in np.unique(kinds)]
    if min(part.size for part in parts) < 2:
        return None
    variance = sum(part.size * float(part.var(ddof=1)) for part in parts) / numbers.size**2
    reach = float(stdtrit(numbers.size - len(parts), (1 + LEVEL) / 2)) * math.sqrt(variance)
    mean = float(numbers.mean())
    return mean - reach, mean + reach


@dataclass(frozen=True, kw_only=True)
class ClickFigures(ResultRow):
    """What is compared of a method: means over lists with a click; the precision over those with a guess."""

    accuracy: float
    precision: float
    recall: float

    def text(self, digits: int) -> str:
        """The figures in one cell; `-` where there is none."""
        if math.isnan(self.accuracy):
            return "-"
        return "/".join(short(value, digits) for value in (self.accuracy, self.precision, self.recall))


UNPUBLISHED = ClickFigures(accuracy=math.nan, precision=math.nan, recall=math.nan)
"""The figures of a method that nothing was published on."""


@dataclass(frozen=True, kw_only=True)
class AttackFigureRow(ResultRow):
    """A method under one click model of a cell of the preset: what was found and published.

    Attributes:
        cell: name of the preset's cell.
        folds: how many were run; figures are means of folds, then their mean.
        lists: number of lists with a click.
    """

    cell: str
    method: str
    click_model: str
    trained_on: str
    eps_claimed: float
    defense: str
    pdgd: str
    folds: int
    lists: int
    found: ClickFigures = column(embedded=True)
    published: ClickFigures = column("published_", embedded=True)


@dataclass(frozen=True, kw_only=True)
class _FigureLine:
    """A line of the table: a method under one click model, and its figures in each column."""

    section: str
    clicks: str
    method: str
    figures: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AttackComparison(PresetComparison):
    """Published figures of attacks beside those found, averaged alike: means of folds, then their mean.

    There is one row per cell of the preset, setting, click model and method.
    """

    rows: Sequence[AttackFigureRow]

    @classmethod
    def of(cls, preset: Preset, cells: Mapping[str, Sequence[Run]], extent: StudyExtent) -> AttackComparison:
        """The comparison with what was run for each cell of a preset, at least one Spec each, by its name."""
        return cls(
            preset=preset,
            extent=extent,
            rows=[
                row
                for name, mine in cells.items()
                for group in groups(mine)
                for row in _group_rows(preset, name, group)
            ],
        )

    def print(self, console: Console) -> None:
        """One table per setting: published figures, then a column per cell."""
        settings = list(dict.fromkeys(_setting(row) for row in self.rows))
        for setting in settings:
            rows = [row for row in self.rows if _setting(row) == setting]
            print_table(self._table(rows, several=len(settings) > 1), console)
            console.print()

    def _table(self, rows: Sequence[AttackFigureRow], *, several: bool) -> Table:
        first = rows[0]
        where = f", eps {epsilon(first.eps_claimed)}, trained on {first.trained_on}" if several else ""
        cells = [cell.name for cell in self.preset.cells]

        def figures(place: int, header: str) -> Column[_FigureLine]:
            return Column(header, lambda line: line.figures[place])

        columns: list[Column[_FigureLine]] = [
            Column("clicks", lambda line: line.clicks, "name"),
            Column("method", lambda line: line.method, "fold", narrow=method_lines),
            *(figures(place, header) for place, header in enumerate(("published", *cells))),
        ]
        return make_table(
            f"{self.preset.published.title}{where}: accuracy/precision/recall",
            columns,
            [
                line
                for name in dict.fromkeys(row.click_model for row in rows)
                for line in _lines(name, [row for row in rows if row.click_model == name], cells)
            ],
            caption=self._caption(rows),
            space=0,
            section=lambda line: line.section,
            spare=cells[:-1],
        )

    def _caption(self, rows: Sequence[AttackFigureRow]) -> str:
        folds = max(row.folds for row in rows)
        means = f"means of {folds} folds" if folds > 1 else "means"
        return (
            f"published: of {self.preset.published.data}; the others: {means} of {self.extent}\n"
            "lists without a guess do not count in the precision"
        )


def _setting(row: AttackFigureRow) -> tuple[str, str]:
    return row.trained_on, row.defense


def _lines(click_model: str, rows: Sequence[AttackFigureRow], cells: Sequence[str]) -> Iterator[_FigureLine]:
    """Method, published figures and those of each cell, for rows of one click model.

    An attack is in one line with the same attack with other parameters in the other cells.
    """
    clicks = click_model
    for name in dict.fromkeys(_name(row.method) for row in rows):
        mine = [row for row in rows if _name(row.method) == name]
        for line in zip_longest(*([row for row in mine if row.cell == cell] for cell in cells)):
            there = [row for row in line if row is not None]
            methods = {row.method for row in there}
            found = ("-" if row is None else row.found.text(3) for row in line)
            yield _FigureLine(
                section=click_model,
                clicks=clicks,
                method=methods.pop() if len(methods) == 1 else name,
                figures=(there[0].published.text(2), *found),
            )
            clicks = ""


def _name(method: str) -> str:
    """What a method is called whatever its parameters; random guesses differ by theirs."""
    return method if method.startswith(RANDOM) else method.partition(":")[0]


def _group_rows(preset: Preset, cell: str, group: RunGroup) -> Iterator[AttackFigureRow]:
    """Rows of the Specs of a cell that differ in fold and repetition only."""
    setting = group.setting
    sizes = [figures.method for figures in preset.published.attacks if figures.method.startswith(RANDOM)]
    for click_model in group.cells[0].attacks.evidence:
        runs = [(run.spec.data.fold, _with_click(run.attacks.evidence[click_model])) for run in group.cells]
        for method in dict.fromkeys((*sizes, *runs[0][1].guessed)):
            published = preset.published.of(method, click_model)
            if not all(_is_compared(method, lists, published) for _, lists in runs):
                continue
            found = _mean_of_folds([(fold, _click_figures(method, lists)) for fold, lists in runs])
            yield AttackFigureRow(
                cell=cell,
                method=method,
                click_model=click_model,
                trained_on=setting.trained_on,
                eps_claimed=setting.eps_claimed,
                defense=setting.defense,
                pdgd=setting.pdgd,
                folds=len({fold for fold, _ in runs}),
                lists=sum(int(lists.query.size) for _, lists in runs),
                found=found,
                published=UNPUBLISHED
                if published is None
                else ClickFigures(
                    accuracy=published.accuracy, precision=published.precision, recall=published.recall
                ),
            )


def _with_click(evidence: ClickEvidence) -> ClickEvidence:
    return evidence.at(evidence.has_click)


def _is_compared(method: str, lists: ClickEvidence, published: AttackFigures | None) -> bool:
    """Whether a method answered, and is no baseline that nothing was published on."""
    if method.startswith(RANDOM):
        return True
    return method in lists.guessed and (published is not None or method not in lists.baselines)


def _click_figures(method: str, lists: ClickEvidence) -> ClickFigures:
    """Means over lists with a click of one fold; NaN where no list defines one."""
    clicked = lists.clicks.sum(axis=1).astype(np.float64)
    length = lists.is_document.sum(axis=1).astype(np.float64)
    if method.startswith(RANDOM):  # expectations: which documents are named is independent of the clicks
        guessed = np.minimum(float(method.removeprefix(RANDOM)), length)
        hits = np.divide(guessed * clicked, length, out=np.zeros_like(length), where=length > 0)
    else:
        guess = lists.guessed[method].guess & lists.is_document
        guessed = guess.sum(axis=1).astype(np.float64)
        hits = (guess & lists.clicks).sum(axis=1).astype(np.float64)
    return ClickFigures(
        accuracy=_mean_ratio(length - clicked - guessed + 2 * hits, length),
        precision=_mean_ratio(hits, guessed),
        recall=_mean_ratio(hits, clicked),
    )


def _mean_ratio(numerator: Floats, denominator: Floats) -> float:
    """Mean quotient where the denominator is not 0."""
    there = denominator > 0
    return float((numerator[there] / denominator[there]).mean()) if there.any() else float("nan")


def _mean_of_folds(found: Sequence[tuple[int, ClickFigures]]) -> ClickFigures:
    """The mean over folds of each fold's mean over its repetitions; undefined ones do not count."""

    def mean(values: Sequence[tuple[int, float]]) -> float:
        by_fold: dict[int, list[float]] = {}
        for fold, value in values:
            if not np.isnan(value):
                by_fold.setdefault(fold, []).append(value)
        return float(np.mean([np.mean(mine) for mine in by_fold.values()])) if by_fold else float("nan")

    return ClickFigures(
        accuracy=mean([(fold, one.accuracy) for fold, one in found]),
        precision=mean([(fold, one.precision) for fold, one in found]),
        recall=mean([(fold, one.recall) for fold, one in found]),
    )


# --- other figures ---------------------------------------------------------------------------------

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
    def of(cls, preset: Preset, cells: Mapping[str, Sequence[Run]], extent: StudyExtent) -> FigureComparison:
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


def _found(cells: Sequence[Run], among: SpecRuns) -> Iterator[Fields]:
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
