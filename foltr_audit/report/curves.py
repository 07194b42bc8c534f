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
from foltr_audit.experiments.periods import (
    SPECIFIC,
    reference_specs,
    reference_values,
    runs_by_spec,
    specific_rankers,
)
from foltr_audit.experiments.run import Run
from foltr_audit.report.documents import Row
from foltr_audit.report.picture_style import COLOURS, FORMATS, save_picture
from foltr_audit.report.settings import Pool, by_setting, data_title, pools, setting_label
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

_NAMED = 6  # spans that have room for `intent 2`; more are `2`
_NUMBERED = 40  # spans that have room for `2`


class IntentSpan(NamedTuple):
    """A time, in rounds played, in which one intent leads (from 1; None: none leads)."""

    first: float
    end: float
    intent: int | None


def intent_spans(run: Run) -> tuple[IntentSpan, ...]:
    """The periods of a run; none where its leading intent does not change."""
    environment, each = run.world.environment, run.record.per_round
    if environment is None or not environment.change_points:
        return ()
    periods, played = environment.periods, len(run.trained.rounds)
    ends = [*(period.end / each for period in periods[:-1]), float(played)]
    return tuple(
        IntentSpan(period.first / each, end, None if period.intent is None else period.intent + 1)
        for period, end in zip(periods, ends, strict=True)
    )


def mark_changes(axis: Axes, every: Sequence[tuple[IntentSpan, ...]]) -> None:
    """A vertical line at each change of each curve, and the intents on top where all curves agree on them."""
    different = list(dict.fromkeys(spans for spans in every if spans))
    for x in sorted({span.first for spans in different for span in spans[1:]}):
        axis.axvline(x, color="#777777", linestyle=(0, (2, 2)), linewidth=0.9, zorder=1)
    if len(different) != 1 or len(different[0]) > _NUMBERED:
        return
    word = "intent " if len(different[0]) <= _NAMED else ""
    for span in different[0]:
        if span.intent is not None:
            x, above = (span.first + span.end) / 2, axis.get_xaxis_transform()
            text = axis.text(x, 1.0, f"{word}{span.intent}", transform=above, ha="center", va="bottom")
            text.set(fontsize=7.5, color="#555555")
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
        rounds: how many rounds were played by then, int64 (T,).
        mean: over the runs, float64 (T,).
        deviation: standard deviation over the runs, divisor runs - 1, 0 for a single run; float64 (T,).
        part: which queries an offline metric is of.
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
    def over(cls, label: str, values: Floats, part: str, **more: Any) -> LearningCurve:
        """The curve of values of each round, NaN where there is none, float64 (runs, rounds)."""
        known = ~np.isnan(values)
        count = known.sum(axis=0)
        kept = count > 0
        values, known, count = values[:, kept], known[:, kept], count[kept]
        mean = np.where(known, values, 0.0).sum(axis=0) / count
        squares = np.where(known, (values - mean) ** 2, 0.0).sum(axis=0)
        return cls(
            label=label,
            runs=len(known),
            rounds=np.flatnonzero(kept) + 1,
            mean=mean,
            deviation=np.sqrt(squares / np.maximum(count - 1, 1)),
            part=part,
            **more,
        )


def curves(runs: Sequence[Run], metric: str) -> list[LearningCurve]:
    """One curve for each group of runs that differ in repetition and fold only.

    Rankers of one intent that others are compared with have no curve here: `reference_curves` has them.
    """
    shown = _shown(runs)
    settings = [pool.setting for pool in shown]
    return [
        LearningCurve.over(
            setting_label(pool.setting, settings),
            np.array([[row.get(metric, np.nan) for row in run.trained.rounds] for run in pool.runs]),
            evaluated_on(pool.runs[0].trained.rounds),
            spans=intent_spans(pool.runs[0]),
        )
        for pool in shown
    ]


def reference_curves(runs: Sequence[Run], metric: str) -> list[LearningCurve]:
    """The curve of the trained twins of one intent, for each of the `curves` that has them.

    Source: Zhuang & Zuccon 2021, "How do online learning to rank methods adapt to changes of intent?",
    figures 2 to 4 (each twin in the periods of its intent) and figure 7 (one ranker per intent).
    """
    shown, among, references = _shown(runs), runs_by_spec(runs), []
    settings = [pool.setting for pool in shown]
    for number, pool in enumerate(shown):
        values = [reference_values(run, metric, among) for run in pool.runs]
        known = [each for each in values if each is not None]
        if known:
            first = pool.runs[0]
            name = SPECIFIC if specific_rankers(first, among) else "its leading intent alone"
            label = f"{setting_label(pool.setting, settings)}: {name}" if len(shown) > 1 else name
            part, spans = evaluated_on(first.trained.rounds), intent_spans(first)
            references.append(LearningCurve.over(label, np.array(known), part, spans=spans, beside=number))
    return references


def _shown(runs: Sequence[Run]) -> list[Pool]:
    hidden = reference_specs(runs)
    return pools([run for run in runs if run.spec not in hidden])


def training_figure(rounds: Sequence[Row], dataset: Row) -> Figure:
    """The learning curves of rows of rounds, without those of references and without marks of changes."""
    settings = by_setting(rounds)
    labels = [setting_label(rows[0].setting, [each[0].setting for each in settings]) for rows in settings]

    def values(rows: Sequence[Row], metric: str) -> Floats:
        runs = len({row["run"] for row in rows})
        return np.array([row.number(metric) for row in rows]).reshape(runs, -1)

    panels = {
        metric: [
            LearningCurve.over(label, values(rows, metric), evaluated_on(rows))
            for label, rows in zip(labels, settings, strict=True)
        ]
        for metric in PANELS
    }
    return draw(panels, dataset)


def check_picture(path: Path, runs: Path | None = None) -> None:
    """Refuse a picture that could not be written, before anything is computed.

    Raises:
        UsageError: its name ends in none of `FORMATS`, its folder is missing or that of the `runs`, which
            holds nothing else, or it is a folder itself.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--plot: {path}: expected a name ending in .svg, .png or .pdf")
    if not path.parent.is_dir():
        raise UsageError(f"--plot: {path}: no such folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"--plot: {path} is a folder; expected the name of a file")
    if runs is not None and runs.resolve() in path.resolve().parents:
        raise UsageError(f"--plot: {path}: {runs} is reserved for Runs; expected a name outside of it")


def save_curves(path: Path, runs: Sequence[Run], dataset: Row) -> None:
    """Draw the learning curves of one or more runs into a file; the same runs give the same bytes.

    Raises:
        FoltrAuditError: the file cannot be written.
    """
    panels = {metric: [*curves(runs, metric), *reference_curves(runs, metric)] for metric in PANELS}
    save_picture(path, lambda: draw(panels, dataset))


def draw(panels: Mapping[str, Sequence[LearningCurve]], dataset: Row) -> Figure:
    """A figure with a panel for each metric; curves of one place in every panel share their line style."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    first = next(iter(panels.values()))
    columns = min(4, max(1, _LEGEND // (max(len(curve.label) for curve in first) + 10)))
    height = 4.0 + 0.2 * -(-(len(first) + 1) // columns)
    figure = Figure(figsize=(9.0, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    figure.suptitle(f"Learning curves on {data_title(dataset)}", fontsize=11.0)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (metric, drawn) in zip(axes, panels.items(), strict=True):
        draw_panel(axis, metric, drawn)
    lines, _ = axes[0].get_legend_handles_labels()
    handles = [*lines, *_bands(first)]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(columns, len(handles)))
    return figure


def draw_panel(axis: Axes, metric: str, drawn: Sequence[LearningCurve]) -> None:
    """Curves of one metric on empty axes."""
    from matplotlib.ticker import MaxNLocator

    offline = metric in OFFLINE
    label = (OFFLINE if offline else ONLINE)[metric].label
    parts = " or ".join(dict.fromkeys(curve.part for curve in drawn))
    axis.set_title(f"offline: global model on {parts}" if offline else "online: lists that users were shown")
    axis.set_xlabel("rounds played")
    axis.set_ylabel(f"{'offline' if offline else 'online'} {label}")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    mark_changes(axis, [curve.spans for curve in drawn])
    for place, curve in enumerate(drawn):
        if curve.beside is not None:
            x, y = insert_gaps(curve.rounds, curve.mean, curve.spans)
            colour = COLOURS[curve.beside % len(COLOURS)]
            axis.plot(x, y, label=curve.label, color=colour, linestyle="dashed", linewidth=1.0, zorder=2.5)
            continue
        number = place if curve.number is None else curve.number
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
            markevery=_marked(curve.rounds.size, number),
            zorder=3,
        )
        if curve.runs > 1:
            low, high = curve.mean - curve.deviation, curve.mean + curve.deviation
            axis.fill_between(curve.rounds, low, high, color=colour, alpha=0.18, linewidth=0)


def _marked(points: int, number: int) -> slice:
    """Which points of a long line carry its marker: about ten, shifted so that lines do not hide them."""
    step = max(points // _MARKS, 1)
    return slice(step * (number % 4) // 4, None, step)


def _bands(drawn: Sequence[LearningCurve]) -> list[Patch]:
    """The entry of the legend that says what lines and bands are; none where nothing was repeated."""
    from matplotlib.patches import Patch

    counts = sorted({curve.runs for curve in drawn})
    if counts == [1]:
        return []
    runs = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    text = f"mean ± one standard deviation, {runs} runs"
    return [Patch(facecolor="#777777", alpha=0.3, linewidth=0, label=text)]
