"""Running the commands whose results are not stored yet."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from benchmarks.results.data_folders import DATA
from benchmarks.results.declarations import DeclaredRun
from benchmarks.results.stored import ResultStore, StoredResult
from foltr_audit.errors import UsageError

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
    """Runs commands one after the other and stores what they print.

    Attributes:
        store: where results are.
        shared: folder of the real data, which may be absent.
    """

    store: ResultStore
    shared: Path

    def available(self, run: DeclaredRun) -> bool:
        """Whether the data of a run are there."""
        return not run.data or bool(DATA[run.data].sources(self.shared))

    def current(self, run: DeclaredRun) -> StoredResult | None:
        """The stored result of a run, if its command, and its data where they are there, are the same."""
        found = self.store.read(run.name)
        if found is None or not self.available(run):
            return found if found is None or found.command == run.command else None
        return found if found.is_of(run.command, self._digest(run)) else None

    def run(self, run: DeclaredRun) -> RunReport:
        """Run one command, unless its result is stored or its data are absent."""
        if self.current(run) is not None:
            return RunReport(run.name, "stored", "")
        if not self.available(run):
            return RunReport(run.name, "skipped", f"no data in {self.shared / DATA[run.data].folder}")
        started = time.perf_counter()
        try:
            printed = self._printed(run)
        except UsageError as error:
            return RunReport(run.name, "failed", str(error))
        # A command that stores its parts tells what all of them took, also those of earlier calls.
        seconds = round(float(str(printed.get(SECONDS, time.perf_counter() - started))), 1)
        self.store.write(
            StoredResult(
                name=run.name,
                command=run.command,
                data=self._digest(run),
                version=version("foltr-audit"),
                date=datetime.now(UTC).date().isoformat(),
                seconds=seconds,
                result=printed,
            )
        )
        return RunReport(run.name, "done", f"{seconds:.0f} s")

    def _digest(self, run: DeclaredRun) -> str:
        return DATA[run.data].digest(self.shared) if run.data else ""

    def _printed(self, run: DeclaredRun) -> dict[str, object]:
        path = DATA[run.data].path(self.shared, self.store.folder / "data") if run.data else None
        done = subprocess.run(
            words(run.command, path),
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


def words(command: str, path: Path | None) -> Sequence[str]:
    """The words of a command, run by this Python.

    Raises:
        UsageError: a command of another program, or `{data}` without data.
    """
    given = shlex.split(command)
    if "{data}" in given and path is None:
        raise UsageError(f"{command}: expected data, since the command names {{data}}")
    given = [str(path) if word == "{data}" else word for word in given]
    if given[:1] == ["foltr-audit"]:
        return [sys.executable, "-m", "foltr_audit", *given[1:]]
    if given[:2] == ["python", "-m"]:
        return [sys.executable, *given[1:]]
    raise UsageError(f"{command}: expected foltr-audit or python -m")
