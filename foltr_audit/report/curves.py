"""Learning curves: offline and online nDCG@10 over the rounds, with marks where the leading intent changes.

A line is the mean over the repeated runs of one setting, its band one standard deviation above and below,
as in Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank", figures 2-6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE, OFFLINE_NDCG, ONLINE, ONLINE_NDCG
from foltr_audit.experiments.periods import (
    SPECIFIC,
    reference_specs,
    reference_values,
    runs_by_spec,
    specific_rankers,
)
from foltr_audit.experiments.run import Run
from foltr_audit.report.documents import Row
from foltr_audit.report.picture_style import COLOURS, DIM, STYLES, THIN, look, new_figure
from foltr_audit.report.settings import data_title, pools, setting_label
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.utils.arrays import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (OFFLINE_NDCG, ONLINE_NDCG)
"""The metrics that are drawn, one panel each."""

_MARKS = 10  # markers on a long line: one per point would hide it
_LEGEND = 120  # letters that fit side by side below the panels
_NAMED = 6  # spans that have room for `intent 2`; more are `2`
_NUMBERED = 40  # spans that have room for `2`


class IntentSpan(NamedTuple):
    """A time, in rounds played, in which one intent leads (from 1; None: none leads)."""

    first: float
    end: float
    intent: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class LearningCurve:
    """A metric over the rounds of repeated runs; rounds without a value in any run are left out.

    Attributes:
        rounds: how many rounds were played by then, int64 (T,).
        mean: over the runs, float64 (T,).
        deviation: standard deviation over the runs, divisor runs - 1, 0 for a single run; float64 (T,).
        part: which queries an offline metric is of.
        spans: who leads when; none where the leading intent does not change.
        beside: number of the curve that it is compared with; None of a curve of its own.
    """

    label: str
    runs: int
    rounds: Ints
    mean: Floats
    deviation: Floats
    part: str = "the test split"
    spans: tuple[IntentSpan, ...] = ()
    beside: int | None = None

    @classmethod
    def over(cls, label: str, values: Floats, part: str, **more: Any) -> LearningCurve:
        """The curve of values of each round, NaN where there is none, float64 (runs, rounds)."""
        rounds = np.flatnonzero(~np.isnan(values).all(axis=0))
        values = values[:, rounds]
        count = (~np.isnan(values)).sum(axis=0)
        return cls(
            label=label,
            runs=len(values),
            rounds=rounds + 1,
            mean=np.nanmean(values, axis=0),
            deviation=np.nanstd(values, axis=0) * np.sqrt(count / np.maximum(count - 1, 1)),
            part=part,
            **more,
        )


def curves(runs: Sequence[Run], metric: str) -> list[LearningCurve]:
    """One curve for each group of runs that differ in repetition and fold only, then what they are beside.

    Rankers of one intent that a group is compared with have no curves of their own, but one together.

    Source: Zhuang & Zuccon 2021, "How do online learning to rank methods adapt to changes of intent?",
    figures 2 to 4 (each twin in the periods of its intent) and figure 7 (one ranker per intent).
    """
    hidden, among = reference_specs(runs), runs_by_spec(runs)
    shown = pools([run for run in runs if run.spec not in hidden])
    settings = [pool.setting for pool in shown]
    own, references = [], []
    for number, pool in enumerate(shown):
        first, label = pool.runs[0], setting_label(pool.setting, settings)
        part, spans = evaluated_on(first.trained.rounds), intent_spans(first)
        values = np.array([[row.get(metric, np.nan) for row in run.trained.rounds] for run in pool.runs])
        own.append(LearningCurve.over(label, values, part, spans=spans))
        compared = [reference_values(run, metric, among) for run in pool.runs]
        known = [values for values in compared if values is not None]
        if known:
            name = SPECIFIC if specific_rankers(first, among) else "its leading intent alone"
            label = f"{label}: {name}" if len(shown) > 1 else name
            references.append(LearningCurve.over(label, np.array(known), part, spans=spans, beside=number))
    return [*own, *references]


def intent_spans(run: Run) -> tuple[IntentSpan, ...]:
    environment, each = run.world.environment, run.record.per_round
    if environment is None or not environment.change_points:
        return ()
    periods, played = environment.periods, len(run.trained.rounds)
    ends = [*(period.end / each for period in periods[:-1]), float(played)]
    return tuple(
        IntentSpan(period.first / each, end, None if period.intent is None else period.intent + 1)
        for period, end in zip(periods, ends, strict=True)
    )


def draw(panels: Mapping[str, Sequence[LearningCurve]], dataset: Row) -> Figure:
    """A figure with a panel for each metric; curves of one place in every panel share their line style."""
    first = next(iter(panels.values()))
    columns = min(4, max(1, _LEGEND // (max(len(curve.label) for curve in first) + 10)))
    figure = new_figure(9.0, 4.0 + 0.2 * -(-(len(first) + 1) // columns))
    figure.suptitle(f"Learning curves on {data_title(dataset)}", fontsize=11.0)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (metric, drawn) in zip(axes, panels.items(), strict=True):
        _draw_panel(axis, metric, drawn)
    handles = [*axes[0].get_legend_handles_labels()[0], *_bands(first)]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(columns, len(handles)))
    return figure


def _draw_panel(axis: Axes, metric: str, drawn: Sequence[LearningCurve]) -> None:
    from matplotlib.ticker import MaxNLocator

    parts = " or ".join(dict.fromkeys(curve.part for curve in drawn))
    title = (
        f"offline: global model on {parts}" if metric in OFFLINE else "online: lists that users were shown"
    )
    axis.set_title(title)
    axis.set_xlabel("rounds played")
    kind, metrics = ("offline", OFFLINE) if metric in OFFLINE else ("online", ONLINE)
    axis.set_ylabel(f"{kind} {metrics[metric].label}")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _mark_changes(axis, drawn)
    for number, curve in enumerate(drawn):
        if curve.beside is None:
            _draw_curve(axis, curve, number)
        else:
            x, y = insert_gaps(curve.rounds, curve.mean, curve.spans)
            colour = COLOURS[curve.beside % len(COLOURS)]
            axis.plot(x, y, label=curve.label, color=colour, linestyle="dashed", linewidth=1.0, zorder=2.5)


def _draw_curve(axis: Axes, curve: LearningCurve, number: int) -> None:
    """A line with about ten marks, shifted so that lines do not hide them, and its band."""
    step = max(curve.rounds.size // _MARKS, 1)
    shape: dict[str, Any] = {**look(number), "linestyle": STYLES[number % len(STYLES)], "zorder": 3}
    edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.7}
    marked = slice(step * (number % 4) // 4, None, step)
    axis.plot(curve.rounds, curve.mean, label=curve.label, markevery=marked, **shape, **edge)
    if curve.runs > 1:
        low, high = curve.mean - curve.deviation, curve.mean + curve.deviation
        axis.fill_between(curve.rounds, low, high, color=shape["color"], alpha=0.18, linewidth=0)


def _mark_changes(axis: Axes, drawn: Sequence[LearningCurve]) -> None:
    """A vertical line at each change of each curve, and the intents on top where all curves agree on them."""
    different = list(dict.fromkeys(curve.spans for curve in drawn if curve.spans))
    for x in sorted({span.first for spans in different for span in spans[1:]}):
        axis.axvline(x, **THIN)
    if len(different) != 1 or len(different[0]) > _NUMBERED:
        return
    word = "intent " if len(different[0]) <= _NAMED else ""
    above: dict[str, Any] = {"transform": axis.get_xaxis_transform(), "ha": "center", "va": "bottom"}
    for span in different[0]:
        if span.intent is not None:
            x = (span.first + span.end) / 2
            axis.text(x, 1.0, f"{word}{span.intent}", fontsize=7.5, color="#555555", **above)
    axis.set_title(axis.get_title(), pad=16.0)


def insert_gaps(rounds: Ints, values: Floats, every: Sequence[IntentSpan]) -> tuple[Floats, Floats]:
    """A line (T,) with a gap, NaN, at each change."""
    changes = np.array([span.first for span in every[1:]])
    places = np.searchsorted(rounds, changes, side="right")
    return np.insert(rounds.astype(np.float64), places, changes), np.insert(values, places, np.nan)


def _bands(drawn: Sequence[LearningCurve]) -> list[Any]:
    """The entry of the legend that says what lines and bands are; none where nothing was repeated."""
    from matplotlib.patches import Patch

    counts = sorted({curve.runs for curve in drawn})
    if counts == [1]:
        return []
    runs = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    text = f"mean ± one standard deviation, {runs} runs"
    return [Patch(facecolor=DIM, alpha=0.3, linewidth=0, label=text)]
