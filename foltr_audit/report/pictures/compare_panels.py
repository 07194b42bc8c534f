"""The pictures of a comparison: one panel for each question, for a page or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.report.pictures import compare_plots as pictures
from foltr_audit.report.pictures.compare_plots import GLYPHS, MEASURES, RULED_OUT, SeriesStyle
from foltr_audit.report.pictures.curves import PANELS, LearningCurve, draw_panel
from foltr_audit.report.pictures.style import save_picture
from foltr_audit.report.render.document import LegendKey
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import CompareRow, CurveRow
from foltr_audit.report.results.compare_worlds import WorldRows, epsilons, families, worlds
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.3
"""Inches of a panel."""

_LARGE, _MIDDLE = 4.4, 2.9  # inches, heights of panels
_LEGEND = 90  # letters that fit side by side in the narrowest figure


class PanelPlot(NamedTuple):
    """One panel that can be drawn.

    Attributes:
        title: what it shows, in few words.
        draw: draws it on empty axes.
        height: in inches.
    """

    title: str
    draw: Callable[[Axes], None]
    height: float = _MIDDLE


def figure_of(panel: PanelPlot, width: float = WIDTH) -> Figure:
    """A figure of one panel, without its title."""
    figure = _figure(width, panel.height)
    panel.draw(figure.subplots())
    return figure


def trade_offs(report: CompareReport) -> Iterator[PanelPlot]:
    """Attack against utility, a panel for each world where both are known of something."""
    names = families(report)
    for world in worlds(report):
        rows = [row for row in world.results if row.tested]
        if rows:
            yield PanelPlot(
                world.name or "All defenses",
                lambda axis, rows=rows: pictures.draw_trade_off(axis, rows, names),  # type: ignore[misc]
                _LARGE,
            )


def by_epsilon(report: CompareReport) -> Iterator[PanelPlot]:
    """Precision, recall, AUC and nDCG@10 against epsilon: a panel for each world, learner and defense."""
    for world in worlds(report):
        for rows in world.by_learner():
            plain = next((row for row in rows if row.setting.alternative == NO_DEFENSE), None)
            for name, mine in _panels_of(rows):
                title = _title(name, world, mine[0].setting.learner)
                yield PanelPlot(
                    title,
                    lambda axis, mine=mine, plain=plain: pictures.draw_by_epsilon(axis, mine, plain),  # type: ignore[misc]
                )


def _panels_of(rows: Sequence[CompareRow]) -> Iterator[tuple[str, list[CompareRow]]]:
    """The rows of each defense with epsilons; all others together, unless only no defense is left."""
    if len(epsilons(rows)) < 2:
        yield "all defenses", list(rows)
        return
    with_eps = dict.fromkeys(row.setting.alternative for row in rows if row.setting.eps is not None)
    for name in with_eps:
        yield name, [row for row in rows if row.setting.alternative == name]
    others = [row for row in rows if row.setting.eps is None]
    if [row.setting.alternative for row in others] not in ([], [NO_DEFENSE]):
        yield "without an epsilon", others


def ladders(report: CompareReport) -> Iterator[PanelPlot]:
    """Every attack on each defense at the smallest epsilon."""
    for world in worlds(report):
        for row in at_smallest(world.results):
            rows = [one for one in world.attacks_on(row) if one.found.auc.known]
            if rows:
                yield PanelPlot(
                    _title(world.called(row), world),
                    lambda axis, rows=rows: pictures.draw_ladder(axis, rows),  # type: ignore[misc]
                    0.75 + 0.21 * len(rows),
                )


def learning(report: CompareReport) -> Iterator[PanelPlot]:
    """Learning curves, offline and online: for each world, learner and epsilon, with defenses without one."""
    names = families(report)
    for world in worlds(report):
        for learner in world.learners:
            rows = [row for row in world.curves if row.setting.learner == learner]
            known = [row.setting.eps for row in rows if row.setting.eps is not None]
            every: list[float | None] = [*dict.fromkeys(known)]
            every = every or [None]
            for eps, metric in product(every, PANELS):
                found = [_curve(row, metric, names) for row in rows if row.setting.eps in (None, eps)]
                name = metric.partition("_")[0] + ("" if eps is None else f", eps {epsilon(eps)}")
                yield PanelPlot(
                    _title(name, world, learner),
                    lambda axis, metric=metric, found=found: _draw_learning(axis, metric, found),  # type: ignore[misc]
                )


def _curve(row: CurveRow, metric: str, names: Sequence[str]) -> LearningCurve:
    values = np.array({ONLINE_NDCG: row.online, OFFLINE_NDCG: row.offline}[metric], dtype=np.float64)
    there = ~np.isnan(values)
    return LearningCurve(
        label=row.setting.name,
        runs=1,
        rounds=np.array(row.round, dtype=np.int64)[there] + 1,
        mean=values[there],
        deviation=np.zeros(int(there.sum())),
        number=names.index(row.setting.alternative),
    )


def _draw_learning(axis: Axes, metric: str, found: Sequence[LearningCurve]) -> None:
    draw_panel(axis, metric, found)
    axis.set_title("")


def group_bars(report: CompareReport) -> Iterator[PanelPlot]:
    """How much each group of clients leaks and how it is served, at the smallest epsilon."""
    for world in worlds(report):
        for row in at_smallest(world.results):
            title = _title(world.called(row), world)
            hit = [one.found for one in world.groups_of(row) if one.found.auc.own.known]
            if hit:
                values = {one.group: one.auc.own.value for one in hit}
                yield _bars(f"attacked: {title}", values, hit[0].auc.everybody, f"AUC of {row.attack}")
            served = {
                one.group: one.online_mean for one in world.served_under(row) if not isnan(one.online_mean)
            }
            if served:
                everybody = row.online_mean.value if row.online_mean.known else None
                yield _bars(f"served: {title}", served, everybody, "online nDCG@10")


def _bars(title: str, values: Mapping[str, float], everybody: float | None, label: str) -> PanelPlot:
    everybody = None if everybody is None or isnan(everybody) else everybody
    return PanelPlot(
        title,
        lambda axis: pictures.draw_groups(axis, list(values), list(values.values()), everybody, label),
        0.8 + 0.42 * len(values),
    )


def at_smallest(rows: Sequence[CompareRow]) -> list[CompareRow]:
    """The rows of the smallest epsilon, and those without one."""
    return [row for row in rows if row.setting.eps in (None, *epsilons(rows)[:1])]


def _title(name: str, world: WorldRows, learner: str = "") -> str:
    first = [world.learners[learner]] if learner and len(world.learners) > 1 else []
    return ", ".join([*first, name, *([world.name] if world.name else [])])


def defense_keys(report: CompareReport) -> list[LegendKey]:
    """What colours and marks of defenses mean."""
    return [LegendKey(SeriesStyle(n).glyph, n, name) for n, name in enumerate(families(report))]


def measure_keys() -> list[LegendKey]:
    """What colours and marks of measures mean."""
    return [
        *(LegendKey(GLYPHS[number], number, label) for number, label in enumerate(MEASURES)),
        LegendKey("▒", None, RULED_OUT),
    ]


def draw_comparison(path: Path, report: CompareReport) -> None:
    """Draw attack against utility, and both against epsilon, into one file; same results, same bytes.

    Args:
        path: a name that `curves.check_picture` accepts.
        report: the comparison.

    Raises:
        FoltrAuditError: the file cannot be written.
    """
    save_picture(path, lambda: comparison_figure(report))


def comparison_figure(report: CompareReport) -> Figure:
    """One figure with the panels of `trade_offs` and `by_epsilon`, and their legends."""
    first, second = list(trade_offs(report)), list(by_epsilon(report))
    columns = min(3, max(len(first), len(second), 1))
    lines = [-(-len(panels) // columns) for panels in (first, second)]
    height = lines[0] * _LARGE + lines[1] * (_MIDDLE + 0.2) + 1.0
    figure = _figure(max(WIDTH * columns, 7.0), max(height, 2.0))
    on = f" on {report.dataset.title}" if report.dataset else ""
    done = "" if report.results else ": no cell is done"
    figure.suptitle(f"Defenses{on}{done}", fontsize=11.0)
    parts = [(panels, n) for panels, n in zip((first, second), lines, strict=True) if panels]
    if not parts:
        return figure
    ratios = [n * panels[0].height for panels, n in parts]
    for part, (panels, n) in zip(
        figure.subfigures(len(parts), 1, height_ratios=ratios, squeeze=False)[:, 0], parts, strict=True
    ):
        axes = part.subplots(n, min(columns, len(panels)), squeeze=False).ravel()
        for axis, panel in zip(axes, panels, strict=False):
            panel.draw(axis)
            axis.set_title(panel.title)
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        keys = defense_keys(report) if panels is first else measure_keys()
        part.legend(handles=_handles(keys), loc="outside lower center", ncols=_beside(keys), handlelength=1.0)
    return figure


def _handles(keys: Sequence[LegendKey]) -> list[object]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    found: list[object] = []
    for key in keys:
        if key.colour is None:
            found.append(Patch(color=pictures.DIM, alpha=0.3, linewidth=0, label=key.text))
            continue
        look = SeriesStyle(key.colour)
        found.append(Line2D([], [], linestyle="none", marker=look.marker, color=look.colour, label=key.text))
    return found


def _beside(keys: Sequence[LegendKey]) -> int:
    """How many entries of a legend stand side by side."""
    return max(1, min(len(keys), _LEGEND // (max(len(key.text) for key in keys) + 5)))


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
