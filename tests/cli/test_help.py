"""Help pages: short ones fit in 80 columns and end with examples that run, whole ones have every option."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from foltr_audit.cli import attack, audit, check, report
from foltr_audit.cli.main import COMMANDS, command_line, main
from foltr_audit.cli.pages import HelpCommand
from tests.fixtures.command import run
from tests.fixtures.doc_examples import every_command, unknown_options

MOST = 17
"""Options on a short page."""

SMALLER = {
    "--data": "synthetic:mq2007:40",
    "--clients": "20",
    "--rounds": "1",
    "--runs": "1",
    "--trials": "100",
    "--candidates": "2",
    "--shadows": "16",
    "--references": "1",
    "--jobs": "1",
    "--scale": "0.01",
}
"""Options that make what an example runs small."""

RUNS_NOTHING = re.compile(
    r"--no-trials|--dry-run|--comparison|\.py|\.zip|^foltr-audit (ceiling|calibrate|data)"
)

FILES = {
    "mechanism.py": "def noisy(x, rng):\n    return x + rng.laplace()\n",
    "limits.toml": "max_attack_auc = 0.9\n",
}


PAGES = every_command(command_line())
EXAMPLES = {example: page for page, command in PAGES.items() for example in command.examples.values()}


DEAR = {"compare", "recommend", "study merge", "study unlearning"}
LONG = {
    example
    for example, page in EXAMPLES.items()
    if (page in DEAR and "--dry-run" not in example) or example.endswith("--rounds 20 --view aggregate")
}


def options_of(command: Any) -> set[str]:
    options = [field for field in command.params if field.param_type_name == "option" and not field.hidden]
    return {name for field in options for name in field.opts}


def test_there_are_at_most_14_commands_in_groups() -> None:
    assert len(COMMANDS) <= 14
    shown = run("--help").out
    assert all(f"\n{entry.section}:\n" in shown and f"\n  {entry.name} " in shown for entry in COMMANDS)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_short_and_the_whole_one_has_every_option(page: str) -> None:
    short, whole = run(*page.split(), "-h").out, run(*page.split(), "--help-all").out
    assert max(map(len, (short + whole).splitlines())) <= 80
    words = set(re.split(r"[,\s]+", whole))
    assert options_of(PAGES[page]) <= words
    named = re.findall(r"^  (?:-\w, )?(--[\w-]+)", short, re.MULTILINE)
    assert len(named) <= MOST + 1
    assert ("--help-all" in named) == (len(PAGES[page].first) > 0)
    assert set(named) <= words | {"--help-all"}


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", "attack"),
        ("rec", "recommend"),
        ("study ", "unlearning"),
        ("study r", "run"),
        ("audit --no-tr", "--no-trials"),
    ],
)
def test_a_shell_completes_commands_and_options(
    typed: str, offered: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"foltr-audit {typed}"
    monkeypatch.setenv("_FOLTR_AUDIT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit):
        main([])
    assert offered in capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("audit", (*audit.DECLARED, *audit.OF_FUNCTION)),
        ("report", report.OF_ZIP),
        ("check", (*check.PACKED, *check.WITH_TRACE, *check.WITH_COMPARISON)),
        ("attack", attack.WITH_TRACE),
    ],
)
def test_options_that_go_with_others_exist(page: str, names: tuple[str, ...]) -> None:
    assert set(names) <= {field.name for field in PAGES[page].params}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, small_comparison: Path) -> Path:
    """What the examples read: a comparison, its zip, two Runs, limits and a module."""
    made = tmp_path_factory.mktemp("examples")
    for name, text in FILES.items():
        (made / name).write_text(text)
    shutil.copytree(small_comparison, made / "study")
    assert run("report", small_comparison, "--zip", made / "study.zip").code == 0
    for name in ("run-a", "run-b"):
        options = ("--data", "synthetic:mq2007:40", "--clients", 20, "--rounds", 1, "--runs", 2)
        assert run("train", *options, "--out", made / name, "--defense", f"clip:norm={len(name)}").code == 0
    assert run("data", "synth", "--queries", 40, "--out", made / "DIR").code == 0
    (made / "MQ2007").symlink_to(made / "DIR", target_is_directory=True)
    return made


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_options_of_an_example_exist(example: str) -> None:
    assert not unknown_options(example)


@pytest.mark.parametrize(
    "example", [pytest.param(text, marks=[pytest.mark.slow] * (text in LONG)) for text in EXAMPLES]
)
def test_an_example_runs(example: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With smaller data where it runs something; a false claim or a broken limit ends with 1."""
    words = shlex.split(example)[1:]
    page, is_new = EXAMPLES[example], words[0] == "new" or "--out" in words
    monkeypatch.chdir(tmp_path if is_new else folder)
    known = set() if RUNS_NOTHING.search(example) else options_of(PAGES[page])
    if "--synthetic" in words:
        known -= {"--data"}
    if page == "check":
        known -= {"--jobs", "--trials"}
    small = [word for name in known & set(SMALLER) - set(words) for word in (name, SMALLER[name])]
    done = run(*words, *small, *(["--overwrite"] if "--zip" in words else []))
    assert done.code in (0, 1), done.err
    assert "error:" not in done.err


def test_help_comes_before_what_is_given_twice() -> None:
    assert run("train --seed 1 --seed 2 --help").code == 0


def test_every_command_refuses_what_is_given_twice() -> None:
    others = [
        name for name, each in every_command(command_line()).items() if not isinstance(each, HelpCommand)
    ]
    assert others == []
