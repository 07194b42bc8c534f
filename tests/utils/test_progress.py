"""The progress bar of a terminal, and the line of a first run, which compiles."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from foltr_audit.utils import progress


class Terminal(io.StringIO):
    """A stderr that says it is one."""

    def isatty(self) -> bool:
        return True


def test_pieces_that_were_done_before_count(monkeypatch: pytest.MonkeyPatch) -> None:
    screen: Any = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress.on_terminal().task("cells", 1000) as tick:
        tick.skip(7)
        tick()
    assert "8/1000" in screen.getvalue()


PROGRAM = """
import sys
import numpy as np
from foltr_audit.kernels.messages import add_columns
from foltr_audit.kernels.metrics import discounts
from foltr_audit.utils.progress import on_terminal
on_terminal()
assert discounts(1).tolist() == [1.0]
add_columns(np.ones((1, 1)), np.ones(1), np.zeros(1), 0, 1)
"""


def said(cache: Path, stderr: int) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment, stderr=stderr)


def test_a_terminal_shows_one_line_in_the_first_run_only(tmp_path: Path) -> None:
    reading, writing = pty.openpty()
    try:
        said(tmp_path, writing)
        assert os.read(reading, 10_000).decode().split("\r\n") == [progress.NOTE, ""]
        said(tmp_path, writing)
        os.write(writing, b"end")
        assert os.read(reading, 10_000) == b"end"
    finally:
        os.close(reading)
        os.close(writing)


def test_a_file_gets_no_line(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("wb") as file:
        said(tmp_path / "cache", file.fileno())
    assert (tmp_path / "stderr").read_bytes() == b""
