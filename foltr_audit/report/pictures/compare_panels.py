"""Pictures of a comparison: each plot, and the panels of its page.

Colours and marks are those of a defense, whatever its epsilon, and the same in every picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.report.curves import MARKERS, PANELS, STYLES, LearningCurve, draw_panel
from foltr_audit.report.pictures.style import COLOURS, save_picture
from foltr_audit.report.render.document import LegendKey
from foltr_audit.report.results.compare_rows import CHANCE, ComparedAttackRow, CompareRow, CurveRow
from foltr_audit.report.results.compare_summary import WorldRows, epsilons, families, worlds
from foltr_audit.report.results.wording import short_method
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from foltr_audit.report.results.compare import CompareReport


DIM = "#777777"
GLYPHS = ("●", "■", "▲", "◆", "▼", "✚", "✖", "◀")
"""The marks of `MARKERS` as letters, for legends in words."""

_LABEL_SIZE, _AWAY = 7.5, 7.0  # points, height of the letters of labels, and how far they are from points

MEASURES: dict[str, Callable[[CompareRow], Estimate]] = {
    "precision": lambda row: row.precision,
    "recall": lambda row: row.recall,
    "nDCG@10": lambda row: row.ndcg,
    "AUC": lambda row: row.auc,
}
"""What is drawn against epsilon."""

RULED_OUT = "AUC ruled out by proof (equal priors)"
"""What the shade says: of documents that are equally likely clicked."""

_TOP = 1.03  # upper end of the axis of measures
_SHADE = 0.13  # opacity of what is ruled out, so that grid and marks are seen through it


class SeriesStyle(NamedTuple):
    """Colour and mark of a defense or measure."""

    number: int

    @property
    def colour(self) -> str:
        """A colour of `COLOURS`."""
        return COLOURS[self.number % len(COLOURS)]

    @property
    def marker(self) -> str:
        """A mark of matplotlib."""
        return MARKERS[self.number % len(MARKERS)]

    @property
    def glyph(self) -> str:
        """The mark as a letter."""
        return GLYPHS[self.number % len(GLYPHS)]


class PointLabel(NamedTuple):
    """A point in data coordinates, and its label."""

    x: float
    y: float
    text: str
    colour: str


def place_labels(axis: Axes, labels: Sequence[PointLabel]) -> None:
    """Write each label at the nearest free height beside its point; fixes the limits of the axes.

    Sizes are estimates, in points: matplotlib measures letters only when it draws them.
    """
    axis.set_xlim(axis.get_xlim())
    axis.set_ylim(axis.get_ylim())
    figure = axis.get_figure(root=True)
    unit = 1.0 if figure is None else 72 / figure.dpi
    points = unit * axis.transData.transform([label[:2] for label in labels])
    taken = [_Box(x - 4.0, y - 4.0, x + 4.0, y + 4.0) for x, y in points.tolist()]
    low, high, border = (unit * float(end) for end in (axis.bbox.y0, axis.bbox.y1, axis.bbox.x1))
    for label, (x, y) in zip(labels, points.tolist(), strict=True):
        lines = label.text.split("\n")
        width, height = _LABEL_SIZE * 0.62 * max(map(len, lines)), _LABEL_SIZE * 1.25 * len(lines)
        heights = [y - height / 2, *(box.top for box in taken), *(box.bottom - height for box in taken)]
        inside = [bottom for bottom in heights if low <= bottom <= high - height] or heights[:1]
        sides = [x + _AWAY] if x + _AWAY + width < border else []
        places = [
            _Box(left, bottom, left + width, bottom + height)
            for bottom in sorted(inside, key=lambda bottom: abs(bottom - heights[0]))
            for left in (*sides, x - _AWAY - width)
        ]
        box = next((box for box in places if not any(map(box.meets, taken))), places[0])
        taken.append(box)
        right = box.left > x
        axis.annotate(
            label.text,
            label[:2],
            (_AWAY if right else -_AWAY, box.bottom + height / 2 - y),
            textcoords="offset points",
            fontsize=_LABEL_SIZE,
            horizontalalignment="left" if right else "right",
            verticalalignment="center",
            arrowprops={
                "arrowstyle": "-",
                "color": label.colour,
                "linewidth": 0.8,
                "shrinkA": 0.0,
                "shrinkB": 4.0,
                "relpos": (0.0 if right else 1.0, 0.5),
            },
            zorder=4,
        )


class _Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: _Box) -> bool:
        beside = self.left < other.right and other.left < self.right
        return beside and self.bottom < other.top and other.bottom < self.top


def draw_trade_off(axis: Axes, rows: Sequence[CompareRow], families: Sequence[str]) -> None:
    """What each defense leaks and what it keeps: AUC of the best attack against nDCG@10.

    Args:
        axis: an empty one.
        rows: results of one world.
        families: names of the defenses, in the order of their colours.
    """
    rows = [row for row in rows if row.tested]
    front = sorted((row.auc.value, row.ndcg.value) for row in rows if row.pareto)
    x, y = [max(auc, CHANCE) for auc, _ in front], [ndcg for _, ndcg in front]
    axis.axvline(CHANCE, color=DIM, linestyle=(0, (2, 2)), linewidth=0.9, zorder=1)
    axis.plot(x, y, color=DIM, linewidth=4.0, alpha=0.35, solid_capstyle="round", zorder=1.5)
    labels = []
    for row in rows:
        look, auc, ndcg = SeriesStyle(families.index(row.setting.alternative)), row.auc, row.ndcg
        bar = {"color": look.colour, "alpha": 0.5, "linewidth": 0.8, "zorder": 2.0}
        if auc.ci95 is not None:
            axis.plot(auc.ci95, [ndcg.value] * 2, **bar)  # type: ignore[arg-type]
        if ndcg.ci95 is not None:
            axis.plot([auc.value] * 2, ndcg.ci95, **bar)  # type: ignore[arg-type]
        _draw_point(axis, auc.value, ndcg.value, look.marker, look.colour, filled=bool(row.pareto))
        _draw_promise(axis, row, look.colour)
        labels.append(PointLabel(auc.value, ndcg.value, _label(row, rows), look.colour))
    axis.set_xlabel("AUC of the best attack (lower is more private)")
    axis.set_ylabel("offline nDCG@10 (higher is better)")
    if rows:
        axis.margins(0.12, 0.16)
        place_labels(axis, labels)


def _draw_promise(axis: Axes, row: CompareRow, colour: str) -> None:
    """A stroke at the largest AUC that the proof leaves to attacks, and a dotted line to it."""
    if row.ceiling_auc is None:
        return
    ndcg = row.ndcg.value
    look: dict[str, Any] = {"color": colour, "linewidth": 0.9, "zorder": 1.8}
    axis.plot([row.auc.value, row.ceiling_auc], [ndcg, ndcg], linestyle=(0, (1, 2)), **look)
    axis.plot([row.ceiling_auc], [ndcg], marker="|", markersize=9.0, markeredgewidth=1.6, **look)


def _draw_point(axis: Axes, x: float, y: float, marker: str, colour: str, *, filled: bool) -> None:
    face = colour if filled else "#ffffff"
    look: dict[str, Any] = {"linestyle": "none", "marker": marker, "markeredgewidth": 1.3, "zorder": 3}
    axis.plot([x], [y], color=face, markeredgecolor=colour, **look)


def _label(row: CompareRow, rows: Sequence[CompareRow]) -> str:
    """What tells a point from others of its colour: its epsilon; its name where all have one epsilon."""
    eps = row.setting.eps
    return epsilon(eps) if eps is not None and len(epsilons(rows)) > 1 else _broken(row)


def _broken(row: CompareRow) -> str:
    """The name of a defense, broken into lines."""
    return row.setting.alternative.replace("+", "\n+ ")


def draw_by_epsilon(axis: Axes, rows: Sequence[CompareRow], plain: CompareRow | None) -> None:
    """Precision, recall and AUC of the best attack, and nDCG@10, against the claimed epsilon.

    Where an AUC of attacks is proven, the AUCs above it are shaded.

    Args:
        axis: an empty one.
        rows: results of a world and learner: of one defense with several epsilons, or of several defenses,
            which then have a place each by their names.
        plain: the result without a defense, which gets the last place.
    """
    settings = [row.setting for row in rows]
    among = len({one.alternative for one in settings}) == 1 and all(one.eps is not None for one in settings)
    rows = sorted(rows, key=lambda row: row.setting.eps or 0.0) if among else list(rows)
    shown = [*rows, *([plain] if plain is not None and plain not in rows else [])]
    for number, label in enumerate(MEASURES):
        _draw_measure(axis, shown, label, SeriesStyle(number), joined=len(rows) if among else 0)
    for place, row in enumerate(shown):
        if row.ceiling_auc is not None:
            high = _TOP - row.ceiling_auc
            axis.bar(place, high, 1.0, row.ceiling_auc, color=DIM, alpha=_SHADE, linewidth=0, zorder=0.5)
            axis.plot([place - 0.5, place + 0.5], [row.ceiling_auc] * 2, color=DIM, linewidth=0.9, zorder=1)
    if among:
        every = [row.setting.eps for row in shown]
        axis.set_xticks(range(len(shown)), ["none" if eps is None else epsilon(eps) for eps in every])
        axis.set_xlabel("claimed epsilon")
    else:
        names = [_broken(row) for row in shown]
        slope: dict[str, Any] = {"rotation": 35, "rotation_mode": "anchor", "horizontalalignment": "right"}
        axis.set_xticks(range(len(shown)), names, fontsize=7.0, **(slope if len(shown) > 2 else {}))
    axis.set_xlim(-0.5, len(shown) - 0.5)
    axis.set_ylim(-0.03, _TOP)
    axis.grid(visible=False, axis="x")


def _draw_measure(
    axis: Axes, rows: Sequence[CompareRow], label: str, look: SeriesStyle, *, joined: int
) -> None:
    """One measure of each row with its interval, at the row's number; the first `joined` rows by a line."""
    shift = 0.09 * (look.number - 1.5)
    values = [MEASURES[label](row) for row in rows]
    found = [(place, value) for place, value in enumerate(values) if value.known]
    x, y = [place + shift for place, _ in found], [value.value for _, value in found]
    line = sum(place < joined for place, _ in found)  # those with an epsilon come first
    axis.plot(x[:line], y[:line], color=look.colour, linestyle=STYLES[look.number], zorder=2.5)
    axis.plot(
        x,
        y,
        linestyle="none",
        marker=look.marker,
        color=look.colour,
        markeredgecolor="#ffffff",
        markeredgewidth=0.7,
        label=label,
        zorder=3,
    )
    for place, value in found:
        if value.ci95 is not None:
            axis.plot([place + shift] * 2, value.ci95, color=look.colour, alpha=0.6, linewidth=0.9, zorder=2)


def draw_ladder(axis: Axes, rows: Sequence[ComparedAttackRow]) -> None:
    """AUC of every attack on one defense with its interval, highest on top; baselines hollow."""
    rows = sorted(
        (row for row in rows if row.found.auc.known), key=lambda row: (row.found.auc.value, not row.baseline)
    )
    axis.axvline(CHANCE, color=DIM, linestyle=(0, (2, 2)), linewidth=0.9, zorder=1)
    for place, row in enumerate(rows):
        colour, auc = DIM if row.baseline else COLOURS[1], row.found.auc
        if auc.ci95 is not None:
            axis.plot(auc.ci95, [place, place], color=colour, linewidth=1.4, alpha=0.6, zorder=2)
        marker = "o" if row.baseline else "D"
        _draw_point(axis, auc.value, place, marker, colour, filled=not row.baseline)
    axis.set_yticks(range(len(rows)), [short_method(row.method) for row in rows])
    axis.set_ylim(-0.7, max(len(rows), 1) - 0.3)
    low = min([CHANCE, *(row.found.auc.value for row in rows)])
    axis.set_xlim(min(0.45, low - 0.05), 1.02)
    axis.set_xlabel("AUC")
    axis.grid(visible=False, axis="y")


def draw_groups(
    axis: Axes, names: Sequence[str], values: Sequence[float], everybody: float | None, label: str
) -> None:
    """A bar for each group of clients, the first on top.

    Args:
        axis: an empty one.
        names: of the groups.
        values: one each.
        everybody: the value of all clients, as a line; None where it is not known.
        label: what the values are.
    """
    places = np.arange(len(names))[::-1]
    axis.barh(places, values, height=0.6, color=COLOURS[0], zorder=2)
    for place, value in zip(places, values, strict=True):
        axis.text(value, place, f" {value:.3f}", verticalalignment="center", fontsize=8.0, zorder=4)
    if everybody is not None:
        axis.axvline(everybody, color=COLOURS[1], linewidth=1.4, zorder=3)
    axis.set_yticks(places, [_wrapped(name) for name in names])
    axis.set_xlim(0.0, 1.18 * max([*values, everybody or 0.0, 0.1]))
    axis.set_xlabel(label)
    axis.grid(visible=False, axis="y")


def _wrapped(text: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, 18)[:3])


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
                lambda axis, rows=rows: draw_trade_off(axis, rows, names),  # type: ignore[misc]
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
                    lambda axis, mine=mine, plain=plain: draw_by_epsilon(axis, mine, plain),  # type: ignore[misc]
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
                    lambda axis, rows=rows: draw_ladder(axis, rows),  # type: ignore[misc]
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
        lambda axis: draw_groups(axis, list(values), list(values.values()), everybody, label),
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
            found.append(Patch(color=DIM, alpha=0.3, linewidth=0, label=key.text))
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
