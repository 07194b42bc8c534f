"""The style of pictures, and how they become files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.folder import report_write_errors
from foltr_audit.recorder import atomic_files
from foltr_audit.utils.optional_dependencies import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that colour-blind readers can tell apart (Okabe & Ito 2008, "Color universal design")."""

STYLES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
"""Styles of lines and marks of points, in the order of the colours."""

DIM = "#777777"
THIN: Mapping[str, Any] = {"color": DIM, "linestyle": (0, (2, 2)), "linewidth": 0.9, "zorder": 1}
"""A dotted line in the background."""

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
_UNDATED = {".svg": {"Date": None}, ".png": {}, ".pdf": {"CreationDate": None}}

FORMATS = tuple(_UNDATED)
"""What the name of a picture may end in."""


@contextmanager
def picture_style() -> Iterator[None]:
    """The settings of matplotlib for a picture; a user's own are restored afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        yield


def look(number: int) -> dict[str, Any]:
    """Colour and mark of a thing by its number among others."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches, which a notebook shows without pyplot."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    shown: Any = figure
    # No subclass, which would import matplotlib with this module.
    shown._repr_svg_ = lambda: _picture(figure, ".svg").decode()
    return figure


def _picture(figure: Figure, suffix: str) -> bytes:
    """A figure as a file of one of `FORMATS`; the same figure gives the same bytes."""
    picture = io.BytesIO()
    with picture_style():
        figure.savefig(picture, format=suffix[1:], dpi=200, metadata=_UNDATED[suffix])
    return picture.getvalue()


def save_picture(path: Path, draw: Callable[[], Figure]) -> None:
    """Draw a figure into a file whose name ends in one of `FORMATS`; the same figure gives the same bytes.

    Raises:
        FoltrAuditError: the file cannot be written.
    """
    with picture_style():
        picture = _picture(draw(), path.suffix.lower())
    with report_write_errors(path):
        atomic_files.write_bytes(path, picture)


def check_picture(path: Path, runs: Path | None) -> None:
    """Refuse a picture that could not be written, before anything is computed.

    Raises:
        UsageError: its name ends in none of `FORMATS`, its folder is missing or that of the `runs`, which
            holds nothing else, it is a folder itself, or the extra `plot` is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--plot: {path}: expected a name ending in .svg, .png or .pdf")
    if runs is not None and runs.resolve() in path.resolve().parents:
        raise UsageError(f"--plot: {path}: {runs} is reserved for Runs; expected a name outside of it")
    if not path.parent.is_dir():
        raise UsageError(f"--plot: {path}: no such folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--plot: {path}: the folder {path.parent} is read-only; expected another one")
    if path.is_dir():
        raise UsageError(f"--plot: {path} is a folder; expected the name of a file")
    require("plot", "--plot")
