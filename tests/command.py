"""Runs the command line inside the test process, and keeps what it printed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foltr_audit.cli.main import main

SHARED = Path(__file__).resolve().parents[2] / "shared"

SMALL = ("--data", "synthetic:mq2007:60", "--clients", "40", "--rounds", "3")
"""Options of a run that takes a fraction of a second."""


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def warnings(self) -> list[str]:
        """What stderr warns of."""
        lines = self.err.splitlines()
        return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]

    @property
    def said(self) -> str:
        """What is on stderr but warnings."""
        lines = self.err.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("warning: "))

    def one_error(self) -> str:
        """The only line on stderr, which must be an error message; stdout must be empty."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: ")
        assert self.out == ""
        return lines[0]


def run(*arguments: object) -> Done:
    """Run one command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Done(code, out.getvalue(), err.getvalue())


def spawn(*arguments: object, **environment: str) -> Done:
    """Run one command in a process of its own, with more environment variables."""
    done = subprocess.run(
        [sys.executable, "-m", "foltr_audit", *(str(argument) for argument in arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a Run but its lock, by relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
