"""Writes the outcomes of a check as Markdown, for the summary page of a build."""

from __future__ import annotations

from pathlib import Path

from foltr_audit.evidence.check.limit_check import LimitOutcome
from foltr_audit.evidence.check.report import CheckReport
from foltr_audit.report.render.markdown import escape_markdown, table_lines
from foltr_audit.utils import atomic_files

_HEADINGS = ("limit", "row", "", "value", "interval", "allowed", "of")
_STATUS = {"holds": "holds", "broken": "**broken**", "not judged": "**not judged**"}


def markdown(report: CheckReport) -> str:
    """A heading, a table of all outcomes, and the warnings."""
    lines = [
        f"### foltr-audit check: {report.summary}",
        "",
        *table_lines(_HEADINGS, map(_cells, report.outcomes), [False] * len(_HEADINGS)),
        "",
        *(f"- warning: {escape_markdown(text)}" for text in report.warnings),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _cells(one: LimitOutcome) -> tuple[str, ...]:
    about = one.missing if one.status == "not judged" else one.about
    texts = (one.value_text, one.interval_text(), one.allowed_text, about)
    return (
        escape_markdown(one.limit),
        escape_markdown(one.subject),
        _STATUS[one.status],
        *(escape_markdown(text) for text in texts),
    )


def append(path: Path, text: str) -> None:
    """Append a text to a file after an empty line; create the file if it does not exist.

    Raises:
        OSError: it cannot be read or written.
    """
    before = path.read_bytes() if path.exists() else b""
    if before.strip():
        before = before.rstrip(b"\n") + b"\n\n"
    atomic_files.write_bytes(path, before + text.encode())
