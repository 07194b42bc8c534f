"""The style of pictures, and how they become files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foltr_audit.experiments.runs.folder import report_write_errors
from foltr_audit.recorder import atomic_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FORMATS = (".svg", ".png", ".pdf")
"""What the name of a picture may end in."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that colour-blind readers can tell apart (Okabe & Ito 2008, "Color universal design")."""

STYLES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
"""Styles of lines and marks of points, in the order of the colours."""

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
