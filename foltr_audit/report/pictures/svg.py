"""Pictures as SVG inside a page, in the colours of the page, so that they fit its light and dark themes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from foltr_audit.report.pictures.style import COLOURS, UNDATED, picture_style

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

_LOOK: Mapping[str, Any] = {"svg.fonttype": "none", "savefig.transparent": True}


def inline_svg(draw: Callable[[], Figure], title: str, name: str) -> str:
    """A figure as an SVG element; the same figure gives the same text.

    Args:
        draw: makes the figure, in colours of `THEME` only.
        title: what it shows, for screen readers.
        name: prefix of its ids, which must be unique in the page; letters, digits and `-`.
    """
    buffer = io.BytesIO()
    with picture_style(_LOOK):
        draw().savefig(buffer, format="svg", metadata=UNDATED[".svg"])
    text = buffer.getvalue().decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    start, _, rest = text.partition(">")
    spaces = " ".join(re.findall(r'(?:viewBox|xmlns|xmlns:xlink)="[^"]*"', start))
    heading = f'<title id="{name}-title">{escape(title)}</title>'
    return f'<svg {spaces} role="img" aria-labelledby="{name}-title">{heading}' + _themed(_named(rest, name))


def _named(text: str, name: str) -> str:
    """Prefix the ids that other parts refer to, and drop the others."""
    # Several pictures share one page, where an id must be unique: the name of the picture keeps them apart.
    used = set(re.findall(r"(?:url\(#|href=\"#)([\w.-]+)", text))
    text = re.sub(
        r' id="([^"]*)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", text
    )
    return re.sub(r"(url\(#|href=\"#)", rf"\g<1>{name}-", text)


def _themed(text: str) -> str:
    """Replace colours by variables of the page and its fonts, and drop white space.

    matplotlib only accepts colours that it can draw, so CSS variables are set afterwards. Texts between tags
    stay as they are: a data set may be called `#000000`.
    """

    def themed(tag: re.Match[str]) -> str:
        found = re.sub(r"#[0-9a-f]{6}\b", lambda colour: THEME.get(colour[0], colour[0]), tag[0])
        return re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", found)

    return re.sub(r">\s+<", "><", re.sub(r"<[^>]*>", themed, text)).strip()
