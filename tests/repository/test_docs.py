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
from foltr_audit.core.plugins import Attack, Defense, Learner, Plugin, Poisoning, Scenario
from foltr_audit.core.plugins.defense import STAGES
from foltr_audit.core.plugins.registry import GROUPS, SINGULAR, names, plugin_class
from foltr_audit.errors import FoltrAuditError
from tests.fixtures.doc_examples import (
    DOCUMENTS,
    PAGES,
    README,
    ROOT,
    Block,
    anchors,
    blocks,
    broken_links,
    commands,
    difference,
    unknown_options,
)
from tests.fixtures.plugin_packages import Installer

DOCS = ROOT / "docs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LIVE = [page for page in PAGES if any(block.is_program or block.commands for block in blocks(page))]
LONG = [page for page in LIVE if any(block.is_long for block in blocks(page))]


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


def test_the_numbers_of_the_readme_are_those_of_the_results() -> None:
    results = (DOCS / "results.md").read_text(encoding="utf-8")
    row = re.compile(r"^\| ([\w+-]+) \| (\S+ \(.*?\)) \| (.*?) \|$", re.MULTILINE)
    found = row.findall(README.read_text(encoding="utf-8"))
    assert len(found) == 4
    for defense, auc, ndcg in found:
        name = defense if defense == "none" else f"{defense}, eps 1.2"
        assert f"| {name} | map | {auc} | {ndcg} |" in results, defense


def test_the_page_of_commands_has_every_command_and_no_other() -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z][\w-]*)`", page, re.MULTILINE)) == {
        name for name, command in command_line().commands.items() if not command.hidden
    }


@pytest.mark.parametrize(
    ("page", "base"),
    [
        ("attacks", Attack),
        ("defenses", Defense),
        ("learners", Learner),
        ("worlds", Scenario),
        ("worlds", Poisoning),
    ],
)
def test_a_page_of_plug_ins_has_every_one_and_no_other(page: str, base: type[Plugin]) -> None:
    """Baselines are named where results are read, and no defense needs no row."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    table = re.split(r"\n\n", text[text.index(f"| {SINGULAR[base]} |") :])[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    baselines = {name for name in names(Attack) if plugin_class(Attack, name).baseline}
    assert named == set(PROJECT["entry-points"][GROUPS[base]]) - baselines - {"none"}


def test_the_api_page_has_every_public_name() -> None:
    shown = set(
        re.findall(r"auto(?:class|function|exception):: (?:[\w.]*\.)?(\w+)", (DOCS / "api.md").read_text())
    )
    aliases = {"PrivacyEvent", "Stage", "plain"}
    assert set(foltr_audit.__all__) | set(plugins.__all__) <= shown | aliases


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
    page = tmp_path / "page.md"
    page.write_text(
        "# A & b\n\n## `c` d\n[x](#a--b) [y](page.md#c-d) [z](none.md) [v](page.md#e) [w](https://w)\n"
    )
    assert anchors(page) == {"a--b", "c-d"}
    assert broken_links(page) == ["none.md", "page.md#e"]


def test_the_page_of_exit_codes_has_every_code() -> None:
    page = (DOCS / "files.md").read_text(encoding="utf-8")
    errors: list[type[FoltrAuditError]] = [FoltrAuditError, *FoltrAuditError.__subclasses__()]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == {
        0,
        INTERRUPTED,
        *(error.exit_code for error in errors),
    }


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
    assert f"version = {{{PROJECT['version']}}}" in (DOCS / "cite.md").read_text(encoding="utf-8")
