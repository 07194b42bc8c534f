"""Draws the rooms for ARCHITECTURE.md from the import graph: `python -m tests.rooms_picture`.

One row for each room, the highest first: its name, the first sentence of its docstring, and a dot under each
room that it imports. A dot left of the diagonal would be an import against the order.
"""

from __future__ import annotations

import ast
import textwrap
from html import escape

from tests.fixtures.import_graph import ROOMS, ROOT, edges, tree

PICTURE = ROOT / "docs" / "static" / "rooms.svg"
ROW, COLUMN, TOP, NAMES, WORDS = 36, 26, 96, 104, 470
"""Height of a row, width of a column, height of the header, widths of names and of descriptions; pixels."""

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2933 }
.name { font-weight: 600 }
.words { font-size: 12px; fill: #52606d }
.line { stroke: #d9e2ec }
.self { fill: #cbd2d9 }
.dot { fill: #2f6fb5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb } .words { fill: #9aa5b1 } .line { stroke: #3e4c59 } .self { fill: #52606d }
  .dot { fill: #7cb7f2 }
}
"""


def description(room: str) -> str:
    """The first sentence of a room's docstring."""
    return (ast.get_docstring(tree(f"foltr_audit.{room}")) or "").partition("\n")[0]


def render_header(rooms: list[str]) -> list[str]:
    """The names of the imported rooms, turned by 60 degrees above their columns."""
    places = [NAMES + WORDS + COLUMN * i + COLUMN // 2 for i in range(len(rooms))]
    return [
        f'<text transform="translate({x + 4},{TOP - 10}) rotate(-60)">{escape(room)}</text>'
        for x, room in zip(places, rooms, strict=True)
    ]


def render_row(room: str, row: int, rooms: list[str], counts: dict[tuple[str, str], int]) -> list[str]:
    """Name, description and dots of one room."""
    top = TOP + ROW * row
    middle = top + ROW // 2
    lines = textwrap.wrap(description(room), 78)[:2]
    first = middle + 4 - 7 * (len(lines) - 1)
    parts = [
        f'<line class="line" x1="0" x2="{NAMES + WORDS + COLUMN * len(rooms)}" y1="{top}" y2="{top}"/>',
        f'<text class="name" x="4" y="{middle + 4}">{escape(room)}</text>',
        *(
            f'<text class="words" x="{NAMES}" y="{first + 14 * i}">{escape(line)}</text>'
            for i, line in enumerate(lines)
        ),
    ]
    for column, other in enumerate(rooms):
        kind = "self" if other == room else "dot" if counts.get((room, other)) else None
        if kind is not None:
            x = NAMES + WORDS + COLUMN * column + COLUMN // 2
            title = f"{room} imports {other}" if kind == "dot" else room
            parts.append(
                f'<circle class="{kind}" cx="{x}" cy="{middle}" r="5"><title>{title}</title></circle>'
            )
    return parts


def render() -> str:
    """The picture as SVG."""
    rooms, counts = list(reversed(ROOMS)), dict(edges())
    width, height = NAMES + WORDS + COLUMN * len(rooms) + 40, TOP + ROW * len(rooms) + 8
    body = render_header(rooms)
    for row, room in enumerate(rooms):
        body += render_row(room, row, rooms, counts)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            "<title>The rooms of foltr_audit and what each imports</title>",
            f"<style>{STYLE}</style>",
            *body,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(render(), encoding="utf-8")
