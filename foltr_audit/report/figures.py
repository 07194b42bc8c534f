"""The picture of each report, from the rows of its document.

Colours and marks are those of a defense, whatever its epsilon, and the same in every panel.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
    from matplotlib.figure import Figure

_CHANCE = 0.5  # the AUC of a coin
_WIDTH, _LINE = 4.6, 0.24  # inches: of a panel, of a line in it


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
    columns = max(1, min(3, len(ladders)))
    lines = max(1, -(-len(ladders) // columns))
    heads = max((title.count("\n") for title in ladders), default=0)
    height = 1.2 + 0.2 * heads + _LINE * max(map(len, ladders.values()), default=1)
    figure = new_figure(_WIDTH * columns, height * lines)
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis, (title, ladder) in zip(axes, ladders.items(), strict=False):
        _draw_ladder(axis, ladder)
        axis.set_title(title)
    for axis in axes[len(ladders) :]:
        axis.set_axis_off()
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


_MEASURES = {
    "above_guess": "AUC of the best attack less that\nof a guess (lower is more private)",
    "precision": "precision of the best attack",
    "recall": "recall of the best attack",
    "ndcg@10": "offline nDCG@10\n(higher is better)",
}
"""What is drawn against epsilon: labels by the columns."""

_LEGEND = 115  # letters that fit side by side below the panels


def comparison_figure(rows: Sequence[Row], data: str) -> Figure:
    """Each of `_MEASURES` of each defense against its claimed epsilon, a line of panels for each world.

    Defenses without an epsilon stand last; `data` names what of.
    """
    worlds = _worlds(rows)
    names = list(dict.fromkeys(row["alternative"] for row in rows))
    beside = max(1, _LEGEND // (max(map(len, names), default=0) + 6))
    figure = new_figure(10.0, 0.8 + 2.4 * max(len(worlds), 1) + 0.2 * -(-len(names) // beside))
    on = f" on {data}" if data else ""
    figure.suptitle(f"Defenses{on}{'' if rows else ': no cell is done'}", fontsize=11.0)
    if not rows:
        return figure
    epsilons = sorted({row["eps"] for row in rows} - {None})
    places = [*epsilons, *([None] if any(row["eps"] is None for row in rows) else [])]
    lines = figure.subplots(len(worlds), len(_MEASURES), sharex=True, sharey="col", squeeze=False)
    for axes, (world, mine) in zip(lines, worlds.items(), strict=True):
        axes[0].set_title(world, loc="left")
        for axis, (measure, label) in zip(axes, _MEASURES.items(), strict=True):
            axis.set_ylabel(label, fontsize=8.0)
            _draw_measure(axis, mine, measure, names, places)
    for axis in lines[-1]:
        ticks = ["none" if eps is None else epsilon(eps) for eps in places]
        axis.set_xticks(range(len(places)), ticks, rotation=90 * (len(places) > _LEVEL))
        axis.set_xlim(-0.5, len(places) - 0.5)
        axis.set_xlabel("claimed epsilon")
    figure.legend(handles=_marks(names), loc="outside lower center", ncols=beside, handlelength=1.0)
    return figure


_LEVEL = 6  # epsilons whose names have room beside each other


def _marks(names: Iterable[str]) -> list[Any]:
    """Entries of a legend in the colours and marks of their order."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], linestyle="none", label=name, **look(number)) for number, name in enumerate(names)]


def _worlds(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each data set, scenario, click model and learner, by what tells it from the others."""
    scenarios = [row["scenario"] for row in rows]
    learners = without_shared_parameters(list(dict.fromkeys(row["learner"] for row in rows)))
    varied = [name for name in ("learner", "click_model", "scenario", "data") if _differ(rows, name)]
    worlds: dict[str, list[Row]] = {}
    for row in rows:
        named = {
            "learner": learners[row["learner"]],
            "click_model": f"{row['click_model']} clicks",
            "scenario": short_scenario(row["scenario"], scenarios),
            "data": row["data"],
        }
        worlds.setdefault(", ".join(named[name] for name in varied), []).append(row)
    return worlds


def _draw_measure(
    axis: Axes, rows: Sequence[Row], measure: str, names: Sequence[str], places: Sequence[float | None]
) -> None:
    """One measure of every defense with its interval; those of one epsilon beside each other.

    The thin line is a guess, where something is compared with it; of nDCG it is training without a defense.
    """
    plain = [row.number(measure) for row in rows if row["alternative"] == NO_DEFENSE]
    for level in {"above_guess": [0.0], "ndcg@10": plain[:1]}.get(measure, []):
        if math.isfinite(level):
            axis.axhline(level, **THIN)
    apart = min(0.1, 0.7 / len(names))
    for number, name in enumerate(names):
        shift = apart * (number - (len(names) - 1) / 2)
        mine = [row for row in rows if row["alternative"] == name and row.estimate(measure).known]
        points = {places.index(row["eps"]) + shift: row.estimate(measure) for row in mine}
        claimed = [(x, points[x].value) for x in sorted(points) if places[round(x - shift)] is not None]
        colour, marker = look(number).values()
        line: dict[str, Any] = {"linestyle": STYLES[number % len(STYLES)], "linewidth": 1.0}
        _draw_points(axis, claimed, color=colour, **line)
        for x, found in points.items():
            _draw_estimate(axis, Estimate(x), found, colour, marker, filled=True)
