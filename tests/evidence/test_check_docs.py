"""docs/check.md and its workflow name commands and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.fixtures.command import run

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in ("check.md", "examples/check.yml"))
COMMANDS = sorted(
    {match.strip(" `)") for match in re.findall(r"foltr-audit [a-z]+(?: [^`\n]*)?", TEXT) if " -" in match}
)


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("command", COMMANDS)
def test_their_options_exist(command: str) -> None:
    words = shlex.split(command)
    done = run(words[1], "--help")
    assert done.code == 0
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[a-z-]+", done.out))


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", (DOCS / "check.md").read_text(encoding="utf-8")):
        assert (DOCS / target).is_file(), target
