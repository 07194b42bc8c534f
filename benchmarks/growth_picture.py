"""Growth curves of `benchmarks.scale`: time and memory per unit against the size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import BenchmarkFigure
from benchmarks.scale import TEXTS
from foltr_audit.report.picture_style import COLOURS, save_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = {"time": "processor time a unit", "memory": "peak memory a unit"}


def curve(figures: Sequence[BenchmarkFigure], subject: str, measure: str) -> tuple[list[int], list[float]]:
    """Sizes of a subject, rising, and what a unit takes at each."""
    start = f"scale.{subject}.{measure}_"
    found = {
        int(one.key.removeprefix(start)): one.value
        for one in figures
        if one.key.startswith(start) and one.key.removeprefix(start).isdigit()
    }
    return sorted(found), [found[size] for size in sorted(found)]


def draw_growth(path: Path, figures: Sequence[BenchmarkFigure]) -> None:
    """Draw both measures of every subject into one file, each as multiples of the value at its smallest size.

    Raises:
        ValueError: the figures have no growth curve.
        FoltrAuditError: the file cannot be written.
    """
    if not curve(figures, "clients", "time")[0]:
        raise ValueError("no growth curves; expected figures of `--only scale`")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_picture(path, lambda: _figure(figures))


def _figure(figures: Sequence[BenchmarkFigure]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    for axis, (measure, title) in zip(figure.subplots(1, 2, sharey=True), MEASURES.items(), strict=True):
        for subject, colour in zip(TEXTS, COLOURS, strict=False):
            sizes, values = curve(figures, subject, measure)
            if sizes:
                times = [value / values[0] for value in values]
                axis.plot(sizes, times, color=colour, marker="o", label=subject)
        axis.axhline(1.5, color="#777777", linestyle=(0, (2, 2)), linewidth=0.9)
        axis.set_xscale("log")
        axis.set_ylim(0.0, 2.0)
        axis.set_xlabel("size")
        axis.set_title(f"{title}, multiples of the smallest size")
    figure.axes[0].legend()
    return figure
