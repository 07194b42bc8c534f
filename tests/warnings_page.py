"""Writes the warnings by code into docs/pitfalls.md: `python -m tests.warnings_page`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from foltr_audit.core.warning_kinds import WARNINGS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "pitfalls.md"
HEADING = "## Warnings by code"


def sections() -> Iterator[str]:
    for kind in WARNINGS.values():
        anchor = re.sub(r"[^\w\- ]", "", kind.section.lower()).replace(" ", "-")
        more = f" [Example](#{anchor})." if kind.section else ""
        text = re.sub(
            r"(--[a-z][\w-]*(?: NAME=VALUE)?|\+secure-aggregation)",
            r"`\1`",
            kind.text,
        )
        yield f"### {kind.code}\n\n**{kind.title}.** {text}{more}\n"


def render() -> str:
    head = PAGE.read_text(encoding="utf-8").partition(HEADING)[0].rstrip()
    intro = (
        "`foltr-audit list warnings CODE` prints the paragraph of a code, and `foltr-audit list warnings` "
        "lists them all."
    )
    return "\n".join([head, "", HEADING, "", intro, "", *sections()])


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
