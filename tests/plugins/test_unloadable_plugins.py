"""A plug-in that cannot be loaded stops the commands that name it, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import GROUPS, loadable, names, unloadable
from foltr_audit.errors import UsageError
from tests.fixtures.command import SMALL, Done, run
from tests.fixtures.plugin_packages import Installer

CLICKS = ("--click-model", "perfect")
BROKEN = {
    "no module": ("lab_missing:Mine", "No module named 'lab_missing'"),
    "no such name": ("lab:Mine", "has no attribute 'Mine'"),
    "raises": ("lab:Mine", "first line second line"),
    "exits": ("lab:Mine", "cannot be loaded: 7"),
}
SOURCES = {"raises": "raise RuntimeError('first line\\nsecond line')", "exits": "raise SystemExit(7)"}


@pytest.fixture(params=BROKEN)
def broken(request: pytest.FixtureRequest, tmp_path: Path, install: Installer) -> str:
    """An attack `mine` that cannot be loaded; what its error says."""
    value, why = BROKEN[request.param]
    install(
        tmp_path / "lab", "lab", {GROUPS[Attack]: {"mine": value}}, {"lab": SOURCES.get(request.param, "")}
    )
    return why


@pytest.fixture
def missing(tmp_path: Path, install: Installer) -> None:
    """An attack `mine` whose module is not there."""
    install(tmp_path / "lab", "lab", {GROUPS[Attack]: {"mine": "lab_missing:Mine"}}, {})


def warned(done: Done) -> None:
    """The command went well, with one warning of plug-ins, and says it once."""
    assert done.code == 0, done.err
    starts = ("warning FA401: plug-ins:", "error:")
    lines = [line for line in done.err.splitlines() if line.startswith(starts)]
    assert len(lines) == 1, done.err
    assert lines[0].startswith("warning FA401: plug-ins: 'mine' (lab_missing:Mine) cannot be loaded: ")
    assert lines[0].endswith("; left out")


def test_it_is_known_but_not_loadable(broken: str) -> None:
    assert "mine" in names(Attack)
    assert set(names(Attack)) - set(loadable(Attack)) == {"mine"}
    (why,) = unloadable(Attack).values()
    assert broken in why
    assert "\n" not in why


def test_a_command_that_names_it_says_why_and_ends(broken: str) -> None:
    done = run("attack", *SMALL, *CLICKS, "--method", "olsr", "--method", "mine")
    assert done.code == 2
    line = done.one_error()
    assert "'mine'" in line
    assert broken in line


def test_attack_goes_on_without_it(tmp_path: Path, missing: None) -> None:
    done = run("attack", *SMALL, *CLICKS, "--eps", 1.2, "--out", tmp_path / "run", "--json")
    warned(done)
    methods = {row["method"] for row in done.json()["results"]}
    assert {"olsr", "position-prior", "relevance-prior"} <= methods
    assert "mine" not in methods
    # `all` are those that can be loaded; without features most of them are quick to say that they cannot run
    warned(run("attack", "--trace", tmp_path / "run", "--method", "all", "--hide", "features", "--json"))


def test_compare_warns_itself_before_workers_run(missing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise UsageError("stopped")

    monkeypatch.setattr("foltr_audit.experiments.comparison.runner.compare", stop)
    first, second = run("compare", *SMALL).err.splitlines()[-2:]
    assert first.startswith("warning FA401: plug-ins: 'mine' (lab_missing:Mine) cannot be loaded: ")
    assert second == "error: stopped"


def test_check_goes_on_without_it(tmp_path: Path, missing: None) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("max_attack_auc = 0.999\n")
    run("train", *SMALL, "--out", tmp_path / "run")
    warned(run("check", limits, "--trace", tmp_path / "run", "--method", "olsr"))


def test_it_is_left_out_of_the_list(missing: None) -> None:
    done = run("list", "attacks", "--json")
    warned(done)
    listed = [row["name"] for row in done.json()["plugins"]]
    assert "olsr" in listed
    assert "mine" not in listed


@pytest.mark.parametrize("command", [("train", *SMALL), ("list", "defenses")])
def test_who_needs_no_attack_hears_nothing_of_it(missing: None, command: tuple[str, ...]) -> None:
    done = run(*command)
    assert done.code == 0
    assert "mine" not in done.err
