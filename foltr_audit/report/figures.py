"""The picture of each report, from the rows of its document.

Colours and marks are those of a defense, whatever its epsilon, and the same in every panel.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.experiments.presets import RANDOM
from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.privacy.observer_views import with_article
from foltr_audit.report.documents import Row
from foltr_audit.report.picture_style import COLOURS, DIM, STYLES, THIN, look, new_figure
from foltr_audit.report.settings import setting_label, short_scenario
from foltr_audit.report.table import short_method
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

_CHANCE = 0.5  # the AUC of a coin
_WIDTH, _LINE = 4.6, 0.24  # inches: of a panel, of a line in it


class Panel(NamedTuple):
    """One panel: its title, and what draws it on empty axes."""

    title: str
    draw: Callable[[Axes], None]


def _grid(panels: Sequence[Panel]) -> tuple[int, int]:
    """Lines and columns of panels, at most three side by side."""
    columns = max(1, min(3, len(panels)))
    return max(1, -(-len(panels) // columns)), columns


def _draw_panels(figure: FigureBase, panels: Sequence[Panel]) -> None:
    axes = figure.subplots(*_grid(panels), squeeze=False).ravel()
    for axis, panel in zip_longest(axes, panels):
        if panel is None:
            axis.set_axis_off()
        else:
            panel.draw(axis)
            axis.set_title(panel.title)


def _draw_points(axis: Axes, points: Iterable[tuple[float, float]], **style: Any) -> None:
    """The points whose coordinates are both finite, joined if a style of lines is given."""
    known = [point for point in points if all(map(math.isfinite, point))]
    axis.plot([x for x, _ in known], [y for _, y in known], **{"linestyle": "none", **style})


def _draw_estimate(axis: Axes, x: Estimate, y: Estimate, colour: str, marker: str, *, filled: bool) -> None:
    """A point with its intervals."""
    bar: dict[str, Any] = {"color": colour, "alpha": 0.55, "linewidth": 1.0, "zorder": 2}
    if x.ci95 is not None:
        axis.plot(x.ci95, [y.value] * 2, **bar)
    if y.ci95 is not None:
        axis.plot([x.value] * 2, y.ci95, **bar)
    edge: dict[str, Any] = {"markeredgecolor": colour, "markeredgewidth": 1.3, "zorder": 3}
    _draw_points(axis, [(x.value, y.value)], marker=marker, color=colour if filled else "#ffffff", **edge)


def _name_lines(axis: Axes, names: Sequence[str]) -> None:
    """Names of the lines of a panel, the first on top."""
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(max(len(names), 1) - 0.3, -0.7)


def _in_lines(title: str, width: int = 44) -> str:
    """A title in lines that fit a panel."""
    return "\n".join(textwrap.wrap(title.replace("+", "+ "), width)).replace("+ ", "+")


def _differ(rows: Sequence[Row], name: str) -> bool:
    return len({row[name] for row in rows}) > 1


def attack_figure(rows: Sequence[Row]) -> Figure:
    """The AUC of every attack and guess, highest on top, a panel for each world and system.

    Random guesses are the dotted line at .5.
    """
    settings = [row.setting for row in rows]
    several = len({repr(setting) for setting in settings}) > 1
    worlds = [_world(row) for row in rows]
    ladders: dict[str, list[Row]] = {}
    for row, world in zip(rows, worlds, strict=True):
        names = [world] if len(set(worlds)) > 1 or not several else []
        names += [setting_label(row.setting, settings)] if several else []
        ladder = ladders.setdefault(_in_lines(", ".join(names)), [])
        if not row["method"].startswith(RANDOM) and row.estimate("auc").known:
            ladder.append(row)
    panels = [Panel(title, partial(_draw_ladder, rows=ladder)) for title, ladder in ladders.items()]
    lines, columns = _grid(panels)
    heads = max((title.count("\n") for title in ladders), default=0)
    height = 1.2 + 0.2 * heads + _LINE * max(map(len, ladders.values()), default=1)
    figure = new_figure(_WIDTH * columns, height * lines)
    _draw_panels(figure, panels)
    return figure


def _world(row: Row) -> str:
    seen = row.get("sees")
    return f"{row['click_model']} clicks" + (f", the server sees {with_article(seen)}" if seen else "")


def _draw_ladder(axis: Axes, rows: Sequence[Row]) -> None:
    """AUC of every attack with its interval, highest on top; guesses hollow."""
    rows = sorted(rows, key=lambda row: (-row.number("auc"), row["baseline"]))
    axis.axvline(_CHANCE, **THIN)
    for line, row in enumerate(rows):
        colour, marker = (DIM, "o") if row["baseline"] else (COLOURS[1], "D")
        auc, filled = row.estimate("auc"), not row["baseline"]
        _draw_estimate(axis, auc, Estimate(float(line)), colour, marker, filled=filled)
    _name_lines(axis, [short_method(row["method"]) for row in rows])
    axis.set_xlim(min([0.45, *(row.number("auc") - 0.05 for row in rows)]), 1.02)
    axis.set_xlabel("AUC")
    axis.grid(visible=False, axis="y")


def audit_figure(rows: Sequence[Row]) -> Figure:
    """For each finding the claimed epsilon, what is proven, and what trials show."""
    figure = new_figure(2 * _WIDTH, 1.4 + 2 * _LINE * len(rows))
    axis = figure.subplots()
    for label, name, marker, colour in (
        ("claimed", "eps_claimed", "|", COLOURS[6]),
        ("proven: at most", "eps_upper", "<", COLOURS[0]),
        ("shown by trials: at least", "eps_lower", ">", COLOURS[1]),
    ):
        points = [(row[name], float(line)) for line, row in enumerate(rows)]
        size = {"markersize": 9.0, "markeredgewidth": 1.6}
        _draw_points(axis, points, marker=marker, color=colour, label=label, **size)
    names = [name for name in ("defense", "sees", "unit", "canary", "run") if _differ(rows, name)] or ["sees"]
    texts = [f"{', '.join(str(row[name]) for name in names)}: {row['verdict']}" for row in rows]
    _name_lines(axis, [_in_lines(text) for text in texts])
    axis.set_xlim(left=0.0)
    axis.set_xlabel("epsilon")
    figure.legend(loc="outside lower center", ncols=3, handlelength=1.0)
    return figure


def recommend_figure(candidates: Sequence[Row], chosen: Row | None, limit: float | None) -> Figure:
    """Every candidate on the validation split: the AUC of the strongest attack on it against its nDCG@10."""
    figure = new_figure(_WIDTH, 4.0)
    axis = figure.subplots()

    def draw(rows: Iterable[Row], **more: Any) -> None:
        points = [(row.number("auc"), row.number("ndcg@10_validation")) for row in rows]
        _draw_points(axis, points, marker="o", **more)

    draw(candidates, color=COLOURS[0], label="candidate")
    if chosen is not None:
        draw([chosen], color=COLOURS[1], label=f"chosen: {chosen['name']}", markersize=10.0)
    if limit is not None:
        axis.axvline(limit, color=COLOURS[6], linestyle="dashed", linewidth=0.9, label="limit")
    axis.set_xlabel("AUC of the strongest attack (left is private)")
    axis.set_ylabel("nDCG@10 on the validation split")
    figure.legend(loc="outside lower center", ncols=3, handlelength=1.2)
    return figure


def noise_figure(noise: Mapping[str, float], title: str) -> Figure:
    """The standard deviation of the noise of each mechanism, on a logarithmic axis, least noise on top."""
    figure = new_figure(_WIDTH, 1.2 + _LINE * len(noise))
    axis = figure.subplots()
    ranked = sorted(noise, key=noise.__getitem__)
    points = [(noise[name], float(line)) for line, name in enumerate(ranked)]
    _draw_points(axis, points, marker="D", color=COLOURS[0])
    _name_lines(axis, ranked)
    axis.set_xscale("log")
    axis.set_xlabel("standard deviation on one coordinate of the average")
    axis.set_title(title)
    return figure


_LABEL_SIZE, _AWAY = 7.5, 7.0  # points, height of the letters of labels, and how far they are from points


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
    from matplotlib.transforms import Bbox

    axis.set_xlim(axis.get_xlim())
    axis.set_ylim(axis.get_ylim())
    unit = 72 / axis.figure.dpi
    points = (unit * axis.transData.transform([label[:2] for label in labels])).tolist()
    taken = [Bbox.from_bounds(x - 4.0, y - 4.0, 8.0, 8.0) for x, y in points]
    low, high, border = unit * axis.bbox.y0, unit * axis.bbox.y1, unit * axis.bbox.x1
    for label, (x, y) in zip(labels, points, strict=True):
        lines = label.text.split("\n")
        width, height = _LABEL_SIZE * 0.62 * max(map(len, lines)), _LABEL_SIZE * 1.25 * len(lines)
        beside = y - height / 2
        bottoms = [beside, *(box.y1 for box in taken), *(box.y0 - height for box in taken)]
        inside = [bottom for bottom in bottoms if low <= bottom <= high - height] or [beside]
        sides = [x + _AWAY] if x + _AWAY + width < border else []
        boxes = [
            Bbox.from_bounds(left, bottom, width, height)
            for bottom in sorted(inside, key=lambda bottom: abs(bottom - beside))
            for left in (*sides, x - _AWAY - width)
        ]
        box = next((box for box in boxes if not any(map(box.fully_overlaps, taken))), boxes[0])
        taken.append(box)
        right = box.x0 > x
        line = {"arrowstyle": "-", "color": label.colour, "linewidth": 0.8, "shrinkA": 0.0, "shrinkB": 4.0}
        axis.annotate(
            label.text,
            label[:2],
            (_AWAY if right else -_AWAY, box.y0 + height / 2 - y),
            textcoords="offset points",
            fontsize=_LABEL_SIZE,
            horizontalalignment="left" if right else "right",
            verticalalignment="center",
            arrowprops={**line, "relpos": (0.0 if right else 1.0, 0.5)},
            zorder=4,
        )


_MEASURES = {"precision": "precision", "recall": "recall", "nDCG@10": "ndcg@10", "AUC": "auc"}
"""What is drawn against epsilon: the columns by their labels."""

_RULED_OUT = "AUC ruled out by proof (equal priors)"
_RING = 0.25  # right of the place of a row
_GUESS: dict[str, Any] = {
    "marker": "o",
    "color": "#ffffff",
    "markeredgecolor": DIM,
    "label": "AUC of the guess",
}
_TOP = 1.03  # upper end of the axis of measures
_SHADE = 0.13  # opacity of what is ruled out, so that grid and marks are seen through it
_LARGE, _SMALL = 4.4, 3.1  # inches, heights of panels
_LEGEND = 90  # letters that fit side by side in the narrowest figure


def comparison_figure(rows: Sequence[Row], data: str) -> Figure:
    """The panels of `trade_offs` above those of `by_epsilon`, with their legends; `data` names what of."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shade = Patch(color=DIM, alpha=0.3, linewidth=0, label=_RULED_OUT)
    above = list(trade_offs(rows)), _LARGE, _marks(_families(rows))
    ring = Line2D([], [], linestyle="none", **_GUESS)
    below = list(by_epsilon(rows)), _SMALL, [*_marks(_MEASURES), ring, shade]
    parts = [part for part in (above, below) if part[0]]
    heights = [size * _grid(panels)[0] for panels, size, _ in parts]
    width = 4.3 * max((_grid(panels)[1] for panels, *_ in parts), default=1)
    figure = new_figure(max(width, 7.0), max(sum(heights) + 1.0, 2.0))
    on = f" on {data}" if data else ""
    figure.suptitle(f"Defenses{on}{'' if rows else ': no cell is done'}", fontsize=11.0)
    if not parts:
        return figure
    subfigures = figure.subfigures(len(parts), 1, height_ratios=heights, squeeze=False)[:, 0]
    for subfigure, (panels, _, keys) in zip(subfigures, parts, strict=True):
        _draw_panels(subfigure, panels)
        beside = max(1, min(len(keys), _LEGEND // (max(len(key.get_label()) for key in keys) + 5)))
        subfigure.legend(handles=keys, loc="outside lower center", ncols=beside, handlelength=1.0)
    return figure


def _marks(names: Iterable[str]) -> list[Any]:
    """Entries of a legend in the colours and marks of their order."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], linestyle="none", label=name, **look(number)) for number, name in enumerate(names)]


def trade_offs(rows: Sequence[Row]) -> Iterator[Panel]:
    """Attack against utility, a panel for each world where both are known of something."""
    families = _families(rows)
    for name, mine in _worlds(rows).items():
        known = [row for row in mine if row.estimate("above_guess").known and row.estimate("ndcg@10").known]
        if known:
            yield Panel(name or "All defenses", partial(_draw_trade_off, rows=known, families=families))


def by_epsilon(rows: Sequence[Row]) -> Iterator[Panel]:
    """Precision, recall, AUC and nDCG@10 against epsilon: a panel for each world, learner and defense."""
    for world, in_world in _worlds(rows).items():
        learners = without_shared_parameters(list(dict.fromkeys(row["learner"] for row in in_world)))
        for learner, short in learners.items():
            mine = [row for row in in_world if row["learner"] == learner]
            for name, shown, joined in _defenses(mine):
                title = ", ".join(filter(None, (short if len(learners) > 1 else "", name, world)))
                yield Panel(title, partial(_draw_by_epsilon, rows=shown, joined=joined))


def _worlds(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each data set, scenario and click model, by what tells it from the others."""
    scenarios = [row["scenario"] for row in rows]
    varied = [name for name in ("click_model", "scenario", "data") if _differ(rows, name)]
    worlds: dict[str, list[Row]] = {}
    for row in rows:
        named = {
            "click_model": f"{row['click_model']} clicks",
            "scenario": short_scenario(row["scenario"], scenarios),
            "data": row["data"],
        }
        worlds.setdefault(", ".join(named[name] for name in varied), []).append(row)
    return worlds


def _families(rows: Sequence[Row]) -> list[str]:
    """The defenses as given, in the order of their colours; rows of several epsilons belong to one."""
    return list(dict.fromkeys(row["alternative"] for row in rows))


def _several_epsilons(rows: Sequence[Row]) -> bool:
    return len({row["eps"] for row in rows} - {None}) > 1


def _defenses(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row], int]]:
    """The rows of each defense with epsilons, their number, and no defense; all others together."""
    if not _several_epsilons(rows):
        yield "all defenses", list(rows), 0
        return
    plain = [row for row in rows if row["alternative"] == NO_DEFENSE][:1]
    claimed = [row for row in rows if row["eps"] is not None]
    for name in _families(claimed):
        mine = sorted((row for row in claimed if row["alternative"] == name), key=lambda row: row["eps"])
        yield name, [*mine, *plain], len(mine)
    others = [row for row in rows if row["eps"] is None]
    if _families(others) not in ([], [NO_DEFENSE]):
        yield "without an epsilon", others, 0


def _draw_trade_off(axis: Axes, rows: Sequence[Row], families: Sequence[str]) -> None:
    """What each defense leaks and what it keeps: what the best attack adds to the guess against nDCG@10."""
    front = sorted((row.number("above_guess"), row.number("ndcg@10")) for row in rows if row["pareto"])
    x, y = [max(above, 0.0) for above, _ in front], [ndcg for _, ndcg in front]
    axis.axvline(0.0, **THIN)
    axis.plot(x, y, color=DIM, linewidth=4.0, alpha=0.35, solid_capstyle="round", zorder=1.5)
    labels = []
    for row in rows:
        above, ndcg = row.estimate("above_guess"), row.estimate("ndcg@10")
        colour, marker = look(families.index(row["alternative"])).values()
        _draw_estimate(axis, above, ndcg, colour, marker, filled=row["pareto"])
        named = row["eps"] is None or not _several_epsilons(rows)
        text = _broken(row) if named else epsilon(row["eps"])
        labels.append(PointLabel(above.value, ndcg.value, text, colour))
    axis.set_xlabel("AUC of the best attack less that of the guess (lower is more private)")
    axis.set_ylabel("offline nDCG@10 (higher is better)")
    axis.margins(0.12, 0.16)
    place_labels(axis, labels)


def _broken(row: Row) -> str:
    """The name of a defense, broken into lines."""
    return str(row["alternative"]).replace("+", "\n+ ")


def _draw_by_epsilon(axis: Axes, rows: Sequence[Row], joined: int) -> None:
    """The measures of rows side by side; the first `joined` ones are one defense by its claimed epsilon.

    AUCs above what is proven are shaded; a ring is the AUC of the best guess without a message.
    """
    for number in range(len(_MEASURES)):
        _draw_measure(axis, rows, number, joined)
    _draw_points(
        axis, [(place + _RING, row.number("baseline_auc")) for place, row in enumerate(rows)], **_GUESS
    )
    for place, row in enumerate(rows):
        most = row["ceiling_auc"]
        if most is not None:
            axis.bar(place, _TOP - most, 1.0, most, color=DIM, alpha=_SHADE, linewidth=0, zorder=0.5)
            axis.plot([place - 0.5, place + 0.5], [most] * 2, color=DIM, linewidth=0.9, zorder=1)
    if joined:
        names = [NO_DEFENSE if row["eps"] is None else epsilon(row["eps"]) for row in rows]
        axis.set_xticks(range(len(rows)), names)
        axis.set_xlabel("claimed epsilon")
    else:
        slope: dict[str, Any] = {"rotation": 35, "rotation_mode": "anchor", "horizontalalignment": "right"}
        names = [_broken(row) for row in rows]
        axis.set_xticks(range(len(rows)), names, fontsize=7.0, **(slope if len(rows) > 2 else {}))
    axis.set_xlim(-0.5, len(rows) - 0.5)
    axis.set_ylim(-0.03, _TOP)
    axis.grid(visible=False, axis="x")


def _draw_measure(axis: Axes, rows: Sequence[Row], number: int, joined: int) -> None:
    """One measure of each row with its interval, at the row's number; the first `joined` rows by a line."""
    label, name = [*_MEASURES.items()][number]
    colour, shift = COLOURS[number], 0.09 * (number - 1.5)
    points = [(place + shift, row.number(name)) for place, row in enumerate(rows)]
    _draw_points(axis, points[:joined], color=colour, linestyle=STYLES[number], zorder=2.5)
    edge: dict[str, Any] = {"markeredgecolor": "#ffffff", "markeredgewidth": 0.7, "zorder": 3}
    _draw_points(axis, points, label=label, **look(number), **edge)
    for (x, _), row in zip(points, rows, strict=True):
        ends = row.estimate(name).ci95
        if ends is not None:
            axis.plot([x] * 2, ends, color=colour, alpha=0.6, linewidth=0.9, zorder=2)
