"""Running the commands whose rows are not stored yet."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.results.cells import value_at
from benchmarks.results.data_folders import DATA
from benchmarks.results.declarations import DeclaredRun, DeclaredTable, ResultDeclarations, Row
from benchmarks.results.files import DoneRun, ResultFolder
from foltr_audit.errors import UsageError
from foltr_audit.experiments.versions import versions

ROOT = Path(__file__).parents[2]

SECONDS = "processor_seconds"
"""The key of a command's JSON with the time that it took, where that is not the time of this call."""


class RunReport(NamedTuple):
    """What became of a run.

    Attributes:
        name: name of the run.
        state: `stored` before, `done` now, `skipped` for want of data, or `failed`.
        text: why, or how long it took.
    """

    name: str
    state: str
    text: str


@dataclass(frozen=True)
class ResultRunner:
    """Runs commands one after the other, and puts their rows into the files of their tables.

    Attributes:
        declared: all that is declared.
        results: files of results.
        shared: folder of the real data, which may be absent.
        work: folder of data in the layout of foltr-audit.
        again: whether rows of other code count as missing.
    """

    declared: ResultDeclarations
    results: ResultFolder
    shared: Path
    work: Path
    again: bool = False

    def available(self, run: DeclaredRun) -> bool:
        """Whether the data of a run are there."""
        return not run.data or bool(DATA[run.data].sources(self.shared))

    def current(self, run: DeclaredRun) -> bool:
        """Whether all tables of a run have rows of this command and, where they are there, these data.

        Rows of other code are kept, with the hash of that code, unless they are wanted `again`.
        """
        digest = self._digest(run) if self.available(run) else None
        return all(
            done is not None
            and done.command == run.command
            and digest in {None, done.digest}
            and (not self.again or done.code == versions()["code"])
            for done in self._done(run)
        )

    def _done(self, run: DeclaredRun) -> list[DoneRun | None]:
        return [self.results.read(table).runs.get(run.name) for table in self.declared.tables_of(run.name)]

    def run(self, run: DeclaredRun) -> RunReport:
        """Run one command, unless its rows are stored or its data are absent."""
        if self.current(run):
            other = any(done.code != versions()["code"] for done in self._done(run) if done is not None)
            return RunReport(run.name, "stored", "by other code; --again runs it again" if other else "")
        if not self.available(run):
            return RunReport(run.name, "skipped", f"no data in {self.shared / DATA[run.data].folder}")
        started = time.perf_counter()
        title = DATA[run.data].title if run.data else "synthetic"
        try:
            printed = self._printed(run)
            tables = self.declared.tables_of(run.name)
            rows = [rows_of(printed, table, title) for table in tables]
        except UsageError as error:
            return RunReport(run.name, "failed", str(error))
        # A command that stores its parts tells what all of them took, also those of earlier calls.
        seconds = round(float(str(printed.get(SECONDS, time.perf_counter() - started))), 1)
        done = DoneRun(
            command=run.command,
            data=title,
            digest=self._digest(run),
            seeds=_seeds(printed),
            date=datetime.now(UTC).date().isoformat(),
            version=version("foltr-audit"),
            code=versions()["code"],
            seconds=seconds,
        )
        for table, found in zip(tables, rows, strict=True):
            self.results.add(table, run.name, done, found)
        return RunReport(run.name, "done", f"{seconds:.0f} s")

    def _digest(self, run: DeclaredRun) -> str:
        return DATA[run.data].digest(self.shared) if run.data else ""

    def _printed(self, run: DeclaredRun) -> dict[str, Any]:
        places = {}
        if run.data:
            data = DATA[run.data]
            places = {"{data}": data.path(self.shared, self.work), "{intents}": self.shared / data.intents}
        done = subprocess.run(
            words(run.command, places),
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:]
            raise UsageError(f"ended with {done.returncode}: {' '.join(last)}")
        try:
            found = json.loads(done.stdout)
        except ValueError as error:
            raise UsageError(f"printed no JSON: {error}; expected --json in the command") from error
        if not isinstance(found, dict):
            raise UsageError("printed JSON that is no object")
        return found


def rows_of(printed: Row, table: DeclaredTable, title: str) -> list[Row]:
    """The rows of a table in what a command printed, with the keys that the table names.

    Raises:
        UsageError: the JSON has no such rows.
    """
    found = value_at(printed, table.rows)
    if not isinstance(found, list):
        raise UsageError(f"no rows {table.rows!r} in its JSON; expected one of {sorted(printed)}")
    keys = [key for key in (*table.about, *table.found) if key != "data"]
    every = ({key: row[key] if key in row else value_at(row, key) for key in keys} for row in found)
    rows = [{key: _short(value) for key, value in row.items() if value is not None} for row in every]
    return [{"data": title, **row} if "data" in table.about else row for row in rows]


def _short(value: Any) -> Any:
    """A value with six significant digits, and so each of a list."""
    if isinstance(value, list):
        return [_short(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _seeds(printed: Row) -> str:
    config = printed.get("config")
    if not isinstance(config, dict) or not {"seed", "runs"} & set(config):
        return ""
    if "runs" in config:
        return _seed_and_runs(config.get("spec", {}).get("seed", 1), config["runs"])
    runs = len({cell.get("repetition", i) for i, cell in enumerate(config.get("cells", []))}) or 1
    return _seed_and_runs(config["seed"], runs)


def _seed_and_runs(seed: int, runs: int) -> str:
    return f"seed {seed}, {runs} {'run' if runs == 1 else 'runs'}"


def words(command: str, places: Mapping[str, Path]) -> Sequence[str]:
    """The words of a command, run by this Python, with its data in their `places`.

    Raises:
        UsageError: a command of another program, or `{data}` without data.
    """
    given = shlex.split(command)
    if "{data}" in given and not places:
        raise UsageError(f"{command}: expected data, since the command names {{data}}")
    given = [str(places.get(word, word)) for word in given]
    if given[:1] == ["foltr-audit"]:
        return [sys.executable, "-m", "foltr_audit", *given[1:]]
    if given[:2] == ["python", "-m"]:
        return [sys.executable, *given[1:]]
    raise UsageError(f"{command}: expected foltr-audit or python -m")
