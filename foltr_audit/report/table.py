"""The one model of a table, and how values become its cells; rendered to a terminal and a page.

>>> columns = [Column("method", "method"), Column("AUC", "auc")]
>>> table = make_table("attacks", columns, [{"method": "a", "auc": 0.5}])
>>> [cell.text for cell in table.lines[0].cells]
['a', '.500']
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.results import Estimate
from foltr_audit.utils.formatting import epsilon, name_in, short

Align = Literal["number", "name", "fold", "line", "words"]
Mark = Literal["", "good", "bad", "warn", "dim"]
Medium = Literal["terminal", "page"]
"""A terminal; or a page, as HTML or Markdown, which has room for every column."""

UNKNOWN_TEXT = "-"
"""In the place of a value that is not known, or of a claim that is not made."""


class Cell(NamedTuple):
    """One cell of a table: a text, another one below it, e.g. its interval, and how it is highlighted."""

    text: str
    below: str = ""
    mark: Mark = ""


EMPTY = Cell(UNKNOWN_TEXT, mark="dim")


def value_cell(value: object) -> Cell:
    """A value as a cell: a share without its leading zero, an estimate with its interval below it."""
    if value is None:
        return Cell(UNKNOWN_TEXT)
    if isinstance(value, Estimate):
        return estimate_cell(value)
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, int):
        return Cell(f"{value:,}")
    return Cell(short(value) if isinstance(value, float) else str(value))


def estimate_cell(estimate: Estimate) -> Cell:
    """A number with its interval below it."""
    return Cell(short(estimate.value), interval_text(estimate)) if estimate.known else EMPTY


def estimate_text(estimate: Estimate) -> str:
    """A number and its interval in one line."""
    return " ".join(filter(None, estimate_cell(estimate)[:2]))


def interval_text(estimate: Estimate, digits: int = 2) -> str:
    """The interval of an estimate in brackets; empty without one.

    >>> interval_text(Estimate(0.953, (0.94, 0.961)))
    '[.94, .96]'
    """
    if estimate.ci95 is None:
        return ""
    return f"[{', '.join(short(end, digits) for end in estimate.ci95)}]"


def known_or(number: float | None, unknown: float) -> float:
    """A number, or another one where it is not known."""
    return unknown if number is None or math.isnan(number) else number


def percent(value: float | None) -> str:
    """A share as a percentage; `-` where there is none."""
    return UNKNOWN_TEXT if value is None or math.isnan(value) else f"{100 * value:.1f} %"


def whole_percent(share: float | None) -> str:
    """A share in a sentence."""
    return "an unknown share" if share is None or math.isnan(share) else f"{100 * share:.0f} %"


def bound_text(value: float | None) -> str:
    """A proven or measured epsilon: three digits, `∞` where nothing bounds it, `-` where it is not known."""
    return UNKNOWN_TEXT if value is None else "∞" if math.isinf(value) else f"{value:.3g}"


def claim_text(value: float) -> str:
    """A claimed epsilon; `-` where nothing is claimed."""
    return UNKNOWN_TEXT if math.isinf(value) else epsilon(value)


def delta_text(delta: float) -> str:
    """The delta of a claim; empty where it is 0."""
    return f"delta {delta:g}" if delta else ""


def verdict_cell(claimed: float, verdict: str) -> Cell:
    """The verdict on a claimed epsilon; `no claim` where none is made: not to be refuted is no merit then."""
    text = "no claim" if math.isinf(claimed) and verdict == "not refuted" else verdict
    mark: Mark = "bad" if verdict in (*FALSE, CONTRADICTION) else "good" if verdict == "proven" else ""
    return Cell(text, mark=mark)


NAME_WIDTH = 19  # of a narrow column: that of the longest usual part, `secure-aggregation,`


def name_lines(name: str) -> str:
    r"""The name of a defense in lines that end after its parts.

    >>> name_lines("proven-skellam+secure-aggregation, eps 1.2")
    'proven-skellam +\nsecure-aggregation,\neps 1.2'
    """
    lines = [""]
    for part in re.findall(r".+?(?:[+,:] |$)", re.sub(r"\+(?=[A-Za-z])", " + ", name)):
        pieces = [part] if len(part.rstrip()) <= NAME_WIDTH else re.findall(r"[^,]+,* ?", part)
        for piece in pieces:
            if len((lines[-1] + piece).rstrip()) > NAME_WIDTH:
                lines.append("")
            lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines if line)


def method_lines(name: str) -> str:
    r"""The name of a method in lines that end after its parameters.

    >>> method_lines("higher-distance:compare=positions,more_than=4")
    'higher-distance:\ncompare=positions,\nmore_than=4'
    """
    return name if len(name) <= NAME_WIDTH else "\n".join(re.findall(r".+?(?:[:,]|$)", name))


def short_method(text: str) -> str:
    """A method without its parameters, e.g. `map` for `map:guess=pattern`; random guesses keep theirs."""
    return text if text.startswith("random:") else name_in(text)


def counted(count: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def capitalised(sentence: str) -> str:
    """A sentence with a capital at its start; other letters stay, unlike with `str.capitalize`."""
    return sentence[:1].upper() + sentence[1:]


def shortened(names: Sequence[str]) -> str:
    """Up to five names in a sentence, or four and how many more."""
    more = len(names) - 4
    return "; ".join(names if more < 2 else [*names[:4], f"and {more} more"])


Accessor = str | Callable[[Any], Cell | str]
"""The name of a column of a row, or what makes the cell of a row."""


@dataclass(frozen=True)
class Column:
    """A column, which makes its cells from rows.

    Attributes:
        of: the name of a row's column, see `value_cell`; or the cell of a row. Every renderer escapes it.
        align: `number` at the right on one line, `name` at the left on one line, `fold` broken anywhere,
            `line` broken only where the text says so, `words` broken between words.
        beside: whether the second text of a cell stands beside the first on a wide terminal.
        narrow: what the text becomes on a narrow terminal.
        only: the medium that shows it, if not every one does.
    """

    header: str
    of: Accessor
    align: Align = "number"
    beside: bool = False
    narrow: Callable[[str], str] | None = None
    only: Medium | None = None

    def cell(self, row: Any) -> Cell:
        if isinstance(self.of, str):
            return value_cell(row.get(self.of))
        value = self.of(row)
        return Cell(value) if isinstance(value, str) else value

    @property
    def wraps(self) -> bool:
        """Whether a narrow terminal breaks its lines anywhere between words."""
        return self.align in ("words", "fold") and self.narrow is None


class Line(NamedTuple):
    """A line of a table, which may be less important than others; a rule separates different sections."""

    cells: tuple[Cell, ...]
    dim: bool = False
    section: object = None


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: the text below it: unit and yardstick of its numbers.
        notes: what a column means, by its header; said where the column is shown.
        space, narrow_space: blanks between columns on a terminal, and on one that is too narrow for it.
        spare: headers of columns that a narrow terminal leaves out first, the least important first.
    """

    title: str
    columns: Sequence[Column]
    lines: Sequence[Line]
    caption: str = ""
    space: int = 1
    narrow_space: int = 0
    spare: Sequence[str] = ()
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def explained(self) -> str:
        """What its columns mean, and its caption."""
        shown = {column.header for column in self.columns}
        notes = [text for header, text in self.notes.items() if header in shown]
        return "; ".join(filter(None, (*notes, self.caption)))

    def on(self, medium: Medium) -> Table:
        """The table with the columns that a medium shows."""
        return self._with([n for n, column in enumerate(self.columns) if column.only in (None, medium)])

    def without(self, header: str) -> Table:
        """The table without the columns of a header."""
        return self._with([n for n, column in enumerate(self.columns) if column.header != header])

    def _with(self, kept: Sequence[int]) -> Table:
        lines = [line._replace(cells=tuple(line.cells[n] for n in kept)) for line in self.lines]
        return replace(self, columns=[self.columns[n] for n in kept], lines=lines)


def make_table(
    title: str,
    columns: Sequence[Column],
    rows: Iterable[Any],
    *,
    caption: str = "",
    dim: Callable[[Any], bool] | None = None,
    section: Callable[[Any], object] | None = None,
    space: int = 1,
    narrow_space: int = 0,
    spare: Sequence[str] = (),
    notes: Mapping[str, str] | None = None,
) -> Table:
    """A table with a line for each row; `dim` and `section` of a row as in `Line`, the rest as in `Table`."""
    lines = [
        Line(
            tuple(column.cell(row) for column in columns),
            dim is not None and dim(row),
            None if section is None else section(row),
        )
        for row in rows
    ]
    return Table(title, columns, lines, caption, space, narrow_space, spare, notes or {})


_LOOKS: Mapping[str, dict[str, Any]] = {
    "beside": {"align": "name", "beside": True},
    "method": {"align": "fold", "narrow": method_lines},
    "defense": {"align": "name", "narrow": name_lines},
    "attack": {"align": "name", "narrow": short_method},
}


def columns_of(text: str, only: Medium | None = None) -> list[Column]:
    """Columns as text, `HEADER=NAME:FORM` and separated by `; `; without a name it is the header.

    A form is how a column is aligned, or a number of digits, without an interval; `beside`, an interval
    stands beside its number; `%`, a share; `eps`, a bound; `claim`, a claimed epsilon; or names that a narrow
    terminal shortens: of a `method`, a `defense` or an `attack`.

    >>> [column.cell({"n": 3, "eps": 1.23456}).text for column in columns_of("n; at most=eps:eps")]
    ['3', '1.23']
    """
    made = []
    for each in text.split("; "):
        head, _, form = each.partition(":")
        header, _, name = head.partition("=")
        made.append(Column(header, only=only, **_form(name or header, form)))
    return made


def _form(name: str, form: str) -> dict[str, Any]:
    texts: dict[str, Callable[[Any], str]] = {
        "%": lambda row: percent(row.number(name)),
        "eps": lambda row: bound_text(row[name]),
        "claim": lambda row: claim_text(row[name]) if name in row else "",
    }
    if form.isdigit():
        return {"of": lambda row: short(row.number(name), int(form))}
    if form in texts:
        return {"of": texts[form]}
    return {"of": name, **_LOOKS.get(form, {"align": form or "number"})}
