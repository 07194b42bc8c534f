"""A report as headings, words, tables and pictures, before it is HTML or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from foltr_audit.report.tables.table import Table


class LegendKey(NamedTuple):
    """One entry of a legend: a mark, the number of its colour (None for the colour of words), its meaning."""

    glyph: str
    colour: int | None
    text: str


class PicturePanel(NamedTuple):
    """One picture.

    Attributes:
        svg: an inline SVG, see `pictures.svg`; it has a title of its own.
        title: what it shows.
    """

    svg: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Pictures of one kind, side by side.

    Attributes:
        caption: how to read them.
        legend: what the marks mean.
        panels: the pictures.
        wide: whether they need twice the room.
    """

    kind: ClassVar[str] = "pictures"

    caption: str
    panels: Sequence[PicturePanel]
    legend: Sequence[LegendKey] = ()
    wide: bool = False


@dataclass(frozen=True)
class TextBlock:
    """A block that is one text."""

    kind: ClassVar[str]

    text: str


class Paragraph(TextBlock):
    """A paragraph."""

    kind = "words"


class Notice(TextBlock):
    """A paragraph that nobody should miss."""

    kind = "notice"


class Conclusion(TextBlock):
    """The answer that a reader came for."""

    kind = "conclusion"


class CodeBlock(TextBlock):
    """Commands, or a file."""

    kind = "code"


class Subheading(TextBlock):
    """A heading below a section's."""

    kind = "part"


@dataclass(frozen=True)
class BulletList:
    """A list."""

    kind: ClassVar[str] = "items"

    texts: Sequence[str]


Block = Table | Pictures | Paragraph | Notice | Conclusion | BulletList | CodeBlock | Subheading


@dataclass(frozen=True)
class DocumentSection:
    """A heading and what stands below it.

    Attributes:
        title: the heading.
        anchor: name for links.
        blocks: in order.
    """

    title: str
    anchor: str
    blocks: Sequence[Block]


@dataclass(frozen=True, kw_only=True)
class ReportDocument:
    """A whole report.

    Attributes:
        title: its heading.
        subtitle: the data, in one line.
        sections: those without a block are left out.
        made_by: the last line.
    """

    title: str
    subtitle: str
    sections: Sequence[DocumentSection] = field(default_factory=list)
    made_by: str = ""

    @property
    def shown(self) -> list[DocumentSection]:
        """The sections that hold something."""
        return [section for section in self.sections if section.blocks]
