"""The style of pictures, and pictures as SVG for pages."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
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
