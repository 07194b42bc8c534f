"""The outcomes of a check as a table: on a terminal, and as Markdown for the summary page of a build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.evidence.check.limit_check import LimitOutcome
from foltr_audit.recorder import atomic_files
from foltr_audit.report.render.document import escape_markdown, table_lines
from foltr_audit.report.render.terminal import BriefAnswer, first_rows, print_table
from foltr_audit.report.tables.table import Cell, Column, Mark, make_table

if TYPE_CHECKING:
    from rich.console import Console

    from foltr_audit.evidence.check.report import CheckReport

_MARKS: dict[str, Mark] = {"holds": "good", "broken": "bad", "not judged": "warn"}


def _by(text: str) -> str:
    return text.replace("by ", "by\n")


_COLUMNS = (
    Column[LimitOutcome]("limit", lambda one: one.limit, "name"),
    Column[LimitOutcome]("row", lambda one: one.subject, "name", only="page"),
    Column[LimitOutcome]("", lambda one: Cell(one.status, mark=_MARKS[one.status]), "name"),
    Column[LimitOutcome]("value", lambda one: one.value_text, narrow=_by),
    Column[LimitOutcome]("interval", lambda one: one.interval_text()),
    Column[LimitOutcome]("allowed", lambda one: one.allowed_text, "name"),
    Column[LimitOutcome]("of", lambda one: one.details, "name", only="page"),
)


def print_check(report: CheckReport, console: Console) -> None:
    """Print a table for each subject with the details of its rows, and a summary line."""
    for subject in dict.fromkeys(one.subject for one in report.outcomes):
        mine = [one for one in report.outcomes if one.subject == subject]
        console.print(escape(subject), style="italic", highlight=False)
        print_table(make_table("", _COLUMNS, mine, space=2, spare=("interval",)), console)
        for one in mine:
            console.print(f"  {escape(f'{one.limit}: {one.details}')}", style="dim", highlight=False)
        console.print()
    console.print(report.counts, style="bold", highlight=False)


def brief_check(report: CheckReport) -> BriefAnswer:
    """The short answer: broken limits first, then those that cannot be judged, then the others."""
    ranked = [one for status in ("broken", "not judged", "holds") for one in report.of_status(status)]
    rows, more = first_rows(ranked, "limits")
    return BriefAnswer(
        conclusion=(f"{report.counts}.",),
        about="",
        table=make_table("", _COLUMNS, rows, space=2, spare=("interval",)),
        notes=tuple(one.line for one in report.of_status("broken")),
        left_out=more,
    )


def markdown(report: CheckReport) -> str:
    """A heading, a table of all outcomes, and the warnings."""
    lines = [
        f"### foltr-audit check: {report.counts}",
        "",
        *table_lines(make_table("", _COLUMNS, report.outcomes).on("page")),
        "",
        *(f"- warning {row.code}: {escape_markdown(row.warning)}" for row in report.warnings),
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
