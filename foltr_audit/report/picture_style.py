"""The style of pictures, and pictures as SVG for pages."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foltr_audit.experiments.runs.folder import report_write_errors
from foltr_audit.recorder import atomic_files
from foltr_audit.report.table import short_method

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FORMATS = (".svg", ".png", ".pdf")
"""What the name of a picture may end in."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that colour-blind readers can tell apart (Okabe & Ito 2008, "Color universal design")."""

_LOOK: Mapping[Any, Any] = {
    "svg.hashsalt": "foltr-audit",  # without it ids in the file are random
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 6.0,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
}
UNDATED: Mapping[str, Mapping[str, Any]] = {
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
    ".png": {},
}
"""Metadata of a picture by its ending, so that the same figure is the same bytes."""


def save_picture(path: Path, draw: Callable[[], Figure]) -> None:
    """Draw a figure into a file whose name ends in one of `FORMATS`.

    Raises:
        FoltrAuditError: the file cannot be written.
    """
    picture, suffix = io.BytesIO(), path.suffix.lower()
    with picture_style():
        draw().savefig(picture, format=suffix[1:], dpi=200, metadata=dict(UNDATED[suffix]))
    with report_write_errors(path):
        atomic_files.write_bytes(path, picture.getvalue())


@contextmanager
def picture_style(more: Mapping[Any, Any] | None = None) -> Iterator[None]:
    """The settings of matplotlib for a picture, with `more`; a user's own are restored afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        matplotlib.rcParams.update(more or {})
        yield


# --- panels ----------------------------------------------------------------------------------------

LINE = 0.24
"""Inches of a line of a panel."""

_WIDTH, _BESIDE = 4.6, 3  # inches of a panel, and panels side by side
_DIM = "#777777"


def panels(count: int, height: float, width: float = _WIDTH) -> tuple[Figure, list[Axes]]:
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


def draw_ladder(axis: Axes, rows: Iterable[Mapping[str, Any]]) -> None:
    """AUC of every attack on one defense with its interval, highest on top; guesses hollow.

    The rows have the columns `method`, `baseline` and `auc`.
    """
    known = [row for row in rows if row["auc"].known]
    known.sort(key=lambda row: (row["auc"].value, not row["baseline"]))
    axis.axvline(0.5, color=_DIM, linestyle=(0, (2, 2)), linewidth=0.9, zorder=1)
    for place, row in enumerate(known):
        colour, auc = _DIM if row["baseline"] else COLOURS[1], row["auc"]
        if auc.ci95 is not None:
            axis.plot(auc.ci95, [place, place], color=colour, linewidth=1.4, alpha=0.6, zorder=2)
        axis.plot(
            [auc.value],
            [place],
            linestyle="none",
            marker="o" if row["baseline"] else "D",
            color="#ffffff" if row["baseline"] else colour,
            markeredgecolor=colour,
            markeredgewidth=1.3,
            zorder=3,
        )
    axis.set_yticks(range(len(known)), [short_method(row["method"]) for row in known])
    axis.set_ylim(-0.7, max(len(known), 1) - 0.3)
    axis.set_xlim(min(0.45, min((row["auc"].value for row in known), default=0.5) - 0.05), 1.02)
    axis.set_xlabel("AUC")
    axis.grid(visible=False, axis="y")


# --- pages -----------------------------------------------------------------------------------------

THEME = {
    **{colour.lower(): f"var(--c{number})" for number, colour in enumerate(COLOURS, start=1)},
    "#000000": "var(--ink)",
    "#ffffff": "var(--paper)",
    "#777777": "var(--dim)",
    "#b0b0b0": "var(--grid)",
}
"""The CSS variable of the page for each colour of a picture."""


def inline_svg(draw: Callable[[], Figure], title: str, name: str) -> str:
    """A figure as an SVG element; the same figure gives the same text.

    Args:
        draw: makes the figure, in colours of `THEME` only.
        title: what it shows, for screen readers.
        name: of the picture, unique in the page; letters, digits and `-`.
    """
    buffer = io.BytesIO()
    # The salt keeps the ids that a picture refers to apart from those of others on the page.
    look = {"svg.fonttype": "none", "svg.hashsalt": name, "savefig.transparent": True}
    unnamed = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with picture_style(look):
        draw().savefig(buffer, format="svg", metadata=unnamed)
    text = buffer.getvalue().decode("utf-8")
    start, _, rest = text[text.index("<svg") :].partition(">")
    heading = f'<title id="{name}-title">{escape(title)}</title>'
    rest = re.sub(r' id="[\w.]+_\d+"', "", rest)  # counted ids, which nothing refers to
    rest = re.sub(r' style="[^"]*"', _themed, rest)
    return f'{start} role="img" aria-labelledby="{name}-title">{heading}{rest.strip()}'


def _themed(style: re.Match[str]) -> str:
    """A style in variables and the font of the page: matplotlib takes only colours that it can draw."""
    found = style[0]
    for colour, variable in THEME.items():
        found = found.replace(colour, variable)
    return re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", found)
