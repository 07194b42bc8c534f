"""The pages of docs/ say what the code does: their programs and commands run, and print what they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import foltr_audit
from foltr_audit import plugins
from foltr_audit.chain import STAGES
from tests.documents import (
    DOCUMENTS,
    PAGES,
    ROOT,
    Block,
    anchors,
    blocks,
    broken_links,
    commands,
    difference,
    unknown_options,
)
from tests.installed import Installer

DOCS = ROOT / "docs"
LIVE = [page for page in PAGES if any(block.is_program or block.commands for block in blocks(page))]
LONG = [page for page in LIVE if any(block.is_long for block in blocks(page))]
PLUGINS = [page for page in LIVE if any(block.kind == "toml" for block in blocks(page))]


def stem(page: Path) -> str:
    return page.stem


def install_plugins(page: Path, folder: Path, install: Installer) -> None:
    """Save the programs of a page, and register what its pyproject.toml says."""
    here = blocks(page)
    modules = {block.module: block.text for block in here if block.is_program and block.module}
    for project in [tomllib.loads(block.text)["project"] for block in here if block.kind == "toml"]:
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


@pytest.mark.parametrize("page", LIVE, ids=stem)
def test_a_page_runs_and_prints_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Installer
) -> None:
    monkeypatch.chdir(tmp_path)
    install_plugins(page, tmp_path, install)
    wrong = run_page(page, long=False)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("page", LONG, ids=stem)
def test_a_page_runs_and_prints_what_it_shows_in_long_blocks_too(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Installer
) -> None:
    monkeypatch.chdir(tmp_path)
    install_plugins(page, tmp_path, install)
    wrong = run_page(page, long=True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("page", PLUGINS, ids=stem)
def test_the_plug_ins_of_a_page_meet_the_contract(page: Path, tmp_path: Path, install: Installer) -> None:
    install_plugins(page, tmp_path, install)
    (line,) = re.findall(r"^ {4}python (-m pytest .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    told = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *told, "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 20


@pytest.mark.parametrize("page", DOCUMENTS, ids=stem)
def test_commands_and_their_options_exist(page: Path) -> None:
    assert not {command: wrong for command in commands(page) if (wrong := unknown_options(command))}


@pytest.mark.parametrize("page", DOCUMENTS, ids=stem)
def test_every_block_is_seen(page: Path) -> None:
    fences = re.findall(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) == 2 * len(blocks(page))


@pytest.mark.parametrize("page", DOCUMENTS, ids=stem)
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken_links(page)


def test_every_page_is_in_a_table_of_contents() -> None:
    trees = [block.text for block in blocks(DOCS / "index.md") if block.kind == "{toctree}"]
    listed = {line for text in trees for line in text.splitlines() if line and not line.startswith(":")}
    assert listed | {"index"} == {page.stem for page in PAGES}


def test_the_api_page_has_every_public_name() -> None:
    shown = set(
        re.findall(r"auto(?:class|function|exception):: (?:[\w.]*\.)?(\w+)", (DOCS / "api.md").read_text())
    )
    aliases = {"PrivacyEvent", "plain"}
    assert set(foltr_audit.__all__) | set(plugins.__all__) <= shown | aliases


def test_the_page_on_defenses_has_every_stage_in_its_order() -> None:
    page = (DOCS / "write-a-defense.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| (\w+) \| `\w+Defense`", page, re.MULTILINE)) == STAGES


def test_the_citation_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\ntitle: {project['name']}\n" in citation
    assert f"\nversion: {project['version']}\n" in citation
    assert f"\nlicense: {project['license']}\n" in citation
    assert f"version = {{{project['version']}}}" in (DOCS / "cite.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_needs_no_network(tmp_path: Path) -> None:
    if find_spec("sphinx") is None or find_spec("furo") is None or find_spec("myst_parser") is None:
        pytest.skip("the extra docs is not installed")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-W",
            "-n",
            "-q",
            "-b",
            "html",
            "-d",
            tmp_path / "trees",
            DOCS,
            tmp_path / "site",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        html = (tmp_path / "site" / f"{page.stem}.html").read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(?:https?:)?//', html)


# --- the tests above can fail ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("foltr-audit attack --method olsr --eps=1.2", set()),
        ("foltr-audit attack --no-such-thing 1", {"--no-such-thing"}),
        ("foltr-audit trace lint --method olsr", {"--method"}),
        ("foltr-audit data cache list --json", set()),
        ("foltr-audit data cash list", {"cash"}),
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
    page = tmp_path / "page.md"
    page.write_text(
        "# A & b\n\n## `c` d\n[x](#a--b) [y](page.md#c-d) [z](none.md) [v](page.md#e) [w](https://w)\n"
    )
    assert anchors(page) == {"a--b", "c-d"}
    assert broken_links(page) == ["none.md", "page.md#e"]
