"""A report as typed rows: its JSON and its schema; in a notebook as text, HTML, a data frame or a file."""

from __future__ import annotations

import importlib.util
import io
import textwrap
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.folder import report_write_errors
from foltr_audit.recorder import atomic_files
from foltr_audit.report.pictures.style import FORMATS, picture_style, save_picture
from foltr_audit.report.render.csv import csv_text, every_column
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.tables.table import Cell, Column, Table
from foltr_audit.report.terminal import ResultConsole
from foltr_audit.utils.formatting import JsonValue, json_text, visible
from foltr_audit.utils.rows import ResultRow, schema_of

if TYPE_CHECKING:
    from typing import Never

    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.report.render.terminal import BriefAnswer


def _require(package: str, method: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise UsageError(f"{method}: {package} is not installed; pip install {package}")


class NotebookReport:
    """The result of a call, which shows itself as the last line of a notebook cell.

    Example:
        >>> import foltr_audit as fa
        >>> report = fa.calibrate(1.2, parameters=46, mechanisms=["laplace"])
        >>> print(report.summary().splitlines()[0])
        Of 1 mechanism, 1 has noise that proves epsilon 1.2.
        >>> report.to_frame().columns[:3]
        ['mechanism', 'sum_only', 'defense']
    """

    def __init_subclass__(cls) -> None:
        """Keep the short text: each data class would get one of all its fields."""
        super().__init_subclass__()
        if "__repr__" not in vars(cls):
            cls.__repr__ = NotebookReport.__repr__  # type: ignore[method-assign]

    @abstractmethod
    def json(self) -> str:
        """Everything as one JSON object."""

    @abstractmethod
    def rows(self) -> list[dict[str, JsonValue]]:
        """The main rows with the columns that they have in JSON."""

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich, as `--full` does."""
        print_table(every_column(self.rows()), console)

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table; None for a report that is short as a whole."""
        return None

    def figure(self) -> Figure:
        """The picture of the report, drawn by matplotlib in the style that is set."""
        raise UsageError(f"{type(self).__name__} has no picture; .summary() has its numbers")

    def summary(self, *, full: bool = False) -> str:
        """The report in words and tables of at most 100 columns.

        Args:
            full: everything, as `--full` prints it; else the short answer.
        """
        answer = None if full else self.short_answer()
        if answer is None:
            return plain_text(self.show)
        return plain_text(partial(answer.print, how=".summary(full=True)"))

    def plot(self) -> Figure:
        """A picture of the main numbers, as a figure of matplotlib.

        Raises:
            UsageError: the report has no picture, or matplotlib is not installed.
        """
        _require("matplotlib", "plot")
        with picture_style():
            return self.figure()

    def to_frame(self) -> pl.DataFrame:
        """The main rows as a polars data frame."""
        import polars as pl

        return pl.DataFrame(self.rows(), infer_schema_length=None)

    def to_pandas(self) -> pd.DataFrame:
        """The main rows as a pandas data frame; pandas alone is enough, no pyarrow.

        Raises:
            UsageError: pandas is not installed.
        """
        _require("pandas", "to_pandas")
        import pandas as pd

        return pd.DataFrame(self.rows())

    def save(self, path: str | Path) -> None:
        """Write the report to a file.

        Args:
            path: its ending says what is written: `.json` everything; `.csv` the main rows; `.txt` the
                full text; `.html` the short answer; `.svg`, `.png` or `.pdf` the picture.

        Raises:
            UsageError: another ending, or no picture.
            FoltrAuditError: it cannot be written.
        """
        save(self, Path(path))

    def __repr__(self) -> str:
        """At most ten lines: the conclusion, and what the report holds."""
        return ten_lines(self)

    def _repr_html_(self) -> str:
        """The short answer for a notebook; every text is escaped."""
        return fragment(self)


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
    out = io.StringIO()
    draw(ResultConsole(width=WIDTH, file=out))
    return out.getvalue().strip("\n")


def ten_lines(report: NotebookReport) -> str:
    """The conclusion of a report, cut to ten lines, and how to see the rest."""
    rows = len(report.rows())
    head = f"{type(report).__name__}: {rows} row{'s' * (rows != 1)}"
    last = "more: .summary(), .plot(), .to_frame(), .save(PATH)"
    answer = report.short_answer()
    lines = plain_text(report.show).splitlines() if answer is None else list(_said(answer))
    lines = [line for line in lines if line.strip()]
    most = _LINES - 2
    if len(lines) > most:
        lines = [*lines[: most - 1], "..."]
    return "\n".join([head, *lines, last])


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
    heads = "".join(f"<th>{_text(' '.join(heading.header.split()))}</th>" for heading in table.columns)
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


@dataclass(frozen=True, kw_only=True)
class PlainReport(NotebookReport, ResultRow):
    """A result as typed rows, the fields of a subclass, of which the last one holds its main rows.

    Attributes:
        SCHEMA: name and version of its JSON.
    """

    SCHEMA: ClassVar[str]

    def table(self) -> dict[str, JsonValue]:
        """Everything as one plain table with its schema."""
        return {"schema": self.SCHEMA, **self.plain()}

    def json(self, more: Mapping[str, object] | None = None) -> str:
        """Everything as one JSON object, with the fields of `more` after it."""
        return json_text({**self.table(), **(more or {})})

    def rows(self) -> list[dict[str, JsonValue]]:
        """The main rows with the columns that they have in JSON."""
        rows = getattr(self, fields(self)[-1].name)
        return [row.plain() if isinstance(row, ResultRow) else row for row in rows]

    @classmethod
    def schema(cls) -> dict[str, JsonValue]:
        """The whole document as a JSON Schema (draft 2020-12)."""
        schema = super().schema()
        columns = cast("dict[str, JsonValue]", schema["properties"])
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": cls.SCHEMA,
            "type": "object",
            "properties": {"schema": {"const": cls.SCHEMA}, **cast("dict[str, JsonValue]", _short(columns))},
            "required": ["schema", *cast("list[JsonValue]", schema["required"])],
            "$defs": dict(_DEFINITIONS),
        }


_DEFINITIONS: dict[str, JsonValue] = {
    "number": schema_of(float),
    "interval": schema_of(tuple[float, float] | None),
}


def _short(schema: JsonValue) -> JsonValue:
    """A schema with references to the definitions of numbers and intervals."""
    for name, definition in _DEFINITIONS.items():
        if schema == definition:
            return {"$ref": f"#/$defs/{name}"}
    if isinstance(schema, list):
        return [_short(part) for part in schema]
    return {name: _short(part) for name, part in schema.items()} if isinstance(schema, dict) else schema
