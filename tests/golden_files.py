"""Whole outputs in tests/golden/, which tests compare: `python -m tests.golden_files` stores them anew.

A `.console` file holds commands of `foltr-audit` with what they print: standard output, warnings and errors,
and an exit code other than 0. `$ printf TEXT > FILE` makes a file for the commands after it, and
`$ ls` names those that are there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from tests.fixtures.command import run
from tests.fixtures.made_reports import TEXTS

GOLDEN = Path(__file__).parent / "golden"
SESSIONS = tuple(sorted(path.name for path in GOLDEN.glob("*.console")))

OTHERS = re.compile(r"(known|not TOML): .*?(?=\)|$)")
"""The names of all plug-ins, which change with what is installed, and what Python says of TOML."""

TIMED = re.compile(r"^[\d,]+ interactions in ")


def played(text: str) -> str:
    """A session as it prints today, played in the current folder at 80 columns."""
    before = set(sys.modules)
    with patch.dict(os.environ, COLUMNS="80"), patch.object(sys, "path", list(sys.path)):
        try:
            return "\n".join(_lines(text)) + "\n"
        finally:  # modules of the session are not those of other tests
            for name in set(sys.modules) - before:
                if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(Path.cwd()):
                    del sys.modules[name]


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("#"):
            yield line
        if not line.startswith("$ "):
            continue
        yield line
        words = shlex.split(line[2:])
        if words[0] == "printf":
            Path(words[3]).parent.mkdir(parents=True, exist_ok=True)
            Path(words[3]).write_text(words[1].replace("\\n", "\n"), encoding="utf-8")
            continue
        if words[0] == "ls":
            yield " ".join(sorted(path.name for path in Path().iterdir()))
            continue
        done = run(*words)
        yield from (each.rstrip() for each in done.out.splitlines())
        for each in done.err.splitlines():
            if not TIMED.search(each):
                yield OTHERS.sub(r"\1: ...", each.replace(str(Path.cwd()), "."))
        if done.code:
            yield f"exit {done.code}"


def main() -> None:
    """Store what reports and commands print today."""
    for name, make in TEXTS.items():
        (GOLDEN / name).write_text(make(), encoding="utf-8")
    for name in SESSIONS:
        path = GOLDEN / name
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            path.write_text(played(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
