"""A document as Markdown with tables as GitHub has them; pictures are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from foltr_audit.report.render.document import (
    Block,
    BulletList,
    CodeBlock,
    Conclusion,
    Notice,
    Paragraph,
    Pictures,
    ReportDocument,
    Subheading,
)
from foltr_audit.report.tables.table import Cell, Table


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
