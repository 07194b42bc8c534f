"""A report in a notebook: as text, as a piece of HTML, and as a file."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from foltr_audit.errors import UsageError
from foltr_audit.report.results.notebook_report import NotebookReport
from foltr_audit.report.tables.table import Cell, Column, Table
from foltr_audit.utils.formatting import visible

if TYPE_CHECKING:
    from typing import Never

    from rich.console import Console

    from foltr_audit.report.tables.brief.short_answer import BriefAnswer

WIDTH = 100
"""Columns of a text."""

_LINES = 10
_STYLES = {
    "good": "color:#00694c;font-weight:600",
    "bad": "color:#a83a00;font-weight:600",
    "warn": "font-weight:600",
    "dim": "opacity:.65",
    "": "",
}


def plain_text(draw: Callable[[Console], object]) -> str:
    """What is printed on a console without colours."""
    from foltr_audit.report.render.console import ResultConsole

    out = io.StringIO()
    draw(ResultConsole(width=WIDTH, file=out))
    return out.getvalue().strip("\n")


def ten_lines(report: NotebookReport) -> str:
    """The conclusion of a report, cut to ten lines, and how to see the rest."""
    rows = len(report.rows())
    head = f"{type(report).__name__}: {rows} row{'s' * (rows != 1)}"
    last = "more: .summary(), .plot(), .to_frame(), .save(PATH)"
    answer = report.short_answer()
    said = plain_text(report.show).splitlines() if answer is None else list(_said(answer))
    said = [line for line in said if line.strip()]
    most = _LINES - 2
    if len(said) > most:
        said = [*said[: most - 1], "..."]
    return "\n".join([head, *said, last])


def _said(answer: BriefAnswer) -> Iterator[str]:
    for line in (*answer.conclusion, *answer.notes):
        yield from textwrap.wrap(visible(line), WIDTH)


def fragment(report: NotebookReport) -> str:
    """The short answer as a piece of HTML that needs no style sheet; every text is escaped."""
    answer = report.short_answer()
    if answer is None:
        return f"<pre>{escape(plain_text(report.show))}</pre>"
    parts = [f"<p><strong>{_text(line)}</strong></p>" for line in answer.conclusion]
    if answer.table is not None:
        parts.append(_table(answer.table.on("page")))
    parts += [f"<p>{_text(line)}</p>" for line in answer.notes]
    parts.append(f"<p><small>{_text(answer.about)}</small></p>" if answer.about else "")
    return f"<div>{''.join(parts)}</div>"


def _text(text: str) -> str:
    return escape(visible(text))


def _table(table: Table) -> str:
    heads = "".join(f"<th>{_text(' '.join(one.header.split()))}</th>" for one in table.columns)
    lines = "".join(
        f"<tr{_style('dim') if line.dim else ''}>"
        + "".join(_cell(column, cell) for column, cell in zip(table.columns, line.cells, strict=True))
        + "</tr>"
        for line in table.lines
    )
    title = f"<caption>{_text(table.title)}</caption>" if table.title else ""
    below = f"<p><small>{_text(table.caption)}</small></p>" if table.caption else ""
    return f"<table>{title}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{below}"


def _cell(column: Column[Never], cell: Cell) -> str:
    below = f"<br><small>{_text(cell.below)}</small>" if cell.below else ""
    side = "right" if column.numeric else "left"
    return f'<td style="text-align:{side};{_STYLES[cell.mark]}">{_text(cell.text)}{below}</td>'


def _style(mark: str) -> str:
    return f' style="{_STYLES[mark]}"'


def save(report: NotebookReport, path: Path) -> None:
    """Write a report to a file, in the form that the ending of its name says.

    Raises:
        UsageError: another ending, or a folder that does not exist.
        FoltrAuditError: it cannot be written.
    """
    from foltr_audit.experiments.runs.folder import report_write_errors
    from foltr_audit.recorder import atomic_files
    from foltr_audit.report.pictures.style import FORMATS, save_picture
    from foltr_audit.report.render.csv import csv_text, every_column

    forms: dict[str, Callable[[], str]] = {
        ".json": report.json,
        ".csv": lambda: csv_text(every_column(report.rows())),
        ".txt": lambda: report.summary(full=True),
        ".html": lambda: f'<!doctype html>\n<meta charset="utf-8">\n{fragment(report)}',
    }
    suffix = path.suffix.lower()
    if suffix not in (*forms, *FORMATS):
        expected = ", ".join((*forms, *FORMATS))
        raise UsageError(f"save: {path}: expected a name that ends in {expected}")
    if not path.parent.is_dir():
        raise UsageError(f"save: {path}: no such folder {path.parent}")
    if suffix in FORMATS:
        save_picture(path, report.plot)
        return
    text = forms[suffix]().rstrip("\n") + "\n"
    with report_write_errors(path):
        atomic_files.write_text(path, text)
