"""The progress bar of a terminal."""

from __future__ import annotations

import io
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
