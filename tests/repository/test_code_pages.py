"""Pages about the code: every path that they name exists, and what `make docs` writes is current."""

from __future__ import annotations

import re

import pytest

from tests import threat_model_page
from tests.commands_page import PAGE as COMMANDS
from tests.commands_page import render as render_commands
from tests.fixtures.import_graph import ROOT
from tests.rooms_picture import PICTURE, render

PAGES = ("docs/architecture.md", "docs/decisions.md", "docs/maths.md", "CONTRIBUTING.md")
NOT_STORED = {"attacks/last_position.py", "build/docs"}
"""What a reader of a page writes or builds."""

PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.py)`")


def missing(text: str) -> list[str]:
    """Paths in backticks that are neither in the repository nor in the package."""
    paths = sorted(set(PATH.findall(text)) - NOT_STORED)
    return [path for path in paths if not any((ROOT / base / path).exists() for base in ("", "foltr_audit"))]


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_exist(page: str) -> None:
    assert not missing((ROOT / page).read_text(encoding="utf-8"))


def test_the_picture_of_the_rooms_is_current() -> None:
    """`make docs` draws it anew."""
    assert PICTURE.read_text(encoding="utf-8") == render()


def test_the_page_of_commands_is_current() -> None:
    """`make docs` writes it anew."""
    assert COMMANDS.read_text(encoding="utf-8") == render_commands()


def test_the_table_of_what_attacks_must_know_is_current() -> None:
    """`make docs` writes it anew."""
    assert not threat_model_page.missing()
    assert threat_model_page.PAGE.read_text(encoding="utf-8") == threat_model_page.render()


def test_a_path_that_is_no_more_is_seen() -> None:
    assert missing("see `judge/clicks.py` and `judge/nobody.py`") == ["judge/nobody.py"]
