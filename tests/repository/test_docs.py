"""The pages of docs/ say what the code does: their programs and commands run, and print what they show."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import foltr_audit
from foltr_audit.cli.main import INTERRUPTED, command_line
from foltr_audit.core import plugins
from foltr_audit.core.plugins.defense import STAGES
from foltr_audit.core.warning_kinds import WARNINGS
from foltr_audit.errors import FoltrAuditError
from tests import threat_model_page
from tests.fixtures.doc_examples import (
    DOCS,
    DOCUMENTS,
    GENERATED,
    GENERATED_PAGES,
    PAGES,
    README,
    ROOT,
    Block,
    anchors,
    blocks,
    broken_links,
    commands,
    difference,
    every_command,
    text_of,
    unknown_options,
)
from tests.fixtures.plugin_packages import Installer
from tests.rooms_picture import PICTURE, render

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LIVE = [
    page for page in (README, *PAGES) if any(block.is_program or block.commands for block in blocks(page))
]
LONG = [page for page in LIVE if any(block.is_long for block in blocks(page))]

ABOUT_CODE = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/maths.md")
NOT_STORED = {"attacks/last_position.py", "build/docs", "docs/generated"}
"""What a reader of a page writes or builds."""

PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.py)`")


def stem(page: Path) -> str:
    return page.stem


def install_plugins(page: Path, folder: Path, install: Installer) -> None:
    """Save the programs and files of a page, and register what its pyproject.toml says."""
    here = blocks(page)
    files = {block.file: block.text for block in here if block.file}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    modules = {block.module: block.text for block in here if block.is_program and block.module}
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
    tables = [tomllib.loads(block.text) for block in here if block.kind == "toml" and not block.file]
    for project in [table["project"] for table in tables]:
        install(folder, project["name"], project["entry-points"], modules)


def run_page(page: Path, *, long: bool) -> list[str]:
    """Run the programs and commands of a page in their order; what differs from what it shows."""
    wrong = []
    for block in blocks(page):
        if block.is_program:
            block.executed(page.name)
        if long or not block.is_long:
            each = [difference(block, command, printed) for command, printed in block.commands]
            wrong += [text for text in each if text]
    return wrong


@pytest.mark.parametrize(
    ("page", "long"),
    [
        *(pytest.param(page, False, id=page.stem) for page in LIVE),
        *(pytest.param(page, True, id=f"{page.stem}-long", marks=pytest.mark.slow) for page in LONG),
    ],
)
def test_a_page_runs_and_prints_what_it_shows(
    page: Path, long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Installer
) -> None:
    monkeypatch.chdir(tmp_path)
    install_plugins(page, tmp_path, install)
    wrong = run_page(page, long=long)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", DOCUMENTS, ids=stem)
def test_commands_and_their_options_exist(page: Path) -> None:
    assert not {command: wrong for command in commands(page) if (wrong := unknown_options(command))}


@pytest.mark.parametrize("page", DOCUMENTS, ids=stem)
def test_every_block_is_seen(page: Path) -> None:
    fences = re.findall(r"^```", text_of(page), re.MULTILINE)
    assert len(fences) == 2 * len(blocks(page))


@pytest.mark.parametrize("page", DOCUMENTS, ids=stem)
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken_links(page)


def test_every_page_is_in_a_table_of_contents() -> None:
    trees = [block.text for block in blocks(DOCS / "index.md") if block.kind == "{toctree}"]
    listed = {line for text in trees for line in text.splitlines() if line and not line.startswith(":")}
    made = {f"generated/{page.stem}" for page in GENERATED_PAGES}
    assert listed | {"index"} == {page.stem for page in PAGES} | made


def test_the_numbers_of_the_readme_are_those_of_the_results() -> None:
    results = (DOCS / "results.md").read_text(encoding="utf-8")
    row = re.compile(r"^\| ([\w+-]+) \| (\S+ \(.*?\)) \| (.*?) \|$", re.MULTILINE)
    found = row.findall(README.read_text(encoding="utf-8"))
    assert len(found) == 5
    for defense, auc, rest in found:
        name = defense if defense == "none" else f"{defense}, eps 1.2"
        listed = rf"^\| {re.escape(name)} \| [\w-]+ \| {re.escape(auc)} \| {re.escape(rest)} \|$"
        assert re.search(listed, results, re.MULTILINE), defense


def test_the_generated_pages_have_every_command_plug_in_warning_and_public_name() -> None:
    commands, plugs, warned, api = (
        text_of(GENERATED / f"{name}.md") for name in ("commands", "plugins", "warnings", "api")
    )
    assert re.findall(r"^## (.*)$", commands, re.MULTILINE) == list(every_command(command_line()))
    registered = {name for group in PROJECT["entry-points"].values() for name in group}
    assert set(re.findall(r"^### (.*)$", plugs, re.MULTILINE)) == registered
    assert set(re.findall(r"^## (.*)$", warned, re.MULTILINE)) == set(WARNINGS)
    assert {*foltr_audit.__all__, *plugins.__all__} <= set(re.findall(r"^   (\w+)$", api, re.MULTILINE))


def missing_paths(text: str) -> list[str]:
    """Paths in backticks that are neither in the repository nor in the package."""
    paths = sorted(set(PATH.findall(text)) - NOT_STORED)
    return [path for path in paths if not any((ROOT / base / path).exists() for base in ("", "foltr_audit"))]


@pytest.mark.parametrize("page", ABOUT_CODE)
def test_the_files_that_a_page_names_exist(page: str) -> None:
    assert not missing_paths((ROOT / page).read_text(encoding="utf-8"))


def test_the_picture_of_the_rooms_is_current() -> None:
    """`make docs` draws it anew."""
    assert PICTURE.read_text(encoding="utf-8") == render()


def test_the_table_of_what_attacks_must_know_is_current() -> None:
    """`make docs` writes it anew."""
    assert not threat_model_page.missing()
    assert threat_model_page.PAGE.read_text(encoding="utf-8") == threat_model_page.render()


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_needs_no_network(tmp_path: Path) -> None:
    if not all(map(find_spec, ("furo", "jupytext", "myst_parser", "sphinx"))):
        pytest.skip("the extra docs is not installed")
    command = [sys.executable, *["-m", "sphinx", "-W", "-n", "-q", "-b", "html", "-d"]]
    places = [tmp_path / "trees", DOCS, tmp_path / "site"]
    done = subprocess.run([*command, *places], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in (*PAGES, *GENERATED_PAGES):
        html = (tmp_path / "site" / page.relative_to(DOCS).with_suffix(".html")).read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(?:https?:)?//', html)


# --- the tests above can fail ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("foltr-audit attack --method olsr --eps=1.2", set()),
        ("foltr-audit attack --no-such-thing 1", {"--no-such-thing"}),
        ("foltr-audit trace lint --method olsr", {"--method"}),
        ("foltr-audit data info --json", set()),
        ("foltr-audit data inform", {"inform"}),
        ("foltr-audit no-such-command --json", {"no-such-command"}),
        ("foltr-audit", set()),
        ("foltr-audit COMMAND --help", set()),
    ],
)
def test_options_that_do_not_exist_are_found(command: str, wrong: set[str]) -> None:
    assert unknown_options(command) == wrong


def test_output_that_differs_is_found() -> None:
    shown = Block(kind="console", text="$ foltr-audit attack --method olrs\nerror: unknown ...\n", line=1)
    ((command, printed),) = shown.commands
    assert difference(shown, command, printed) == ""
    assert "unknown attack" in difference(shown, command, printed.replace("unknown", "no such"))


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page, made = tmp_path / "page.md", GENERATED.as_posix()
    page.write_text(
        "# A & b\n\n## `c` d\n[x](#a--b) [y](page.md#c-d) [z](none.md) [v](page.md#e) [w](https://w)\n"
        f"[g]({made}/plugins.md#map) [h]({made}/plugins.md#mop) [i]({made}/notebooks/decide.ipynb)\n"
    )
    assert anchors(page) == {"a--b", "c-d"}
    assert broken_links(page) == ["none.md", "page.md#e", f"{made}/plugins.md#mop"]


def test_the_page_of_exit_codes_has_every_code() -> None:
    page = (DOCS / "files.md").read_text(encoding="utf-8")
    errors: list[type[FoltrAuditError]] = [FoltrAuditError, *FoltrAuditError.__subclasses__()]
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert listed == {0, INTERRUPTED, *(error.exit_code for error in errors)}


def test_the_page_on_defenses_has_every_stage_in_its_order() -> None:
    page = (DOCS / "write-a-defense.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| (\w+) \| `on_\w+`", page, re.MULTILINE)) == STAGES


def test_the_citation_is_of_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\ntitle: {PROJECT['name']}\n" in citation
    assert f"\nversion: {PROJECT['version']}\n" in citation
    assert f"\nlicense: {PROJECT['license']}\n" in citation
    authors = re.findall(r"^  - name: (.*)$", citation, re.MULTILINE)
    assert PROJECT["authors"] == [{"name": name} for name in authors]
    addresses = re.findall(r"^repository-code: (.*)$", citation, re.MULTILINE)
    assert addresses == [url for name, url in PROJECT.get("urls", {}).items() if name == "Repository"]
