"""Documents: their blocks, and their form in Markdown and HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import ClassVar, NamedTuple

from foltr_audit.report.pictures.style import COLOURS
from foltr_audit.report.table import Cell, Table


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
    kind: ClassVar[str]

    text: str


class Paragraph(TextBlock):
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


def markdown(document: ReportDocument) -> str:
    """The text; what it quotes is shown literally, never as markup."""
    lines = [f"# {escape_markdown(document.title)}", "", escape_markdown(document.subtitle), ""]
    for section in document.shown:
        if all(isinstance(block, Pictures) for block in section.blocks):
            continue
        lines += [f"## {escape_markdown(section.title)}", ""]
        for block in section.blocks:
            found = list(_lines(block))
            lines += [*found, ""] if found else []
    return "\n".join([*lines, escape_markdown(document.made_by), ""])


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows literally.

    >>> escape_markdown("a|b<c>*d*")
    'a\\|b&lt;c&gt;\\*d\\*'
    """
    plain = escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~#$])", r"\\\1", plain)


def table_lines(table: Table) -> Iterator[str]:
    """A table line by line, without its title and caption; marks of warning are bold."""
    names = [f"{one.group}: {one.header}" if one.group else one.header for one in table.columns]
    yield f"| {' | '.join(map(escape_markdown, names))} |"
    yield f"|{'|'.join(' ---: ' if one.numeric else ' --- ' for one in table.columns)}|"
    for line in table.lines:
        yield f"| {' | '.join(map(_cell, line.cells))} |"


def _cell(cell: Cell) -> str:
    text = escape_markdown(f"{cell.text} ({cell.below})" if cell.below else cell.text)
    return f"**{text}**" if cell.mark in ("bad", "warn") else text


def _lines(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table(block.on("page"))
    elif isinstance(block, CodeBlock):
        # Longer than every run of backticks in the text: else quoted text could end the block and become
        # markup.
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
        yield from (fence, *block.text.rstrip("\n").split("\n"), fence)
    elif isinstance(block, BulletList):
        yield from (f"- {escape_markdown(text)}" for text in block.texts)
    elif isinstance(block, Subheading):
        yield f"### {escape_markdown(block.text)}"
    elif isinstance(block, Notice | Conclusion):
        yield f"**{escape_markdown(block.text)}**"
    elif isinstance(block, Paragraph):
        yield escape_markdown(block.text)


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield from (f"**{escape_markdown(table.title)}**", "")
    yield from table_lines(table)
    if table.caption:
        yield from ("", escape_markdown(table.caption))


def html_page(document: ReportDocument) -> str:
    """A document as the text of an HTML page. The same document gives the same page.

    The template escapes every value, so that whatever the document quotes is shown as text. A value that the
    document lacks is an error. Pictures are SVG inside the page, in the colours of the reader's theme.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("foltr_audit.report.render", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("document.html.j2").render(document=document, colours=len(COLOURS))
