"""Writes the outcomes of a check as Markdown, for the summary page of a build."""

from __future__ import annotations

from pathlib import Path

from foltr_audit.evidence.check.limit_check import LimitOutcome
from foltr_audit.evidence.check.report import CheckReport
from foltr_audit.report.render.markdown import escape_markdown, table_lines
from foltr_audit.report.tables.table import Cell, Column, Mark, make_table
from foltr_audit.utils import atomic_files

_MARKS: dict[str, Mark] = {"holds": "", "broken": "bad", "not judged": "warn"}
_COLUMNS = (
    Column[LimitOutcome]("limit", lambda one: one.limit, "name"),
    Column[LimitOutcome]("row", lambda one: one.subject, "name"),
    Column[LimitOutcome]("", lambda one: Cell(one.status, mark=_MARKS[one.status]), "name"),
    Column[LimitOutcome]("value", lambda one: one.value_text, "name"),
    Column[LimitOutcome]("interval", lambda one: one.interval_text(), "name"),
    Column[LimitOutcome]("allowed", lambda one: one.allowed_text, "name"),
    Column[LimitOutcome]("of", lambda one: one.missing if one.status == "not judged" else one.about, "name"),
)


def markdown(report: CheckReport) -> str:
    """A heading, a table of all outcomes, and the warnings."""
    lines = [
        f"### foltr-audit check: {report.summary}",
        "",
        *table_lines(make_table("", _COLUMNS, report.outcomes)),
        "",
        *(f"- warning: {escape_markdown(text)}" for text in report.warnings),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def append(path: Path, text: str) -> None:
    """Append a text to a file after an empty line; create the file if it does not exist.

    Raises:
        OSError: it cannot be read or written.
    """
    before = path.read_bytes() if path.exists() else b""
    if before.strip():
        before = before.rstrip(b"\n") + b"\n\n"
    atomic_files.write_bytes(path, before + text.encode())
