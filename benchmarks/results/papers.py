"""The tables and figures of papers: the command that repeats each, and the verdicts on what they claim.

`papers.toml` names them. A claim of `tables/*.toml`, or a row of a result file that was made by hand, says in
`of` which of them it is about: `wang-2021 table 2`, a paper and a name.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results.declarations import ResultDeclarations, Row, check, made
from benchmarks.results.files import ResultFolder
from benchmarks.results.verdicts import verdicts
from foltr_audit.experiments.presets import READINGS

DECLARED = Path(__file__).with_name("papers.toml")
CLAIMS = ("published", "claim")
"""Keys of what a row that was made by hand judges; its other keys are verdicts."""

OF = "of"


@dataclass(frozen=True, kw_only=True)
class PaperItem:
    """A table or a figure.

    Attributes:
        name: as the paper has it, e.g. `table 2`.
        what: what it shows.
        commands: of foltr-audit, without its name; none for a drawing.
        verdict: where no claim is judged.
        missing: what cannot be had.
    """

    name: str
    what: str
    commands: Sequence[str] = ()
    verdict: str = "beside the published"
    missing: str = ""


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper.

    Attributes:
        name: in `of` of claims.
        title: its heading.
        about: which data were not at hand, and on which others claims are judged.
        items: its tables and figures.
    """

    name: str
    title: str
    about: str
    items: Sequence[PaperItem]


def read_papers(path: Path = DECLARED) -> list[Paper]:
    """The declared papers.

    Raises:
        UsageError: a key that is unknown or missing.
    """
    papers = []
    for given in tomllib.loads(path.read_text(encoding="utf-8"))["paper"]:
        items = [made(PaperItem, item, path) for item in given.pop("item")]
        papers.append(made(Paper, {**given, "items": items}, path))
    return papers


def verdicts_of_items(declared: ResultDeclarations, results: ResultFolder) -> dict[str, list[str]]:
    """What is judged of each table and figure, by the name of the paper and its own.

    Raises:
        UsageError: a claim of what no paper has.
    """
    known = {f"{paper.name} {item.name}": list[str]() for paper in read_papers() for item in paper.items}
    for claim in declared.claims:
        check(claim.published, claim.of, known)
        table = declared.tables[claim.table]
        judged = verdicts(claim, table, results.read(table).rows)
        shown = "; ".join(f"**{one.verdict}**{_reading(one.about)}, {one.found}" for one in judged)
        for place in claim.of:
            known[place].append(f"{claim.published}: {shown}")
    for row in _by_hand(results):
        check("results", row[OF], known)
        for place in row[OF]:
            known[place].append(_of_row(row))
    return known


def _reading(about: str) -> str:
    return f" {READINGS[about]}" if about else ""


def _by_hand(results: ResultFolder) -> Iterator[Row]:
    for path in sorted(results.folder.glob("*.json")):
        yield from (row for row in json.loads(path.read_text(encoding="utf-8"))["rows"] if OF in row)


def _of_row(row: Mapping[str, str]) -> str:
    """A row in short: the verdict on each data, up to its first colon or semicolon."""
    judged = {name: re.split(r"[:;]", text)[0] for name, text in row.items() if name not in (*CLAIMS, OF)}
    shown = [f"**{text}**{f' ({data})' if data != 'here' else ''}" for data, text in judged.items()]
    return f"{next(row[name] for name in CLAIMS if name in row)}: {', '.join(shown)}"
