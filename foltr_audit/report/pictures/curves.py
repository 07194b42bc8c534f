"""Learning curves: offline and online nDCG@10 over the rounds, with marks where the leading intent changes.

A line is the mean over the repeated runs of one setting, its band one standard deviation above and below,
as in Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank", figures 2-6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE, OFFLINE_NDCG, ONLINE, ONLINE_NDCG
from foltr_audit.errors import UsageError
from foltr_audit.experiments.run import Run
from foltr_audit.report.pictures.style import COLOURS, FORMATS, save_picture
from foltr_audit.report.results.base import DatasetFacts, RunGroup, groups, setting_label
from foltr_audit.report.results.twins import (
    SPECIFIC,
    reference_specs,
    reference_values,
    runs_by_spec,
    specific_rankers,
)
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.formatting import json_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from foltr_audit.report.results.train import RoundRow, TrainReport


_NAMED = 6  # spans that have room for `intent 2`; more are `2`
_NUMBERED = 40  # spans that have room for `2`


class IntentSpan(NamedTuple):
    """A time in which one intent leads.

    Attributes:
        first, end: in rounds played.
        intent: the leading intent, from 1; None where none leads.
    """

    first: float
    end: float
    intent: int | None


def spans(cell: Run) -> tuple[IntentSpan, ...]:
    """The periods of a run; none where its leading intent does not change."""
    if cell.world.environment is None or not cell.world.environment.change_points:
        return ()
    periods, played, each = cell.world.environment.periods, len(cell.trained.rounds), cell.record.per_round
    ends = [*(period.end / each for period in periods[:-1]), float(played)]
    return tuple(
        IntentSpan(period.first / each, end, None if period.intent is None else period.intent + 1)
        for period, end in zip(periods, ends, strict=True)
    )


def mark_changes(axis: Axes, every: Sequence[tuple[IntentSpan, ...]]) -> None:
    """A vertical line at each change of each curve, and the intents on top where all curves agree on them."""
    different = list(dict.fromkeys(one for one in every if one))
    for x in sorted({span.first for one in different for span in one[1:]}):
        axis.axvline(x, color="#777777", linestyle=(0, (2, 2)), linewidth=0.9, zorder=1)
    if len(different) != 1 or len(different[0]) > _NUMBERED:
        return
    word = "intent " if len(different[0]) <= _NAMED else ""
    for span in different[0]:
        if span.intent is not None:
            axis.text(
                (span.first + span.end) / 2,
                1.0,
                f"{word}{span.intent}",
                transform=axis.get_xaxis_transform(),
                horizontalalignment="center",
                verticalalignment="bottom",
                fontsize=7.5,
                color="#555555",
            )
    axis.set_title(axis.get_title(), pad=16.0)


def insert_gaps(rounds: Ints, values: Floats, every: Sequence[IntentSpan]) -> tuple[Floats, Floats]:
    """A line (T,) with a gap, NaN, at each change."""
    changes = np.array([span.first for span in every[1:]])
    places = np.searchsorted(rounds, changes, side="right")
    return np.insert(rounds.astype(np.float64), places, changes), np.insert(values, places, np.nan)


PANELS = (OFFLINE_NDCG, ONLINE_NDCG)
"""The metrics that are drawn, one panel each."""

STYLES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
"""Styles of lines and marks of points, in the order of the colours."""

_MARKS = 10  # markers on a long line: one per point would hide it
_LEGEND = 120  # letters that fit side by side below the panels


@dataclass(frozen=True, kw_only=True, eq=False)
class LearningCurve:
    """A metric over the rounds of repeated runs; rounds without a value in any run are left out.

    Attributes:
        label: what is special about its setting.
        runs: number of repeated runs.
        rounds: how many rounds were played by then, int64 (T,).
        mean: over the runs, float64 (T,).
        deviation: standard deviation over the runs, divisor runs - 1, 0 for a single run; float64 (T,).
        part: which queries an offline metric is of.
        spans: when which intent leads; empty where that does not change.
        beside: number of the curve that it is compared with; None of a curve of its own.
        number: number of its colour and mark; None for its place among the curves.
    """

    label: str
    runs: int
    rounds: Ints
    mean: Floats
    deviation: Floats
    part: str = "the test split"
    spans: tuple[IntentSpan, ...] = ()
    beside: int | None = None
    number: int | None = None

    @classmethod
    def of(cls, label: str, group: RunGroup, metric: str) -> LearningCurve:
        """The curve of cells that are repetitions of each other."""
        values = np.array([_values(cell, metric) for cell in group.cells])
        first = group.cells[0]
        return cls.over(label, values, evaluated_on(first.trained.rounds), spans(first))

    @classmethod
    def over(
        cls,
        label: str,
        values: Floats,
        part: str,
        leading: tuple[IntentSpan, ...] = (),
        beside: int | None = None,
    ) -> LearningCurve:
        """The curve of values of each round, NaN where there is none, float64 (runs, rounds).

        `leading` are its `spans`.
        """
        there = ~np.isnan(values)
        count = there.sum(axis=0)
        kept = count > 0
        values, there, count = values[:, kept], there[:, kept], count[kept]
        mean = np.where(there, values, 0.0).sum(axis=0) / count
        squares = np.where(there, (values - mean) ** 2, 0.0).sum(axis=0)
        return cls(
            label=label,
            runs=len(there),
            rounds=np.flatnonzero(kept) + 1,
            mean=mean,
            deviation=np.sqrt(squares / np.maximum(count - 1, 1)),
            part=part,
            spans=leading,
            beside=beside,
        )


def curves(cells: Sequence[Run], metric: str) -> list[LearningCurve]:
    """One curve for each group of cells that differ in repetition and fold only.

    Rankers of one intent that others are compared with have no curve here: `reference_curves` has them.
    """
    found = _shown(cells)
    settings = [group.setting for group in found]
    return [LearningCurve.of(setting_label(group.setting, settings), group, metric) for group in found]


def reference_curves(cells: Sequence[Run], metric: str) -> list[LearningCurve]:
    """The curve of the trained twins of one intent, for each of the `curves` that has them.

    Source: Zhuang & Zuccon 2021, "How do online learning to rank methods adapt to changes of intent?",
    figures 2 to 4 (each twin in the periods of its intent) and figure 7 (one ranker per intent).
    """
    shown, among, found = _shown(cells), runs_by_spec(cells), []
    settings = [group.setting for group in shown]
    for number, group in enumerate(shown):
        values = [reference_values(cell, metric, among) for cell in group.cells]
        known = [each for each in values if each is not None]
        if known:
            first = group.cells[0]
            name = SPECIFIC if specific_rankers(first, among) else "its leading intent alone"
            label = f"{setting_label(group.setting, settings)}: {name}" if len(shown) > 1 else name
            part = evaluated_on(first.trained.rounds)
            found.append(LearningCurve.over(label, np.array(known), part, spans(first), beside=number))
    return found


def _shown(cells: Sequence[Run]) -> list[RunGroup]:
    hidden = reference_specs(cells)
    return groups([cell for cell in cells if cell.spec not in hidden])


def training_figure(report: TrainReport) -> Figure:
    """The learning curves of a report, without those of references and without marks of changes."""
    runs: dict[str, list[RoundRow]] = {}
    for row in report.rounds:
        runs.setdefault(f"{row.click_model} {json_text(row.setting.plain())}", []).append(row)
    settings = [rows[0].setting for rows in runs.values()]
    panels = {
        metric: [
            LearningCurve.over(
                setting_label(rows[0].setting, settings),
                _by_run(rows, metric),
                evaluated_on([dict(row.metrics) for row in rows]),
            )
            for rows in runs.values()
        ]
        for metric in PANELS
    }
    return draw(panels, report.dataset)


def _by_run(rows: Sequence[RoundRow], metric: str) -> Floats:
    """The values of a metric, NaN where there is none, float64 (runs, rounds)."""
    found: dict[int, list[float]] = {}
    for row in rows:
        value = row.value(metric)
        found.setdefault(row.run, []).append(np.nan if value is None else value)
    return np.array(list(found.values()))


def check_picture(path: Path, runs: Path | None = None) -> None:
    """Refuse a picture that could not be written, before anything is computed.

    Args:
        path: where the picture is to go.
        runs: the folder of the Runs, which holds nothing else.

    Raises:
        UsageError: its name ends in none of `FORMATS`, its folder is missing or that of the Runs, or it
            is a folder itself.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--plot: {path}: expected a name ending in .svg, .png or .pdf")
    if not path.parent.is_dir():
        raise UsageError(f"--plot: {path}: no such folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"--plot: {path} is a folder; expected the name of a file")
    if runs is not None and runs.resolve() in path.resolve().parents:
        raise UsageError(f"--plot: {path}: {runs} is reserved for Runs; expected a name outside of it")


def save_curves(path: Path, cells: Sequence[Run], dataset: DatasetFacts) -> None:
    """Draw the learning curves of some cells into a file; the same cells give the same bytes.

    Args:
        path: a name that `check_picture` accepts.
        cells: the runs, at least one.
        dataset: their data.

    Raises:
        FoltrAuditError: the file cannot be written.
    """
    panels = {metric: [*curves(cells, metric), *reference_curves(cells, metric)] for metric in PANELS}
    save_picture(path, lambda: draw(panels, dataset))


def draw(panels: Mapping[str, Sequence[LearningCurve]], dataset: DatasetFacts) -> Figure:
    """A figure with a panel for each metric; curves of one place in every panel share their line style."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    first = next(iter(panels.values()))
    columns = min(4, max(1, _LEGEND // (max(len(curve.label) for curve in first) + 10)))
    height = 4.0 + 0.2 * -(-(len(first) + 1) // columns)
    figure = Figure(figsize=(9.0, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    figure.suptitle(f"Learning curves on {dataset.title}", fontsize=11.0)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (metric, found) in zip(axes, panels.items(), strict=True):
        draw_panel(axis, metric, found)
    lines, _ = axes[0].get_legend_handles_labels()
    handles = [*lines, *_bands(first)]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(columns, len(handles)))
    return figure


def draw_panel(axis: Axes, metric: str, found: Sequence[LearningCurve]) -> None:
    """Curves of one metric on empty axes."""
    from matplotlib.ticker import MaxNLocator

    offline = metric in OFFLINE
    label = (OFFLINE if offline else ONLINE)[metric].label
    axis.set_title(
        f"offline: global model on {' or '.join(dict.fromkeys(curve.part for curve in found))}"
        if offline
        else "online: lists that users were shown"
    )
    axis.set_xlabel("rounds played")
    axis.set_ylabel(f"{'offline' if offline else 'online'} {label}")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    mark_changes(axis, [curve.spans for curve in found])
    for place, curve in enumerate(found):
        number = place if curve.number is None else curve.number
        if curve.beside is not None:
            x, y = insert_gaps(curve.rounds, curve.mean, curve.spans)
            colour = COLOURS[curve.beside % len(COLOURS)]
            axis.plot(x, y, label=curve.label, color=colour, linestyle="dashed", linewidth=1.0, zorder=2.5)
            continue
        colour = COLOURS[number % len(COLOURS)]
        axis.plot(
            curve.rounds,
            curve.mean,
            label=curve.label,
            color=colour,
            linestyle=STYLES[number % len(STYLES)],
            markeredgecolor="white",
            markeredgewidth=0.7,
            marker=MARKERS[number % len(MARKERS)],
            markevery=_marker_points(curve.rounds.size, number),
            zorder=3,
        )
        if curve.runs > 1:
            low, high = curve.mean - curve.deviation, curve.mean + curve.deviation
            axis.fill_between(curve.rounds, low, high, color=colour, alpha=0.18, linewidth=0)


def _marker_points(points: int, number: int) -> slice:
    """Which points of a long line carry its marker: about ten, shifted so that lines do not hide them."""
    step = max(points // _MARKS, 1)
    return slice(step * (number % 4) // 4, None, step)


def _bands(found: Sequence[LearningCurve]) -> list[Patch]:
    """The entry of the legend that says what lines and bands are; none where nothing was repeated."""
    from matplotlib.patches import Patch

    counts = sorted({curve.runs for curve in found})
    if counts == [1]:
        return []
    runs = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    text = f"mean ± one standard deviation, {runs} runs"
    return [Patch(facecolor="#777777", alpha=0.3, linewidth=0, label=text)]


def _values(cell: Run, metric: str) -> Floats:
    """A metric of every round, NaN where it was not taken, float64 (rounds,)."""
    return np.array([row.get(metric, np.nan) for row in cell.trained.rounds], dtype=np.float64)
