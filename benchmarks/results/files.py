"""The files of `results/`: rows of a table, and the runs that made them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.results.declarations import DeclaredTable, Row
from foltr_audit.errors import UsageError

RUN = "run"
"""The key of a row with the name of its run."""


@dataclass(frozen=True, kw_only=True)
class DoneRun:
    """A finished run.

    Attributes:
        command: as declared.
        data: title of its data.
        digest: SHA-256 of its data; empty for synthetic data.
        seeds: its seed, and how many runs.
        date: day on which it ended, ISO 8601, UTC.
        version: of foltr-audit.
        code: hash of the sources of foltr-audit; empty where it is not known.
        seconds: from start to end.
    """

    command: str
    data: str
    digest: str
    seeds: str
    date: str
    version: str
    code: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """What is known of a table.

    Attributes:
        title: one sentence.
        runs: finished runs by name.
        rows: rows of all finished runs.
        note: what to know when reading it.
    """

    title: str
    runs: Mapping[str, DoneRun]
    rows: Sequence[Row]
    note: str = ""


@dataclass(frozen=True)
class ResultFolder:
    """A folder of result files."""

    folder: Path

    def path(self, name: str) -> Path:
        """The file of a table."""
        return self.folder / f"{name}.json"

    def read(self, table: DeclaredTable) -> ResultFile:
        """What is known of a table; without runs and rows where it has no file.

        Raises:
            UsageError: a file that is none of these.
        """
        path = self.path(table.name)
        if not path.exists():
            return ResultFile(title=table.title, runs={}, rows=[])
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
            runs = {name: DoneRun(**run) for name, run in given.pop("runs").items()}
            return ResultFile(**{**given, "title": table.title, "runs": runs})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path}: expected title, runs and rows ({error}); delete it") from error

    def add(self, table: DeclaredTable, name: str, done: DoneRun, rows: Sequence[Row]) -> None:
        """Put the rows of a run in place of its earlier ones."""
        before = self.read(table)
        runs = {**before.runs, name: done}
        every = [*(row for row in before.rows if row[RUN] != name), *({RUN: name, **row} for row in rows)]
        every = [row for run in table.runs for row in every if row[RUN] == run]
        kept = {run: runs[run] for run in table.runs if run in runs}
        after = replace(before, title=table.title, runs=kept, rows=every)
        write_atomically(self.path(table.name), text_of(after).encode())


def text_of(found: ResultFile) -> str:
    """A file, with one line for each row."""
    head = json.dumps({key: value for key, value in asdict(found).items() if key != "rows"}, indent=1)
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in found.rows)
    return f'{head[:-2]},\n "rows": [\n{rows}\n ]\n}}\n'


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file beside its place, then move it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_name(f"{path.name}.{os.getpid()}.begun")
    begun.write_bytes(content)
    begun.replace(path)
