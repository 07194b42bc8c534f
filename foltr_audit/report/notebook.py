"""What the results of calls can do in a notebook: text, HTML, data frames, pictures and files."""

from __future__ import annotations

import csv
import io
import json
import re
import textwrap
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.core.warning_kinds import CodedWarning, warning_lines
from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.folder import report_write_errors
from foltr_audit.recorder import atomic_files
from foltr_audit.report.picture_style import FORMATS, picture_style, save_picture
from foltr_audit.report.table import Cell, Column, Table, counted, make_table
from foltr_audit.report.terminal import ResultConsole, print_lines, print_table
from foltr_audit.utils.formatting import JsonValue, json_ready, visible
from foltr_audit.utils.optional_dependencies import require

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.report.terminal import BriefAnswer


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

    MORE: ClassVar[str] = ".summary(), .plot(), .to_frame(), .save(PATH)"
    """What else there is to ask for, at the end of short texts."""
    NAMED_BY: ClassVar[tuple[str, ...]] = ()
    """Columns that name a row where it is logged; others only where they tell rows apart."""

    def __init_subclass__(cls) -> None:
        """Keep the short text: each data class would get one of all its fields."""
        super().__init_subclass__()
        if "__repr__" not in vars(cls):
            cls.__repr__ = NotebookReport.__repr__  # type: ignore[method-assign]

    def __dir__(self) -> list[str]:
        """What completion offers: no settings in capitals, and nothing that only commands call."""
        attributes = (each for kind in type(self).__mro__ for each in vars(kind).items())
        makers = {name for name, value in attributes if isinstance(value, classmethod | staticmethod)}
        hidden = makers | _CALLED_BY_COMMANDS
        return [name for name in super().__dir__() if name not in hidden and not name.isupper()]

    @abstractmethod
    def json(self) -> str:
        """Everything as one JSON object."""

    @abstractmethod
    def rows(self) -> list[dict[str, JsonValue]]:
        """The main rows with the columns that they have in JSON."""

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich, as `--full` does."""
        rows = self.rows()
        names = dict.fromkeys(name for row in rows for name in row)
        print_table(make_table("", [Column(name, name, "words") for name in names], rows), console)

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table; None for a report that is short as a whole."""
        return None

    def show_short(self, console: Console, *, quiet: bool = False) -> None:
        """Print the short answer, of it the conclusion alone if `quiet`; without one the whole report."""
        answer = self.short_answer()
        if answer is None:
            self.show(console)
        else:
            answer.print(console, quiet=quiet)

    @property
    def coded_warnings(self) -> list[CodedWarning]:
        """What a reader should know before using the numbers."""
        return [CodedWarning(row["code"], row["warning"]) for row in getattr(self, "warnings", ())]

    def figure(self) -> Figure:
        """The picture of the report, drawn by matplotlib in the style that is set."""
        raise UsageError(f"{type(self).__name__} has no picture; .summary() has its numbers")

    def summary(self, *, full: bool = False) -> str:
        """The short answer, or everything if `full`, in words and tables of at most 100 columns."""
        answer = None if full else self.short_answer()

        def draw(console: Console) -> None:
            if answer is None:
                self.show(console)
            else:
                answer.print(console, how=".summary(full=True)")
            print_lines(self._warned(every=full), console)

        return plain_text(draw)

    def html(self) -> str:
        """The short answer as a page of its own, without style sheet and script."""
        head = '<html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        return f"<!doctype html>\n{head}<title>{type(self).__name__}</title>\n{self._answer_html()}"

    def plot(self) -> Figure:
        """A picture of the main numbers, if the report has one, as a figure of matplotlib (the extra `plot`).

        As the last line of a cell it is shown, with `%matplotlib inline` or without.
        """
        require("plot", ".plot()")
        with picture_style():
            return self.figure()

    def to_frame(self) -> pl.DataFrame:
        """The main rows as a polars data frame."""
        import polars as pl

        return pl.DataFrame(self.rows(), infer_schema_length=None)

    def to_pandas(self) -> pd.DataFrame:
        """The main rows as a pandas data frame; pandas alone is enough, no pyarrow."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def save(self, path: str | Path) -> None:
        """Write the report to a file, whose ending says what is written.

        `.json` is everything; `.csv` the main rows; `.txt` the full text; `.html` the page of a comparison,
        or the short answer; `.svg`, `.png` or `.pdf` the picture, with the extra `plot`.
        """
        place = Path(path)
        forms: dict[str, Callable[[], str]] = {
            ".json": self.json,
            ".csv": lambda: csv_text(self.rows()),
            ".txt": lambda: self.summary(full=True),
            ".html": self.html,
        }
        suffix = place.suffix.lower()
        if suffix not in (*forms, *FORMATS):
            expected = ", ".join((*forms, *FORMATS))
            raise UsageError(f"save: {place}: expected a name that ends in {expected}")
        if not place.parent.is_dir():
            raise UsageError(f"save: {place}: no such folder {place.parent}")
        if suffix in FORMATS:
            require("plot", f"save: {place}")
            save_picture(place, self.plot)
            return
        text = forms[suffix]().rstrip("\n") + "\n"
        with report_write_errors(place):
            atomic_files.write_text(place, text)

    def log(self, tracker: object) -> None:
        """Log the report in the active run of MLflow or Weights & Biases, or in a run of the latter.

        The numbers of the main rows become metrics such as `attack/olsr/perfect/auc`, with the round as step
        where there is one; the settings parameters, with the hashes of the Spec and of the report; page and
        JSON an artifact. An infinite number is a tag of MLflow. A run takes one report of each kind.

        Args:
            tracker: the module `mlflow`, the module `wandb`, or what `wandb.init` returns.

        Raises:
            UsageError: something else is given. What the tracker raises stays as it is.
        """
        from foltr_audit.report.tracking import log_report

        log_report(
            tracker, self.json(), [dict(_flat(row)) for row in self.rows()], self.NAMED_BY, self.html()
        )

    def __repr__(self) -> str:
        """At most ten lines: the conclusion, how many warnings there are, and what the report holds."""
        answer = self.short_answer()
        texts = plain_text(self.show).splitlines() if answer is None else [*answer.conclusion, *answer.notes]
        lines, warned = _wrapped(texts), _wrapped(warning_lines(self.coded_warnings, _WARNINGS))
        room = _LINES - len(warned)
        if len(lines) > room:
            last = lines[-1:] if answer is None else []  # which counts what was found
            lines = [*lines[: room - 1 - len(last)], "...", *last]
        head = f"{type(self).__name__}: {counted(len(self.rows()), 'row')}"
        return "\n".join([head, *lines, *warned, f"more: {self.MORE}"])

    def _warned(self, *, every: bool = False) -> list[str]:
        """The warnings: all, or the first of each code, how many more there are, and where."""
        told = list(dict.fromkeys(self.coded_warnings))
        counts = Counter(warning.code for warning in told)
        if every or len(told) == len(counts):
            return [f"warning {warning}" for warning in told]
        first = {warning.code: warning for warning in reversed(told)}
        more = {code: f" ({count - 1} more of {code})" if count > 1 else "" for code, count in counts.items()}
        return [
            *(f"warning {first[code]}{how_many}" for code, how_many in more.items()),
            *warning_lines(told, _WARNINGS),
        ]

    def _repr_html_(self) -> str:
        return f"<div>{self._answer_html()}<p><small>more: {_text(self.MORE)}</small></p></div>"

    def _answer_html(self) -> str:
        """The short answer as HTML that needs no style sheet; every text is escaped."""
        answer = self.short_answer()
        if answer is None:
            parts = [f"<pre>{escape(plain_text(self.show))}</pre>"]
        else:
            parts = [f"<p><strong>{_text(line)}</strong></p>" for line in answer.conclusion]
            parts += [] if answer.table is None else [table_html(answer.table.on("page"))]
            parts += [f"<p>{_text(line)}</p>" for line in answer.notes]
        parts += [f"<p>{_text(line)}</p>" for line in self._warned()]
        parts += [f"<p><small>{_text(answer.about)}</small></p>"] if answer and answer.about else []
        return "".join(parts)


_CALLED_BY_COMMANDS = {"figure", "plain", "print_end", "save_rounds", "short_answer", "show", "show_short"}


WIDTH = 100  # of a text
_WARNINGS = "report.coded_warnings"  # where Python shows all of them
_LINES = 8  # of a short text, between its first and its last
# The ground of a notebook may be light or dark, and no ink is readable on both: an ink brings its ground.
_STYLES = {
    "good": "color:#00422f;background:#d5f2e6;font-weight:600",
    "bad": "color:#7a1f00;background:#fde2d3;font-weight:600",
    "warn": "color:#4d3800;background:#fdeec2;font-weight:600",
    "dim": "opacity:.8",
    "": "",
}
_DIM = f' style="{_STYLES["dim"]}"'


def plain_text(draw: Callable[[Console], object]) -> str:
    """What is printed on a console without colours."""
    out = io.StringIO()
    draw(ResultConsole(width=WIDTH, file=out))
    return out.getvalue().strip("\n")


def _wrapped(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(visible(text), WIDTH) if line.strip()]


def _text(text: str) -> str:
    return escape(visible(text))


@dataclass(frozen=True)
class FramedPage:
    """A whole page, which a notebook shows in a frame: its script can reach nothing of the notebook."""

    title: str
    html: str

    def __repr__(self) -> str:
        return f"{self.title}\nA page of {len(self.html):,} characters; report.save(FILE.html) writes it."

    def _repr_html_(self) -> str:
        # Of what HTML escapes in an attribute only these two occur often; quotes of the page are double.
        page = self.html.replace("&", "&amp;").replace("'", "&#39;")
        return (
            f'<iframe title="{escape(self.title)}" sandbox="allow-scripts" width="100%" height="760" '
            f"style=\"border:0\" srcdoc='{page}'></iframe>"
            "<p><small>A page without a frame, where none is allowed: report.save(FILE.html)</small></p>"
        )


def table_html(table: Table) -> str:
    """A table as a piece of HTML; every text is escaped."""
    headers = (" ".join(column.header.split()) for column in table.columns)
    heads = "".join(f'<th scope="col">{_text(header)}</th>' for header in headers)
    lines = "".join(
        f"<tr{_DIM if line.dim else ''}>"
        + "".join(map(_cell, table.columns, line.cells, ['th scope="row"', *["td"] * (len(line.cells) - 1)]))
        + "</tr>"
        for line in table.lines
    )
    title = f"<caption>{_text(table.title)}</caption>" if table.title else ""
    below = f"<p><small>{_text(table.explained)}</small></p>" if table.explained else ""
    return f"<table>{title}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{below}"


def _cell(column: Column, cell: Cell, tag: str) -> str:
    below = f"<br><small>{_text(cell.below)}</small>" if cell.below else ""
    side = "right" if column.align == "number" else "left"
    style = f"text-align:{side};{_STYLES[cell.mark]}"
    return f'<{tag} style="{style}">{_text(cell.text)}{below}</{tag[:2]}>'


CI95 = "_ci95"
"""Ending of the column that holds the 95 % interval of the column before it."""

# With these a spreadsheet starts a formula; a negative number is none.
_FORMULA = re.compile(r"[=+@\t\r]|-(?!(inf|[\d.]+(e[+-]?\d+)?)\Z)")


def csv_text(rows: Sequence[Mapping[str, JsonValue]]) -> str:
    """All columns of some plain rows, one line for each row below the names.

    An interval is two columns, `_low` and `_high`; values in a list are joined by `; `, and unknown ones are
    empty. Texts that a spreadsheet would take for a formula begin with `'`.
    """
    flat = [{name: _csv_value(value) for name, value in _flat(row)} for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    out = io.StringIO()
    # csv ends lines with CR LF by default; our other text files have LF.
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([row.get(name, "") for name in names] for row in flat)
    return out.getvalue()


def _flat(row: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    for name, value in row.items():
        if name.endswith(CI95):
            low, high = value if isinstance(value, list) else (None, None)
            yield from ((f"{name}_low", low), (f"{name}_high", high))
        else:
            yield name, value


def _csv_value(value: JsonValue) -> str:
    ready = json_ready(value)
    if isinstance(ready, list):
        ready = "; ".join(json.dumps(each) if isinstance(each, dict) else str(each) for each in ready)
    text = "" if ready is None else str(ready)
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # the csv module leaves a lone CR unquoted
    return f"'{lines}" if _FORMULA.match(text) else lines
