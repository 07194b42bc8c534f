"""A document as Markdown with tables as GitHub has them; pictures are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from foltr_audit.report.render.document import (
    Block,
    BulletList,
    CodeBlock,
    DocumentTable,
    Notice,
    Paragraph,
    Pictures,
    ReportDocument,
    Subheading,
)


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

    >>> quoted("a|b<c>*d*")
    'a\\|b&lt;c&gt;\\*d\\*'
    """
    plain = escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~#$])", r"\\\1", plain)


def table_lines(
    headings: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool]
) -> Iterator[str]:
    """A table line by line, out of texts that are Markdown already.

    Args:
        headings: of the columns.
        rows: a cell for each column.
        numeric: whether a column's cells stand at the right.
    """
    yield f"| {' | '.join(headings)} |"
    yield f"|{'|'.join(' ---: ' if right else ' --- ' for right in numeric)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _lines(block: Block) -> Iterator[str]:
    if isinstance(block, DocumentTable):
        yield from _table(block)
    elif isinstance(block, CodeBlock):
        # Longer than every run of backticks in the text: else quoted text could end the block and become
        # markup.
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
        yield from (fence, *block.text.rstrip("\n").split("\n"), fence)
    elif isinstance(block, BulletList):
        yield from (f"- {escape_markdown(text)}" for text in block.texts)
    elif isinstance(block, Subheading):
        yield f"### {escape_markdown(block.text)}"
    elif isinstance(block, Notice):
        yield f"**{escape_markdown(block.text)}**"
    elif isinstance(block, Paragraph):
        yield escape_markdown(block.text)


def _table(table: DocumentTable) -> Iterator[str]:
    yield f"**{escape_markdown(table.caption)}**"
    yield ""
    names = [f"{one.group}: {one.text}" if one.group else one.text for one in table.headings]
    rows = (
        [escape_markdown(f"{one.text} ({one.below})" if one.below else one.text) for one in row]
        for row in table.rows
    )
    yield from table_lines(list(map(escape_markdown, names)), rows, [one.numeric for one in table.headings])
    if table.notes:
        yield ""
        yield escape_markdown(table.notes)
