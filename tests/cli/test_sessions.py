"""Commands print what is stored: `python -m tests.golden_files` stores what they print now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden_files import GOLDEN, SESSIONS, played


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_prints_what_is_stored(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stored = (GOLDEN / name).read_text(encoding="utf-8")
    assert played(stored) == stored
