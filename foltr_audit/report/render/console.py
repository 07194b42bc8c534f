"""The console that results are printed on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from foltr_audit.utils.formatting import visible

UNLIMITED = 10_000
"""Width where lines have no end: nothing is wrapped for a pipe or a file."""


class ResultConsole(Console):
    """A console whose lines end without blanks, and whose texts cannot control a terminal.

    Attributes:
        label: added to the title of every table.
    """

    def __init__(self, label: str = "", *, width: int | None = None, file: TextIO | None = None) -> None:
        """Print on stdout, or into a file without colours."""
        if file is None:
            super().__init__(width=width)
        else:
            super().__init__(width=width, file=file, color_system=None, force_terminal=False)
        self.label = label

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render, without blanks at the end of lines, and without what a terminal would obey in texts."""
        harmless = (
            piece if piece.control else Segment(visible(piece.text), piece.style)
            for piece in super().render(renderable, options)
        )
        return _without_last_blanks(harmless)


def _without_last_blanks(pieces: Iterable[Segment]) -> Iterator[Segment]:
    line: list[Segment] = []
    for piece in pieces:
        if piece.control:
            line.append(piece)
            continue
        *whole, rest = piece.text.split("\n")
        for text in whole:
            yield from _stripped([*line, Segment(text, piece.style)])
            yield Segment("\n")
            line = []
        if rest:
            line.append(Segment(rest, piece.style))
    yield from line


def _stripped(line: list[Segment]) -> list[Segment]:
    while line and not line[-1].control:
        last = line.pop()
        if text := last.text.rstrip(" "):
            return [*line, Segment(text, last.style)]
    return line
