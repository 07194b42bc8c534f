"""Pages of docs/ from their prose, one file of `pages` each, and stored results.

A table of a page lies between two comments that name it. Where its results are not stored, the text between
them stays as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results.cells import cell, groups, matches, rows_of
from benchmarks.results.data_folders import DATA
from benchmarks.results.declarations import DeclaredRun, DeclaredTable, ResultDeclarations, Row
from benchmarks.results.stored import StoredResult
from benchmarks.results.verdicts import found_range, judge
from foltr_audit.errors import UsageError

PROSE = Path(__file__).with_name("pages")
PLACE = re.compile(r"^\{\{ ([\w-]+) \}\}$", re.MULTILINE)
CLAIMS = "claims"
"""The place of all claims of a page in one table."""

CLAIMS_HEAD = ("| claim | here | found |", "|---|---|---|")

NOT_RUN = "Not run yet: `make results` runs it."
WIDTH = 110


def block(name: str, text: str) -> str:
    """A table between its comments."""
    text = text.strip("\n")
    return f"<!-- {name} -->\n\n{text}\n\n<!-- end of {name} -->"


def kept(name: str, page: str) -> str:
    """The text of a table in an earlier page; that it was not run where the page has none."""
    found = re.search(
        rf"^<!-- {name} -->\n\n(.*?)\n\n<!-- end of {name} -->$", page, re.DOTALL | re.MULTILINE
    )
    return found[1] if found else NOT_RUN


def read_pages(declared: ResultDeclarations, folder: Path = PROSE) -> dict[str, str]:
    """The prose of each page, by the name of its file.

    Raises:
        UsageError: a place that is not declared, or a declared table without a place or with several.
    """
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    places = [place for prose in pages.values() for place in places_of(prose)]
    if sorted(places) != sorted(declared.tables):
        wrong = sorted(set(places) ^ set(declared.tables)) or places
        raise UsageError(f"{folder}: {', '.join(wrong)}; expected one place for each declared table")
    return pages


def places_of(prose: str) -> list[str]:
    """The names of the tables that have a place in a page."""
    return [place for place in PLACE.findall(prose) if place != CLAIMS]


@dataclass(frozen=True)
class ResultsPage:
    """A page.

    Attributes:
        declared: what it shows.
        stored: the stored result of a run; none where it is absent.
        before: the page as it was.
    """

    declared: ResultDeclarations
    stored: Callable[[DeclaredRun], StoredResult | None]
    before: str

    def text(self, prose: str) -> str:
        """The page, from a prose whose places are declared."""
        tables = places_of(prose)
        return PLACE.sub(lambda place: block(place[1], self._at(place[1], tables)), prose)

    def _at(self, place: str, tables: Sequence[str]) -> str:
        return self.all_claims(tables) if place == CLAIMS else self.table(place)

    def all_claims(self, tables: Sequence[str]) -> str:
        """Every claim that these tables judge; those of a table without results as they stand below it."""
        lines = list(CLAIMS_HEAD)
        for name in dict.fromkeys(claim.table for claim in self.declared.claims if claim.table in tables):
            rows = self._rows(self.declared.tables[name])
            below = kept(name, self.before) if rows is None else "\n".join(self._claims(name, rows))
            lines += _claim_lines(below)
        return "\n".join(lines)

    def table(self, name: str) -> str:
        """Commands, lines, claims and dates of one table; the earlier text if a result of it is missing."""
        table = self.declared.tables[name]
        runs, every = self.declared.runs_of(table), self._rows(table)
        if every is None:
            return kept(name, self.before)
        there = [one for run in runs if (one := self.stored(run)) is not None]
        intervals = any(column.interval for column in table.columns)
        parts = [
            *_commands(runs),
            "\n".join(_lines(table, every)),
            _made(there, intervals=intervals),
        ]
        claims = "\n".join(self._claims(name, every))
        return "\n\n".join([*parts, claims] if claims else parts)

    def _rows(self, table: DeclaredTable) -> list[Row] | None:
        """The rows of all runs of a table; None if a result is missing."""
        found: list[Row] = []
        for run in self.declared.runs_of(table):
            stored = self.stored(run)
            if stored is None:
                return None
            found += rows_of(stored, table.rows, DATA[run.data].title if run.data else "synthetic")
        return found

    def _claims(self, name: str, rows: Sequence[Row]) -> Iterator[str]:
        table, claims = self.declared.tables[name], self.declared.claims_of(name)
        if claims:
            yield from CLAIMS_HEAD
        for claim in claims:
            found = ": ".join(text for text in (found_range(claim, table, rows), claim.note) if text)
            yield f"| {claim.published} | **{judge(claim, table, rows)}** | {found} |"


def _claim_lines(text: str) -> list[str]:
    """The lines below the head of the claims in the text of a table; none where it judges no claim."""
    lines = text.splitlines()
    return lines[lines.index(CLAIMS_HEAD[0]) + len(CLAIMS_HEAD) :] if CLAIMS_HEAD[0] in lines else []


def _lines(table: DeclaredTable, rows: Sequence[Row]) -> Iterator[str]:
    yield f"| {' | '.join(column.head for column in table.columns)} |"
    yield "|" + "---|" * len(table.columns)
    chosen = [row for row in rows if matches(row, table.where)]
    for group in groups(chosen, table.by):
        yield f"| {' | '.join(cell(group, column) for column in table.columns)} |"


def _commands(runs: Sequence[DeclaredRun]) -> Iterator[str]:
    """Each command once, with the titles of its data where one command has several."""
    by_command: dict[str, list[str]] = {}
    for run in runs:
        by_command.setdefault(run.command, []).append(DATA[run.data].title if run.data else "")
    for command, titles in by_command.items():
        title = titles[0] if len(titles) == 1 else "DATA"
        yield broken(command.replace("{data}", title))


def broken(command: str) -> str:
    r"""A command as indented lines that end in `\` but for the last; each option stays with its value."""
    lines, line = [], ""
    for part in re.split(r" (?=--)", shlex.join(shlex.split(command))):
        if line and len(line) + len(part) + 7 > WIDTH:
            lines.append(line)
            line = f"    {part}"
        else:
            line = f"{line} {part}" if line else part
    return " \\\n".join(f"    {each}" for each in [*lines, line])


def _made(stored: Sequence[StoredResult], *, intervals: bool) -> str:
    """Seeds, dates, version and times, and what brackets hold."""
    seeds = sorted({text for one in stored if (text := _seeds(one))})
    dates, versions = (sorted({getattr(one, key) for one in stored}) for key in ("date", "version"))
    took = ", ".join(f"{one.seconds:,.0f}" for one in stored)
    made = f"made on {' and '.join(dates)} with foltr-audit {' and '.join(versions)} in {took} seconds"
    brackets = " Brackets hold 95 % intervals." if intervals else ""
    text = "; ".join([*seeds, made])
    return f"{text[0].upper()}{text[1:]}.{brackets}"


def _seeds(stored: StoredResult) -> str:
    config = stored.result.get("config")
    if not isinstance(config, dict) or not {"seed", "runs"} & set(config):
        return ""
    if "runs" in config:
        return _seed_and_runs(config.get("spec", {}).get("seed", 1), config["runs"])
    runs = len({cell.get("repetition", i) for i, cell in enumerate(config.get("cells", []))}) or 1
    return _seed_and_runs(config["seed"], runs)


def _seed_and_runs(seed: int, runs: int) -> str:
    return f"seed {seed}, {runs} {'run' if runs == 1 else 'runs'}"
