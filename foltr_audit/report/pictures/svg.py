"""Pictures as SVG inside a page, in the colours of the page, so that they fit its light and dark themes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from foltr_audit.report.pictures.style import COLOURS, picture_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
