"""What `tables/*.toml` declare: runs, the tables that they fill, excerpts of tables, and published claims."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from foltr_audit.errors import UsageError

FOLDER = Path(__file__).with_name("tables")
FORMATS = ("share", "number", "percent", "text")
"""How a value is printed: `share` as .123, `number` with thousands separated, `percent`, or as it is."""

VERDICTS = ("holds", "does not hold", "cannot be said")

Row = Mapping[str, Any]
D = TypeVar("D")


@dataclass(frozen=True, kw_only=True)
class DeclaredRun:
    """A command whose rows are stored.

    Attributes:
        name: its name.
        command: `foltr-audit ...` or `python -m benchmarks.NAME ...`, which prints one JSON object; `{data}`
            stands for the path of its data, `{intents}` for the qrels of their intents.
        data: name of its data, see `benchmarks.results.data_folders`; none for synthetic data.
    """

    name: str
    command: str
    data: str = ""


@dataclass(frozen=True, kw_only=True)
class DeclaredTable:
    """A file of `results/`.

    Attributes:
        name: name of the file, without `.json`.
        title: one sentence.
        runs: names of its runs, in the order of their rows.
        rows: key of the list of rows in the JSON of a run, with dots for nested objects.
        about: keys that say what a row is about; `data` is the title of the run's data.
        found: keys of what was found.
    """

    name: str
    title: str
    runs: Sequence[str]
    rows: str
    about: Sequence[str]
    found: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """A column of an excerpt: a value of the rows of a group.

    Attributes:
        head: its heading.
        value: key of the row.
        interval: key of the value's 95 % interval, or the keys of its two ends joined by a comma; empty for a
            value without one.
        where: the row of the group that it shows; all keys and values must match.
        format: one of `FORMATS`.
        digits: after the point.
    """

    head: str
    value: str
    interval: str = ""
    where: Row = field(default_factory=dict)
    format: str = "share"
    digits: int = 3

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise UsageError(f"column {self.head}: format {self.format!r}; expected {', '.join(FORMATS)}")


@dataclass(frozen=True, kw_only=True)
class TableExcerpt:
    """What the page shows of a table.

    Attributes:
        name: its place in the page is `{{ name }}`.
        table: name of the table.
        by: keys whose values make a group; each group is one line.
        columns: its columns.
        where: the rows that it shows; a list stands for any of its values.
    """

    name: str
    table: str
    by: Sequence[str]
    columns: Sequence[TableColumn]
    where: Row = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PublishedClaim:
    """A published sentence, or one of our own, and the rule that judges it from intervals.

    Attributes:
        paper: its place in the page is `{{ claims of PAPER }}`.
        table: name of the table whose rows judge it.
        published: the claim, with its source.
        of: the tables and figures that it is about, e.g. `wang-2021 table 2`.
        note: words behind the range of the judged values.
        where: the rows that are judged; each must hold.
        value: key of the judged value.
        digits: of the judged values, after the point.
        interval: key of its 95 % interval, or the keys of its two ends joined by a comma.
        at_least, at_most: a bound that the whole interval must keep.
        equals: a number that must lie in the interval.
        above: keys and values of the row that a judged row must exceed, interval by interval; the two agree
            in all other keys that say what a row is about.
        by: key of a row, for each of whose values the claim is judged apart; empty for one verdict.
        verdict: one of `VERDICTS`, where no rule can judge: then no rule is given.
    """

    paper: str
    table: str
    published: str
    of: Sequence[str] = ()
    note: str = ""
    where: Row = field(default_factory=dict)
    value: str = ""
    digits: int = 3
    interval: str = ""
    at_least: float | None = None
    at_most: float | None = None
    equals: float | None = None
    above: Row | None = None
    by: str = ""
    verdict: str = ""

    def __post_init__(self) -> None:
        rules = (self.at_least, self.at_most, self.equals, self.above, self.verdict or None)
        if sum(rule is not None for rule in rules) != 1:
            raise UsageError(
                f"claim {self.published!r}: expected one of at_least, at_most, equals, above, verdict"
            )
        if self.verdict and self.verdict not in VERDICTS:
            raise UsageError(f"claim {self.published!r}: verdict; expected {', '.join(VERDICTS)}")
        if not self.verdict and not self.interval:
            raise UsageError(f"claim {self.published!r}: a rule judges an interval; expected interval")


@dataclass(frozen=True)
class ResultDeclarations:
    """All that is declared, by name; claims in the order of files and lines."""

    runs: dict[str, DeclaredRun]
    tables: dict[str, DeclaredTable]
    excerpts: dict[str, TableExcerpt]
    claims: tuple[PublishedClaim, ...]

    def tables_of(self, run: str) -> list[DeclaredTable]:
        """The tables that a run fills."""
        return [table for table in self.tables.values() if run in table.runs]

    def only(self, names: Sequence[str]) -> list[DeclaredRun]:
        """The runs of these names, each of a run or of a table; all of them without names.

        Raises:
            UsageError: a name that is not declared.
        """
        check("--only", names, {**self.runs, **self.tables})
        chosen = {
            run for name in names for run in (self.tables[name].runs if name in self.tables else [name])
        }
        return [run for run in self.runs.values() if not names or run.name in chosen]


def read_declarations(folder: Path = FOLDER) -> ResultDeclarations:
    """All declarations of a folder.

    Raises:
        UsageError: a key that is unknown or missing, or a name that is declared twice or not at all.
    """
    found = ResultDeclarations({}, {}, {}, ())
    claims: list[PublishedClaim] = []
    for path in sorted(folder.glob("*.toml")):
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        for run in given.get("run", []):
            _add(found.runs, made(DeclaredRun, run, path), path)
        for table in given.get("table", []):
            _add(found.tables, made(DeclaredTable, table, path), path)
        for excerpt in given.get("excerpt", []):
            columns = [made(TableColumn, column, path) for column in excerpt.get("columns", [])]
            _add(found.excerpts, made(TableExcerpt, {**excerpt, "columns": columns}, path), path)
        claims += [made(PublishedClaim, claim, path) for claim in given.get("claim", [])]
    for declared in found.tables.values():
        check(declared.name, declared.runs, found.runs)
    check("excerpt", [excerpt.table for excerpt in found.excerpts.values()], found.tables)
    check("claim", [claim.table for claim in claims], found.tables)
    return ResultDeclarations(found.runs, found.tables, found.excerpts, tuple(claims))


def made(kind: type[D], given: Mapping[str, Any], path: Path) -> D:
    """A declaration of a kind from a table of a file.

    Raises:
        UsageError: a key that is unknown or missing.
    """
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    unknown = set(given) - names
    if unknown:
        raise UsageError(f"{path}: {sorted(unknown)} of {given.get('name', given)}; expected {sorted(names)}")
    try:
        return kind(**given)
    except TypeError as error:
        raise UsageError(f"{path}: {error}") from error


def _add(known: dict[str, D], one: D, path: Path) -> None:
    name: str = getattr(one, "name")  # noqa: B009  of any declaration
    if name in known:
        raise UsageError(f"{path}: {name} is declared twice")
    known[name] = one


def check(who: str, names: Sequence[str], known: Mapping[str, object]) -> None:
    """Refuse names that are not declared.

    Raises:
        UsageError: a name that is not declared.
    """
    for name in names:
        if name not in known:
            raise UsageError(f"{who}: {name} is not declared; expected one of {', '.join(known)}")
