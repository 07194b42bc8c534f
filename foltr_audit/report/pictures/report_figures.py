"""The picture of each report: attacks by AUC, audits by epsilon, candidates by what they leak and keep."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from foltr_audit.experiments.presets import RANDOM
from foltr_audit.report.pictures.compare_panels import draw_ladder
from foltr_audit.report.results.attack_rows import AttackRow
from foltr_audit.report.results.base import setting_label
from foltr_audit.report.tables.columns import group_by_world

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from foltr_audit.report.results.attack import AttackReport

_WIDTH, _LINE = 4.6, 0.24  # inches: of a panel, of a line in it
_BESIDE = 3


def attack_figure(report: AttackReport) -> Figure:
    """The AUC of every attack and guess, highest on top, a panel for each world and system.

    Random guesses are the dotted line at .5.
    """
    settings = [row.setting for row in report.results]
    worlds = group_by_world(report.results)
    several = len({repr(one) for one in settings}) > 1
    panels: dict[str, list[AttackRow]] = {}
    for world, rows in worlds.items():
        for row in rows:
            names = [*([world] if len(worlds) > 1 or not several else [])]
            names += [setting_label(row.setting, settings)] if several else []
            panels.setdefault(_in_lines(", ".join(names)), []).append(row)
    kept = {
        title: [row for row in rows if not row.method.startswith(RANDOM)] for title, rows in panels.items()
    }
    heads = max((title.count("\n") for title in kept), default=0)
    most = max((len(rows) for rows in kept.values()), default=1)
    figure, axes = _panels(len(kept), 1.2 + 0.2 * heads + _LINE * most)
    for axis, (title, rows) in zip(axes, kept.items(), strict=False):
        draw_ladder(axis, rows)
        axis.set_title(title)
    return figure


def _in_lines(title: str) -> str:
    """A title in lines that fit a panel."""
    return "\n".join(textwrap.wrap(title.replace("+", "+ "), 44)).replace("+ ", "+")


def _panels(count: int, height: float, width: float = _WIDTH) -> tuple[Figure, list[Axes]]:
    """A figure with panels of a height, at most three side by side."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(max(count, 1), _BESIDE)
    lines = -(-max(count, 1) // columns)
    figure = Figure(
        figsize=(width * columns, height * lines), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    )
    axes = list(figure.subplots(lines, columns, squeeze=False).ravel())
    for axis in axes[count:] if count else ():
        axis.set_axis_off()
    return figure, axes
