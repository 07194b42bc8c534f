"""The progress bar of a terminal."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import pytest

from foltr_audit.utils import progress
from foltr_audit.utils.progress import LEFT


class Terminal(io.StringIO):
    """A stderr that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("told", "shown"), [(3725.0, "1:02:05"), (0.0, "0:00:00"), (-5.0, "0:00:00"), (math.inf, "-:--:--")]
)
def test_the_time_left_is_the_one_that_was_told(
    monkeypatch: pytest.MonkeyPatch, told: float, shown: str
) -> None:
    screen: Any = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    monkeypatch.setenv("TERM", "xterm")
    with progress.on_terminal().task("cells", 1000) as tick:
        tick.skip(7)
        tick({LEFT: told})
    assert shown in re.findall(r"8/1000 *(?:\x1b\[[\d;]*m| )*([\d:-]+:[\d-]+)", screen.getvalue())
