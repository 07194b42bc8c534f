"""Pictures as SVG inside a page: their colours are the page's, so that they read well in light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from foltr_audit.report.pictures.style import COLOURS, UNDATED, looking

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THEME = {
    **{colour.lower(): f"var(--c{number})" for number, colour in enumerate(COLOURS, start=1)},
    "#000000": "var(--ink)",
    "#ffffff": "var(--paper)",
    "#777777": "var(--dim)",
    "#b0b0b0": "var(--grid)",
}
"""What each colour of a picture is called in the page's style."""

_LOOK: Mapping[str, Any] = {"svg.fonttype": "none", "savefig.transparent": True}


def inline_svg(draw: Callable[[], Figure], title: str, name: str) -> str:
    """A figure as an SVG element; the same figure gives the same text.

    Args:
        draw: makes the figure, in colours of `THEME` only.
        title: what it shows, for who does not see it.
        name: sets its names of parts apart from other pictures of the page; letters, digits and `-`.
    """
    buffer = io.BytesIO()
    with looking(_LOOK):
        draw().savefig(buffer, format="svg", metadata=UNDATED[".svg"])
    text = buffer.getvalue().decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    start, _, rest = text.partition(">")
    spaces = " ".join(re.findall(r'(?:viewBox|xmlns|xmlns:xlink)="[^"]*"', start))
    heading = f'<title id="{name}-title">{escape(title)}</title>'
    return f'<svg {spaces} role="img" aria-labelledby="{name}-title">{heading}' + _themed(_named(rest, name))


def _named(text: str, name: str) -> str:
    """The parts that others refer to with a name of their own, the others without one."""
    used = set(re.findall(r"(?:url\(#|href=\"#)([\w.-]+)", text))
    text = re.sub(
        r' id="([^"]*)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", text
    )
    return re.sub(r"(url\(#|href=\"#)", rf"\g<1>{name}-", text)


def _themed(text: str) -> str:
    """Colours as names of the page's style, its letters instead of matplotlib's; less white space.

    Only inside of tags: what users called their data stays as it is.
    """

    def themed(tag: re.Match[str]) -> str:
        found = re.sub(r"#[0-9a-f]{6}\b", lambda colour: THEME.get(colour[0], colour[0]), tag[0])
        return re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", found)

    return re.sub(r">\s+<", "><", re.sub(r"<[^>]*>", themed, text)).strip()
