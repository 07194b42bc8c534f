"""Published metrics of attacks compared with those that the cells of a preset found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape

from foltr_audit.experiments.presets import RANDOM, AttackFigures, Preset
from foltr_audit.experiments.runner import RunResult
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.report.results.base import Row, RunGroup, groups
from foltr_audit.report.results.published_extent import PresetComparison, StudyExtent
from foltr_audit.report.tables.layout import Column, method_text, print_fitting, rows_table, text_column
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

COMPARED = ("accuracy", "precision", "recall")
"""What is compared: means over lists with a click; lists without a guess do not count in the precision."""

Metrics = dict[str, float]


class AttackComparison(PresetComparison):
    """Published figures of attacks beside those found, averaged alike: means of folds, then their mean.

    There is one row per cell of the preset, setting, click model and method.
    """

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
            less = [escape(cell.name) for cell in self.preset.cells[:-1]]
            build = partial(self._table, rows, several=len(settings) > 1)
            print_fitting(build, less, console)
            console.print()

    def _table(self, rows: Sequence[Row], narrow: bool, *, several: bool) -> Table:
        first = rows[0]
        where = f", eps {epsilon(first['eps_claimed'])}, trained on {first['trained_on']}" if several else ""
        cells = [cell.name for cell in self.preset.cells]
        lines: list[Row] = []
        for click_model in dict.fromkeys(row["click_model"] for row in rows):
            mine = [row for row in rows if row["click_model"] == click_model]
            for number, line in enumerate(_lines(mine, cells)):
                clicks = "" if number else click_model
                lines.append({"section": click_model, "clicks": clicks, **line})
        return rows_table(
            escape(f"{self.preset.published.title}{where}: accuracy/precision/recall"),
            self._caption(rows),
            [
                text_column("clicks", "clicks", "name"),
                Column(
                    "method",
                    lambda line: method_text(line["method"], narrow=narrow),
                    "line" if narrow else "fold",
                ),
                *(text_column(escape(name), name, "number") for name in ("published", *cells)),
            ],
            lines,
            space=0,
            section=lambda line: line["section"],
        )

    def _caption(self, rows: Sequence[Row]) -> str:
        folds = max(row["folds"] for row in rows)
        means = f"means of {folds} folds" if folds > 1 else "means"
        return escape(
            f"published: of {self.preset.published.data}; the others: {means} of {self.extent}\n"
            "lists without a guess do not count in the precision"
        )


def _setting(row: Row) -> tuple[str, str]:
    return row["trained_on"], row["defense"]


def _lines(rows: Sequence[Row], cells: Sequence[str]) -> Iterator[Row]:
    """Method, published figures and those of each cell, for rows of one click model.

    An attack is in one line with the same attack with other parameters in the other cells.
    """
    for name in dict.fromkeys(_name(row["method"]) for row in rows):
        mine = [row for row in rows if _name(row["method"]) == name]
        per_cell = [[row for row in mine if row["cell"] == cell] for cell in cells]
        for line in zip_longest(*per_cell):
            there = [row for row in line if row is not None]
            methods = {row["method"] for row in there}
            published = {key: there[0][f"published_{key}"] for key in COMPARED}
            found = ["-" if row is None else _figures(row, 3) for row in line]
            yield {
                "method": methods.pop() if len(methods) == 1 else name,
                "published": _figures(published, 2),
                **dict(zip(cells, found, strict=True)),
            }


def _figures(row: Row, digits: int) -> str:
    if row["accuracy"] is None:
        return "-"
    return "/".join(short(row[name], digits) for name in COMPARED)


def _name(method: str) -> str:
    """What a method is called whatever its parameters; random guesses differ by theirs."""
    return method if method.startswith(RANDOM) else method.partition(":")[0]


def _group_rows(preset: Preset, cell: str, group: RunGroup) -> Iterator[Row]:
    """Rows of the Specs of a cell that differ in fold and repetition only."""
    setting = {name: group.setting[name] for name in ("trained_on", "eps_claimed", "defense", "pdgd")}
    sizes = [figures.method for figures in preset.published.attacks if figures.method.startswith(RANDOM)]
    for click_model in group.cells[0].attacks.evidence:
        runs = [(run.spec.data.fold, _with_click(run.attacks.evidence[click_model])) for run in group.cells]
        for method in dict.fromkeys((*sizes, *runs[0][1].guessed)):
            published = preset.published.of(method, click_model)
            if not all(_is_compared(method, lists, published) for _, lists in runs):
                continue
            found = [(fold, _metrics(method, lists)) for fold, lists in runs]
            yield {
                "cell": cell,
                "method": method,
                "click_model": click_model,
                **setting,
                "folds": len({fold for fold, _ in found}),
                "lists": sum(int(lists.query.size) for _, lists in runs),
                **{name: _mean_of_folds([(fold, one[name]) for fold, one in found]) for name in COMPARED},
                **{f"published_{name}": getattr(published, name, None) for name in COMPARED},
            }


def _with_click(evidence: ClickEvidence) -> ClickEvidence:
    return evidence.at(evidence.has_click)


def _is_compared(method: str, lists: ClickEvidence, published: AttackFigures | None) -> bool:
    """Whether a method answered, and is no baseline that nothing was published on."""
    if method.startswith(RANDOM):
        return True
    return method in lists.guessed and (published is not None or method not in lists.baselines)


def _metrics(method: str, lists: ClickEvidence) -> Metrics:
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
    return {
        "accuracy": _mean_ratio(length - clicked - guessed + 2 * hits, length),
        "precision": _mean_ratio(hits, guessed),
        "recall": _mean_ratio(hits, clicked),
    }


def _mean_ratio(numerator: Floats, denominator: Floats) -> float:
    """Mean quotient where the denominator is not 0."""
    there = denominator > 0
    return float((numerator[there] / denominator[there]).mean()) if there.any() else float("nan")


def _mean_of_folds(values: Sequence[tuple[int, float]]) -> float:
    """The mean over folds of each fold's mean over its repetitions; undefined ones do not count."""
    by_fold: dict[int, list[float]] = {}
    for fold, value in values:
        if not np.isnan(value):
            by_fold.setdefault(fold, []).append(value)
    return float(np.mean([np.mean(mine) for mine in by_fold.values()])) if by_fold else float("nan")
