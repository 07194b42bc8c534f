"""A document as Markdown with tables as GitHub has them; pictures are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from foltr_audit.report.document import Block, Code, Document, Items, Notice, Part, Pictures, Table, Words


def markdown(document: Document) -> str:
    """The text; what it quotes is shown as it is, and never as markup."""
    lines = [f"# {quoted(document.title)}", "", quoted(document.subtitle), ""]
    for section in document.shown:
        if all(isinstance(block, Pictures) for block in section.blocks):
            continue
        lines += [f"## {quoted(section.title)}", ""]
        for block in section.blocks:
            found = list(_lines(block))
            lines += [*found, ""] if found else []
    return "\n".join([*lines, quoted(document.made_by), ""])


def quoted(text: str) -> str:
    r"""Text that Markdown takes for nothing else.

    >>> quoted("a|b<c>*d*")
    'a\\|b&lt;c>\\*d\\*'
    """
    plain = re.sub(r"\s+", " ", text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", plain)


def _lines(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Code):
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
        yield from (fence, *block.text.rstrip("\n").split("\n"), fence)
    elif isinstance(block, Items):
        yield from (f"- {quoted(text)}" for text in block.texts)
    elif isinstance(block, Part):
        yield f"### {quoted(block.title)}"
    elif isinstance(block, Notice):
        yield f"**{quoted(block.text)}**"
    elif isinstance(block, Words):
        yield quoted(block.text)


def _table(table: Table) -> Iterator[str]:
    yield f"**{quoted(table.caption)}**"
    yield ""
    names = [f"{one.group}: {one.text}" if one.group else one.text for one in table.headings]
    yield f"| {' | '.join(map(quoted, names))} |"
    yield f"|{'|'.join(' ---: ' if one.numeric else ' --- ' for one in table.headings)}|"
    for row in table.rows:
        cells = [f"{entry.text} ({entry.below})" if entry.below else entry.text for entry in row]
        yield f"| {' | '.join(map(quoted, cells))} |"
    if table.notes:
        yield ""
        yield quoted(table.notes)
