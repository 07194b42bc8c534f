"""The picture of each report, from the rows of its document.

Colours and marks are those of a defense, whatever its epsilon, and the same in every panel.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.experiments.presets import RANDOM
from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.privacy.observer_views import with_article
from foltr_audit.report.documents import Row
from foltr_audit.report.picture_style import COLOURS, MARKERS, STYLES
from foltr_audit.report.settings import setting_label, short_scenario
from foltr_audit.report.table import short_method
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHANCE = 0.5
"""The AUC of a coin."""

DIM = "#777777"
_WIDTH, _LINE = 4.6, 0.24  # inches: of a panel, of a line in it
_DOTTED = (0, (2, 2))


# --- attacks, audits, candidates and noise ---------------------------------------------------------


def attack_figure(rows: Sequence[Row]) -> Figure:
    """The AUC of every attack and guess, highest on top, a panel for each world and system.

    Random guesses are the dotted line at .5.
    """
    settings = [row.setting for row in rows]
    several = len({repr(setting) for setting in settings}) > 1
    worlds = [_world(row) for row in rows]
    panels: dict[str, list[Row]] = {}
    for row, world in zip(rows, worlds, strict=True):
        names = [world] if len(set(worlds)) > 1 or not several else []
        names += [setting_label(row.setting, settings)] if several else []
        mine = panels.setdefault(_in_lines(", ".join(names)), [])
        if not row["method"].startswith(RANDOM) and row.estimate("auc").known:
            mine.append(row)
    heads = max((title.count("\n") for title in panels), default=0)
    most = max(map(len, panels.values()), default=1)
    figure, axes = _panels(len(panels), 1.2 + 0.2 * heads + _LINE * most)
    for axis, (title, mine) in zip(axes, panels.items(), strict=False):
        _draw_ladder(axis, mine)
        axis.set_title(title)
    return figure


def _world(row: Row) -> str:
    seen = row.get("sees")
    return f"{row['click_model']} clicks" + (f", the server sees {with_article(seen)}" if seen else "")


def _in_lines(title: str, width: int = 44) -> str:
    """A title in lines that fit a panel."""
    return "\n".join(textwrap.wrap(title.replace("+", "+ "), width)).replace("+ ", "+")


def _draw_ladder(axis: Axes, rows: Sequence[Row]) -> None:
    """AUC of every attack with its interval, highest on top; guesses hollow."""
    rows = sorted(rows, key=lambda row: (row.number("auc"), not row["baseline"]))
    axis.axvline(CHANCE, color=DIM, linestyle=_DOTTED, linewidth=0.9, zorder=1)
    for place, row in enumerate(rows):
        colour, auc = DIM if row["baseline"] else COLOURS[1], row.estimate("auc")
        if auc.ci95 is not None:
            axis.plot(auc.ci95, [place, place], color=colour, linewidth=1.4, alpha=0.6, zorder=2)
        marker = "o" if row["baseline"] else "D"
        _draw_point(axis, auc.value, place, marker, colour, filled=not row["baseline"])
    axis.set_yticks(range(len(rows)), [short_method(row["method"]) for row in rows])
    axis.set_ylim(-0.7, max(len(rows), 1) - 0.3)
    axis.set_xlim(min([0.45, *(row.number("auc") - 0.05 for row in rows)]), 1.02)
    axis.set_xlabel("AUC")
    axis.grid(visible=False, axis="y")


def _draw_point(axis: Axes, x: float, y: float, marker: str, colour: str, *, filled: bool) -> None:
    face = colour if filled else "#ffffff"
    look: dict[str, Any] = {"linestyle": "none", "marker": marker, "markeredgewidth": 1.3, "zorder": 3}
    axis.plot([x], [y], color=face, markeredgecolor=colour, **look)


def audit_figure(rows: Sequence[Row]) -> Figure:
    """For each finding the claimed epsilon, what is proven, and what trials show."""
    figure, (axis, *_) = _panels(1, 1.4 + 2 * _LINE * len(rows), 2 * _WIDTH)
    marks = {
        "claimed": ("|", COLOURS[6], "eps_claimed"),
        "proven: at most": ("<", COLOURS[0], "eps_upper"),
        "shown by trials: at least": (">", COLOURS[1], "eps_lower"),
    }
    for label, (marker, colour, name) in marks.items():
        known = [(row[name], place) for place, row in enumerate(rows) if math.isfinite(row[name])]
        axis.plot(
            [value for value, _ in known],
            [place for _, place in known],
            linestyle="none",
            marker=marker,
            markersize=9.0,
            markeredgewidth=1.6,
            color=colour,
            label=label,
        )
    names = [name for name in ("defense", "sees", "unit", "canary", "run") if _differ(rows, name)] or ["sees"]
    _name_lines(
        axis, [_in_lines(f"{', '.join(str(row[name]) for name in names)}: {row['verdict']}") for row in rows]
    )
    axis.set_xlim(left=0.0)
    axis.set_xlabel("epsilon")
    figure.legend(loc="outside lower center", ncols=3, handlelength=1.0)
    return figure


def _differ(rows: Sequence[Row], name: str) -> bool:
    return len({row[name] for row in rows}) > 1


def _name_lines(axis: Axes, names: Sequence[str]) -> None:
    """Names of the lines of a panel, the first on top."""
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(max(len(names), 1) - 0.3, -0.7)


def recommend_figure(candidates: Sequence[Row], chosen: Row | None, limit: float | None) -> Figure:
    """Every candidate on the validation split: the AUC of the strongest attack on it against its nDCG@10."""
    figure, (axis, *_) = _panels(1, 4.0)
    name = "" if chosen is None else f"chosen: {chosen['name']}"
    for rows, colour, label, size in (
        (candidates, COLOURS[0], "candidate", 6.0),
        ([] if chosen is None else [chosen], COLOURS[1], name, 10.0),
    ):
        points = [(row.number("auc"), row.number("ndcg@10_validation")) for row in rows]
        known = [point for point in points if not any(map(math.isnan, point))]
        if known or rows is candidates:
            x, y = [auc for auc, _ in known], [ndcg for _, ndcg in known]
            axis.plot(x, y, linestyle="none", marker="o", markersize=size, color=colour, label=label)
    if limit is not None:
        axis.axvline(limit, color=COLOURS[6], linestyle="dashed", linewidth=0.9, label="limit")
    axis.set_xlabel("AUC of the strongest attack (left is private)")
    axis.set_ylabel("nDCG@10 on the validation split")
    figure.legend(loc="outside lower center", ncols=3, handlelength=1.2)
    return figure


def noise_figure(noise: Mapping[str, float], title: str) -> Figure:
    """The standard deviation of the noise of each mechanism, on a logarithmic axis, least noise on top."""
    figure, (axis, *_) = _panels(1, 1.2 + _LINE * len(noise))
    ranked = sorted(noise.items(), key=lambda item: item[1])
    axis.plot([sd for _, sd in ranked], range(len(ranked)), linestyle="none", marker="D", color=COLOURS[0])
    _name_lines(axis, [name for name, _ in ranked])
    axis.set_xscale("log")
    axis.set_xlabel("standard deviation on one coordinate of the average")
    axis.set_title(title)
    return figure


def _panels(count: int, height: float, width: float = _WIDTH) -> tuple[Figure, list[Axes]]:
    """A figure with panels of a height, at most three side by side."""
    columns = min(max(count, 1), 3)
    lines = -(-max(count, 1) // columns)
    figure = _figure(width * columns, height * lines)
    axes = list(figure.subplots(lines, columns, squeeze=False).ravel())
    for axis in axes[count:] if count else ():
        axis.set_axis_off()
    return figure, axes


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.07))


# --- labels beside points --------------------------------------------------------------------------

_LABEL_SIZE, _AWAY = 7.5, 7.0  # points, height of the letters of labels, and how far they are from points


class PointLabel(NamedTuple):
    """A point in data coordinates, and its label."""

    x: float
    y: float
    text: str
    colour: str


class _Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: _Box) -> bool:
        beside = self.left < other.right and other.left < self.right
        return beside and self.bottom < other.top and other.bottom < self.top


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


# --- a comparison: attacks against utility, and both against epsilon -------------------------------

MEASURES = {"precision": "precision", "recall": "recall", "nDCG@10": "ndcg@10", "AUC": "auc"}
"""What is drawn against epsilon: the columns by their labels."""

RULED_OUT = "AUC ruled out by proof (equal priors)"
"""What the shade says: of documents that are equally likely clicked."""

_TOP = 1.03  # upper end of the axis of measures
_SHADE = 0.13  # opacity of what is ruled out, so that grid and marks are seen through it
_LARGE, _SMALL = 4.4, 2.9  # inches, heights of panels
_LEGEND = 90  # letters that fit side by side in the narrowest figure


class Panel(NamedTuple):
    """One panel: its title, and what draws it on empty axes."""

    title: str
    draw: Callable[[Axes], None]


def comparison_figure(rows: Sequence[Row], data: str) -> Figure:
    """One figure with the panels of `trade_offs` and `by_epsilon`, and their legends.

    Args:
        rows: the results of a comparison.
        data: what they are of, for the title; may be empty.
    """
    first, second = list(trade_offs(rows)), list(by_epsilon(rows))
    columns = min(3, max(len(first), len(second), 1))
    lines = [-(-len(panels) // columns) for panels in (first, second)]
    height = lines[0] * _LARGE + lines[1] * (_SMALL + 0.2) + 1.0
    figure = _figure(max(4.3 * columns, 7.0), max(height, 2.0))
    on = f" on {data}" if data else ""
    figure.suptitle(f"Defenses{on}{'' if rows else ': no cell is done'}", fontsize=11.0)
    parts = [
        part
        for part in (
            (first, lines[0], _LARGE, _marks(_families(rows))),
            (second, lines[1], _SMALL, [*_marks([*MEASURES]), _shade()]),
        )
        if part[0]
    ]
    if not parts:
        return figure
    ratios = [count * size for _, count, size, _ in parts]
    below = figure.subfigures(len(parts), 1, height_ratios=ratios, squeeze=False)[:, 0]
    for part, (panels, count, _, keys) in zip(below, parts, strict=True):
        axes = part.subplots(count, min(columns, len(panels)), squeeze=False).ravel()
        for axis, panel in zip(axes, panels, strict=False):
            panel.draw(axis)
            axis.set_title(panel.title)
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        beside = max(1, min(len(keys), _LEGEND // (max(len(key.get_label()) for key in keys) + 5)))
        part.legend(handles=keys, loc="outside lower center", ncols=beside, handlelength=1.0)
    return figure


def trade_offs(rows: Sequence[Row]) -> Iterator[Panel]:
    """Attack against utility, a panel for each world where both are known of something."""
    for name, mine in _worlds(rows).items():
        known = [row for row in mine if row.estimate("auc").known and row.estimate("ndcg@10").known]
        if known:
            draw = partial(_draw_trade_off, rows=known, families=_families(rows))
            yield Panel(name or "All defenses", draw)


def by_epsilon(rows: Sequence[Row]) -> Iterator[Panel]:
    """Precision, recall, AUC and nDCG@10 against epsilon: a panel for each world, learner and defense."""
    for world, in_world in _worlds(rows).items():
        learners = without_shared_parameters(list(dict.fromkeys(row["learner"] for row in in_world)))
        for learner, short in learners.items():
            mine = [row for row in in_world if row["learner"] == learner]
            plain = next((row for row in mine if row["alternative"] == NO_DEFENSE), None)
            for name, shown in _defenses(mine):
                title = ", ".join(filter(None, (short if len(learners) > 1 else "", name, world)))
                yield Panel(title, partial(_draw_by_epsilon, rows=shown, plain=plain))


def _worlds(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each data set, scenario and click model, by what tells it from the others."""
    scenarios = [row["scenario"] for row in rows]
    worlds: dict[str, list[Row]] = {}
    for row in rows:
        named = {
            "click_model": f"{row['click_model']} clicks",
            "scenario": short_scenario(row["scenario"], scenarios),
            "data": row["data"],
        }
        name = ", ".join(text for column, text in named.items() if _differ(rows, column))
        worlds.setdefault(name, []).append(row)
    return worlds


def _families(rows: Sequence[Row]) -> list[str]:
    """The defenses as given, in the order of their colours; rows of several epsilons belong to one."""
    return list(dict.fromkeys(row["alternative"] for row in rows))


def _epsilons(rows: Sequence[Row]) -> set[float]:
    return {row["eps"] for row in rows} - {None}


def _defenses(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each defense with epsilons; all others together, unless only no defense is left."""
    if len(_epsilons(rows)) < 2:
        yield "all defenses", list(rows)
        return
    for name in _families([row for row in rows if row["eps"] is not None]):
        yield name, [row for row in rows if row["alternative"] == name]
    others = [row for row in rows if row["eps"] is None]
    if _families(others) not in ([], [NO_DEFENSE]):
        yield "without an epsilon", others


def _draw_trade_off(axis: Axes, rows: Sequence[Row], families: Sequence[str]) -> None:
    """What each defense leaks and what it keeps: AUC of the best attack against nDCG@10."""
    front = sorted((row.number("auc"), row.number("ndcg@10")) for row in rows if row["pareto"])
    x, y = [max(auc, CHANCE) for auc, _ in front], [ndcg for _, ndcg in front]
    axis.axvline(CHANCE, color=DIM, linestyle=_DOTTED, linewidth=0.9, zorder=1)
    axis.plot(x, y, color=DIM, linewidth=4.0, alpha=0.35, solid_capstyle="round", zorder=1.5)
    labels = []
    for row in rows:
        number, auc, ndcg = families.index(row["alternative"]), row.estimate("auc"), row.estimate("ndcg@10")
        colour = COLOURS[number % len(COLOURS)]
        bar = {"color": colour, "alpha": 0.5, "linewidth": 0.8, "zorder": 2.0}
        if auc.ci95 is not None:
            axis.plot(auc.ci95, [ndcg.value] * 2, **bar)  # type: ignore[arg-type]
        if ndcg.ci95 is not None:
            axis.plot([auc.value] * 2, ndcg.ci95, **bar)  # type: ignore[arg-type]
        marker = MARKERS[number % len(MARKERS)]
        _draw_point(axis, auc.value, ndcg.value, marker, colour, filled=bool(row["pareto"]))
        if row["ceiling_auc"] is not None:  # a stroke at the largest AUC that the proof leaves to attacks
            look: dict[str, Any] = {"color": colour, "linewidth": 0.9, "zorder": 1.8}
            ends = [auc.value, row["ceiling_auc"]]
            axis.plot(ends, [ndcg.value] * 2, linestyle=(0, (1, 2)), **look)
            axis.plot(ends[1:], [ndcg.value], marker="|", markersize=9.0, markeredgewidth=1.6, **look)
        of_one = row["eps"] is None or len(_epsilons(rows)) < 2
        text = _broken(row) if of_one else epsilon(row["eps"])
        labels.append(PointLabel(auc.value, ndcg.value, text, colour))
    axis.set_xlabel("AUC of the best attack (lower is more private)")
    axis.set_ylabel("offline nDCG@10 (higher is better)")
    axis.margins(0.12, 0.16)
    place_labels(axis, labels)


def _broken(row: Row) -> str:
    """The name of a defense, broken into lines."""
    return str(row["alternative"]).replace("+", "\n+ ")


def _draw_by_epsilon(axis: Axes, rows: Sequence[Row], plain: Row | None) -> None:
    """Precision, recall and AUC of the best attack, and nDCG@10, against the claimed epsilon.

    Where an AUC of attacks is proven, the AUCs above it are shaded.

    Args:
        axis: an empty one.
        rows: results of a world and learner: of one defense with several epsilons, or of several defenses,
            which then have a place each by their names.
        plain: the result without a defense, which gets the last place.
    """
    among = len(_families(rows)) == 1 and all(row["eps"] is not None for row in rows)
    rows = sorted(rows, key=lambda row: row["eps"]) if among else list(rows)
    shown = [*rows, *([plain] if plain is not None and all(row is not plain for row in rows) else [])]
    for number in range(len(MEASURES)):
        _draw_measure(axis, shown, number, joined=len(rows) if among else 0)
    for place, row in enumerate(shown):
        most = row["ceiling_auc"]
        if most is not None:
            axis.bar(place, _TOP - most, 1.0, most, color=DIM, alpha=_SHADE, linewidth=0, zorder=0.5)
            axis.plot([place - 0.5, place + 0.5], [most] * 2, color=DIM, linewidth=0.9, zorder=1)
    if among:
        texts = [NO_DEFENSE if row["eps"] is None else epsilon(row["eps"]) for row in shown]
        axis.set_xticks(range(len(shown)), texts)
        axis.set_xlabel("claimed epsilon")
    else:
        slope: dict[str, Any] = {"rotation": 35, "rotation_mode": "anchor", "horizontalalignment": "right"}
        names = [_broken(row) for row in shown]
        axis.set_xticks(range(len(shown)), names, fontsize=7.0, **(slope if len(shown) > 2 else {}))
    axis.set_xlim(-0.5, len(shown) - 0.5)
    axis.set_ylim(-0.03, _TOP)
    axis.grid(visible=False, axis="x")


def _draw_measure(axis: Axes, rows: Sequence[Row], number: int, *, joined: int) -> None:
    """One measure of each row with its interval, at the row's number; the first `joined` rows by a line."""
    label, name = [*MEASURES.items()][number]
    colour, shift = COLOURS[number], 0.09 * (number - 1.5)
    known = [(place, row.estimate(name)) for place, row in enumerate(rows) if row.estimate(name).known]
    x, y = [place + shift for place, _ in known], [value.value for _, value in known]
    line = sum(place < joined for place, _ in known)  # those with an epsilon come first
    axis.plot(x[:line], y[:line], color=colour, linestyle=STYLES[number], zorder=2.5)
    look: dict[str, Any] = {"markeredgecolor": "#ffffff", "markeredgewidth": 0.7, "zorder": 3}
    axis.plot(x, y, linestyle="none", marker=MARKERS[number], color=colour, label=label, **look)
    for place, value in known:
        if value.ci95 is not None:
            axis.plot([place + shift] * 2, value.ci95, color=colour, alpha=0.6, linewidth=0.9, zorder=2)


def _marks(names: Sequence[str]) -> list[Any]:
    """Entries of a legend in the colours and marks of their order."""
    from matplotlib.lines import Line2D

    return [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=MARKERS[n % len(MARKERS)],
            color=COLOURS[n % len(COLOURS)],
            label=name,
        )
        for n, name in enumerate(names)
    ]


def _shade() -> Any:
    from matplotlib.patches import Patch

    return Patch(color=DIM, alpha=0.3, linewidth=0, label=RULED_OUT)
