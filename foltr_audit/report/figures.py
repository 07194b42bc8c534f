"""The picture of each report, from the rows of its document.

Against epsilon, colours and marks are those of a defense or attack, the same in every panel.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import sub
from typing import TYPE_CHECKING, Any, NamedTuple

from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.judge.scoring import KNOWS_GRADES
from foltr_audit.report.attack_details import group_by_world
from foltr_audit.report.documents import Row
from foltr_audit.report.picture_style import COLOURS, THIN, look, new_figure
from foltr_audit.report.settings import differing, heading, short_scenario
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _LINE = 4.6, 0.24  # inches: of a panel, of a line in it


def _draw_points(axis: Axes, points: Iterable[tuple[float, float]], **style: Any) -> None:
    """The points whose coordinates are both finite, joined if a style of lines is given."""
    known = [point for point in points if all(map(math.isfinite, point))]
    axis.plot([x for x, _ in known], [y for _, y in known], **{"linestyle": "none", **style})


def _name_lines(axis: Axes, names: Sequence[str]) -> None:
    """Names of the lines of a panel, the first on top."""
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(max(len(names), 1) - 0.3, -0.7)


def _in_lines(title: str, width: int = 44) -> str:
    """A title in lines that fit a panel."""
    return "\n".join(textwrap.wrap(title.replace("+", "+ "), width, break_on_hyphens=False)).replace(
        "+ ", "+"
    )


def _differ(rows: Sequence[Row], name: str) -> bool:
    return len({row[name] for row in rows}) > 1


def audit_figure(rows: Sequence[Row]) -> Figure:
    """For each finding the claimed epsilon, what is proven, and what trials show.

    Of several defenses each is a line of its own above its findings.
    """
    named = [name for name in ("sees", "unit", "canary", "run") if _differ(rows, name)] or ["sees"]
    headings = _differ(rows, "defense")
    names: list[str] = []
    lines: list[float] = []
    for before, row in zip([None, *rows], rows, strict=False):
        if headings and (before is None or before["defense"] != row["defense"]):
            names.append(_in_lines(row["defense"]))
        lines.append(len(names))
        names.append(f"{', '.join(str(row[name]) for name in named)}: {row['verdict']}")
    figure = new_figure(2 * _WIDTH, 1.4 + 1.6 * _LINE * len(names))
    axis = figure.subplots()
    for label, name, marker, colour in (
        ("claimed", "eps_claimed", "|", COLOURS[6]),
        ("proven: at most", "eps_upper", "<", COLOURS[0]),
        ("shown by trials: at least", "eps_lower", ">", COLOURS[1]),
    ):
        points = [(row[name], line) for row, line in zip(rows, lines, strict=True)]
        size = {"markersize": 9.0, "markeredgewidth": 1.6}
        _draw_points(axis, points, marker=marker, color=colour, label=label, **size)
    _name_lines(axis, names)
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


_Epsilon = float | None  # None: no claim


class _Panel(NamedTuple):
    """A measure against epsilon: points by epsilon, by the name of what they are of, and a thin line."""

    label: str
    points: Mapping[str, Mapping[_Epsilon, Estimate]]
    thin: Mapping[_Epsilon, float]

    @classmethod
    def of(
        cls,
        label: str,
        points: Mapping[str, Mapping[_Epsilon, Estimate]],
        thin: Mapping[_Epsilon, float],
        named: str,
    ) -> _Panel:
        """A panel whose label says what its thin line is, where it has one."""
        dashed = any(map(math.isfinite, thin.values()))
        return cls(f"{label}\n(dashed: {named})" if dashed else label, points, thin)


_OF_DEFENSES = {
    "above_guess": "AUC of the best attack less that\nof a guess (lower is more private)",
    "precision": "precision of the best attack",
    "recall": "recall of the best attack",
    "ndcg@10": "offline nDCG@10\n(higher is better)",
}
"""What is drawn of a comparison: labels by the columns."""


def comparison_figure(rows: Sequence[Row], data: str) -> Figure:
    """What the best attack reads of each defense, and what it costs, against its claimed epsilon.

    The thin line is a guess, where something is compared with it; of nDCG it is training without a defense.
    """
    names = list(dict.fromkeys(row["alternative"] for row in rows))

    def panel(mine: Sequence[Row], measure: str, label: str) -> _Panel:
        of = {name: [row for row in mine if row["alternative"] == name] for name in names}
        points = {name: {row["eps"]: row.estimate(measure) for row in each} for name, each in of.items()}
        levels = {"above_guess": [0.0], "ndcg@10": [row.number("ndcg@10") for row in of.get(NO_DEFENSE, ())]}
        thin = {row["eps"]: level for row in mine for level in levels.get(measure, [])[:1]}
        return _Panel(label, points, thin)

    worlds = {
        world: [panel(mine, *measure) for measure in _OF_DEFENSES.items()]
        for world, mine in _compared_worlds(rows).items()
    }
    return _against_epsilon(f"Defenses on {data}" if data else "Defenses", worlds, "no cell is done")


def attack_figure(rows: Sequence[Row], utility: Sequence[Row], data: str) -> Figure:
    """What each attack reads, and how good the ranker is, against the claimed epsilon.

    The thin line is the most that a guess without message and grades reaches; of nDCG it is training without
    a defense.
    """
    names = without_shared_parameters(list(dict.fromkeys(row["method"] for row in rows)))

    def panels(mine: Sequence[Row]) -> Iterator[_Panel]:
        for measure in ("precision", "recall", "auc"):
            points: dict[str, dict[_Epsilon, Estimate]] = {}
            guessed: dict[_Epsilon, float] = {}
            for row in mine:
                eps, found = _claim(row), row.estimate(measure)
                if not row["baseline"]:
                    points.setdefault(names[row["method"]], {})[eps] = found
                elif row["method"] != KNOWS_GRADES and found.known:
                    guessed[eps] = max(found.value, guessed.get(eps, 0.0))
            yield _Panel.of("AUC" if measure == "auc" else measure, points, guessed, "the best guess")
        settings = [replace(row.setting, sees=None) for row in mine]
        trained = [row for row in utility if replace(row.setting, sees=None) in settings]
        quality = {_claim(row): row.estimate("ndcg@10") for row in trained}
        undefended = {_claim(row): row.number("ndcg@10_undefended") for row in trained}
        yield _Panel.of("offline nDCG@10", {"ranker": quality}, undefended, "without a defense")

    worlds = _attacked_worlds(rows)
    parts = [world.split(", ") for world in worlds]
    shared = [part for part in parts[0] if all(part in others for others in parts)] if parts else []
    titles = [", ".join(part for part in mine if part not in shared) for mine in parts]
    drawn = {title: list(panels(mine)) for title, mine in zip(titles, worlds.values(), strict=True)}
    title = "\n".join(filter(None, (f"Attacks on {data}", ", ".join(shared))))
    return _against_epsilon(title, drawn, "no clicks were attacked")


def _claim(row: Row) -> _Epsilon:
    return None if math.isinf(row["eps_claimed"]) else float(row["eps_claimed"])


def _attacked_worlds(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each table of attacks, those of each setting alone that differ in more than epsilon."""
    worlds: dict[str, list[Row]] = {}
    for world, mine in group_by_world(rows).items():
        settings = [row.setting for row in mine]
        for row in mine:
            more = [f"{heading(name)} {row.setting.value(name)}" for name in differing(settings)]
            worlds.setdefault(", ".join([world, *more]), []).append(row)
    return worlds


def _compared_worlds(rows: Sequence[Row]) -> dict[str, list[Row]]:
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


_LEGEND = 115  # letters that fit side by side below the panels


def _against_epsilon(title: str, worlds: Mapping[str, Sequence[_Panel]], nothing: str) -> Figure:
    """A line of panels for each world; what claims no epsilon stands last."""
    panels = [panel for line in worlds.values() for panel in line]
    names = list(dict.fromkeys(name for panel in panels for name in panel.points))
    beside = max(1, _LEGEND // (max(map(len, names), default=0) + 6))
    figure = new_figure(10.0, 0.8 + 2.4 * max(len(worlds), 1) + 0.2 * -(-len(names) // beside))
    figure.suptitle(title if worlds else f"{title}: {nothing}", fontsize=11.0)
    if not worlds:
        return figure
    drawn = (points for panel in panels for points in (*panel.points.values(), panel.thin))
    places = _log_places({eps for points in drawn for eps in points})
    columns = len(panels) // len(worlds)
    lines = figure.subplots(len(worlds), columns, sharex=True, sharey="col", squeeze=False)
    for axes, (world, line) in zip(lines, worlds.items(), strict=True):
        axes[0].set_title(_in_lines(world), loc="left")
        for axis, panel in zip(axes, line, strict=True):
            axis.set_ylabel(panel.label, fontsize=8.0)
            _draw_panel(axis, panel, places, names)
    for axis in lines[-1]:
        _name_epsilons(axis, places)
    figure.legend(handles=_marks(names), loc="outside lower center", ncols=beside, handlelength=1.0)
    return figure


def _log_places(epsilons: Collection[_Epsilon]) -> dict[_Epsilon, float]:
    """Where epsilons stand on a logarithmic axis, on average 1 apart; no claim is 1 beyond the largest."""
    claimed = sorted(eps for eps in epsilons if eps is not None)
    places: dict[_Epsilon, float] = dict.fromkeys(claimed[:1], 0.0)
    for eps in claimed[1:]:
        share = math.log(eps / claimed[0]) / math.log(claimed[-1] / claimed[0])
        places[eps] = (len(claimed) - 1) * share
    return places | ({None: float(len(claimed))} if None in epsilons else {})


def _name_epsilons(axis: Axes, places: Mapping[_Epsilon, float]) -> None:
    """Name epsilons below an axis, upright where they are near each other; none upon another."""
    at = list(places.values())
    upright = min(map(sub, at[1:], at), default=math.inf) < _LEVEL * len(at)
    apart, names, last = min(_UPRIGHT * len(at), 1.0), [], -math.inf
    for eps, place in places.items():
        free = place - last >= apart
        names.append(("none" if eps is None else epsilon(eps)) if free else "")
        last = place if free else last
    axis.set_xticks(at, names, rotation=90 * upright)
    axis.set_xlabel("claimed epsilon (log)")


_LEVEL, _UPRIGHT = 0.16, 0.075  # of the width of a panel: what an epsilon needs, and an upright one


def _marks(names: Iterable[str]) -> list[Any]:
    """Entries of a legend in the colours and marks of their order."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], linestyle="none", label=name, **look(number)) for number, name in enumerate(names)]


def _draw_panel(axis: Axes, panel: _Panel, places: Mapping[_Epsilon, float], names: Sequence[str]) -> None:
    """Points with their intervals, those of one epsilon beside each other; lines join claimed epsilons."""
    ends = -0.5, len(places) - 0.5
    axis.set_xlim(ends)
    thin = [(x, panel.thin[eps]) for eps, x in places.items() if eps in panel.thin]
    if thin:
        _draw_points(axis, [(ends[0], thin[0][1]), *thin, (ends[1], thin[-1][1])], **THIN)
    apart = min(0.2, 0.7 / max(len(panel.points), 1))
    for place, (name, points) in enumerate(panel.points.items()):
        shift, number = apart * (place - (len(panel.points) - 1) / 2), names.index(name)
        found = {eps: points[eps] for eps in places if eps in points and points[eps].known}
        joined = [(places[eps] + shift, each.value) for eps, each in found.items() if eps is not None]
        colour, marker = look(number).values()
        _draw_points(axis, joined, color=colour, linestyle="solid", linewidth=1.0)
        bar: dict[str, Any] = {"color": colour, "alpha": 0.55, "linewidth": 1.0, "zorder": 2}
        edge: dict[str, Any] = {"markeredgecolor": colour, "markeredgewidth": 1.3, "zorder": 3}
        for eps, each in found.items():
            if each.ci95 is not None:
                axis.plot([places[eps] + shift] * 2, each.ci95, **bar)
            _draw_points(axis, [(places[eps] + shift, each.value)], marker=marker, color=colour, **edge)
