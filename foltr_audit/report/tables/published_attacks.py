"""Published metrics of attacks compared with those that the cells of a preset found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.experiments.presets import RANDOM, AttackFigures, Preset
from foltr_audit.experiments.runner import RunResult
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.base import RunGroup, groups
from foltr_audit.report.results.published_extent import PresetComparison, StudyExtent
from foltr_audit.report.tables.columns import method_lines
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.formatting import epsilon, short
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from rich.console import Console


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
    def of(
        cls, preset: Preset, cells: Mapping[str, Sequence[RunResult]], extent: StudyExtent
    ) -> AttackComparison:
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
            found = _mean_of_folds([(fold, _metrics(method, lists)) for fold, lists in runs])
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


def _metrics(method: str, lists: ClickEvidence) -> ClickFigures:
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
