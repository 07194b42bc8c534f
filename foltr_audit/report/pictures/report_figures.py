"""The picture of each report: attacks by AUC, audits by epsilon, candidates by what they leak and keep."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from foltr_audit.report.pictures.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from foltr_audit.report.results.audit import AuditReport, FindingRow
    from foltr_audit.report.results.recommend import CandidateRow, RecommendReport

_WIDTH, _LINE = 4.6, 0.24  # inches: of a panel, of a line in it
_BESIDE = 3


def _in_lines(title: str) -> str:
    """A title in lines that fit a panel."""
    return "\n".join(textwrap.wrap(title.replace("+", "+ "), 44)).replace("+ ", "+")


def audit_figure(report: AuditReport) -> Figure:
    """For each finding the claimed epsilon, what is proven, and what trials show."""
    rows = report.results
    figure, (axis, *_) = _panels(1, 1.4 + 2 * _LINE * len(rows), 2 * _WIDTH)
    marks = {
        "claimed": ("|", COLOURS[6], [row.setting.eps_claimed for row in rows]),
        "proven: at most": ("<", COLOURS[0], [row.eps_upper for row in rows]),
        "shown by trials: at least": (">", COLOURS[1], [row.eps_lower for row in rows]),
    }
    for label, (marker, colour, values) in marks.items():
        known = [(value, place) for place, value in enumerate(values) if math.isfinite(value)]
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
    axis.set_yticks(range(len(rows)), [_finding(row, rows) for row in rows])
    axis.set_ylim(-0.7, max(len(rows), 1) - 0.3)
    axis.invert_yaxis()
    axis.set_xlim(left=0.0)
    axis.set_xlabel("epsilon")
    figure.legend(loc="outside lower center", ncols=3, handlelength=1.0)
    return figure


def _finding(row: FindingRow, among: Sequence[FindingRow]) -> str:
    names = ("defense", "sees", "unit", "canary", "run")
    differ = [name for name in names if len({getattr(one, name) for one in among}) > 1]
    said = ", ".join(str(getattr(row, name)) for name in differ or ["sees"])
    return _in_lines(f"{said}: {row.verdict}")


def recommend_figure(report: RecommendReport) -> Figure:
    """Every candidate on the validation split: the AUC of the strongest attack on it against its nDCG@10."""
    figure, (axis, *_) = _panels(1, 4.0)
    shown = [row for row in report.candidates if row.auc.known and row.ndcg is not None]
    _candidates(axis, shown, COLOURS[0], "candidate")
    chosen = report.recommended
    if chosen is not None and chosen.auc.known and chosen.ndcg is not None:
        _candidates(axis, [chosen], COLOURS[1], f"chosen: {chosen.name}", 10.0)
    limit = report.config.limits.max_auc
    if limit is not None:
        axis.axvline(limit, color=COLOURS[6], linestyle="dashed", linewidth=0.9, label="limit")
    axis.set_xlabel("AUC of the strongest attack (left is private)")
    axis.set_ylabel("nDCG@10 on the validation split")
    figure.legend(loc="outside lower center", ncols=3, handlelength=1.2)
    return figure


def noise_figure(noise: Mapping[str, float], title: str) -> Figure:
    """The standard deviation of the noise of each mechanism, on a logarithmic axis, least noise on top."""
    figure, (axis, *_) = _panels(1, 1.2 + _LINE * len(noise))
    ranked = sorted(noise.items(), key=lambda one: one[1])
    axis.plot([sd for _, sd in ranked], range(len(ranked)), linestyle="none", marker="D", color=COLOURS[0])
    axis.set_yticks(range(len(ranked)), [name for name, _ in ranked])
    axis.set_ylim(-0.7, max(len(ranked), 1) - 0.3)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_xlabel("standard deviation on one coordinate of the average")
    axis.set_title(title)
    return figure


def _candidates(axis: Axes, rows: Sequence[CandidateRow], colour: str, label: str, size: float = 6.0) -> None:
    values = [float("nan") if row.ndcg is None else row.ndcg for row in rows]
    axis.plot(
        [row.auc.value for row in rows],
        values,
        linestyle="none",
        marker="o",
        markersize=size,
        color=colour,
        label=label,
    )


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
