"""`foltr-audit new`: what it writes works as it is, is formatted, and replaces nothing."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from foltr_audit.core.plugins import Attack, Defense, Plugin
from foltr_audit.core.plugins.registry import make
from foltr_audit.evidence.check.limits import NAMES, SystemLimits
from foltr_audit.testing import ContractCheck, attack_checks, defense_checks
from tests.fixtures.command import answer, files, refusal, run
from tests.fixtures.doc_examples import ROOT
from tests.fixtures.plugin_packages import Installer

EXAMPLES = ROOT / "examples"
LONGEST = "a" * 19 + "-" + "b" * 20


def installed(folder: Path, kind: str, name: str, install: Installer) -> Path:
    """Make a package and install it: its folder."""
    done = run("new", kind, name, "--into", folder)
    assert done.code == 0, done.err
    place = folder / name
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    modules = {path.stem: path.read_text() for path in place.glob("*.py")}
    install(folder / "site", project["name"], project["entry-points"], modules)
    return place


def passes_ruff(place: Path) -> None:
    for command in ("format --check", "check --no-cache"):
        words = [sys.executable, "-m", "ruff", *command.split(), "."]
        done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def keeps_its_tests(module: str, checks: list[ContractCheck]) -> None:
    """Run the tests of a package here: every check of the contract, and those without parameters."""
    assert checks
    for _, check in checks:
        check()
    tests = importlib.import_module(f"test_{module}")
    own = [name for name in dir(tests) if name.startswith("test_") and name != "test_contract"]
    assert own
    for name in own:
        getattr(tests, name)()


def test_an_attack_works_from_the_first_minute(tmp_path: Path, install: Installer) -> None:
    passes_ruff(installed(tmp_path, "attack", "matched-filter", install))
    attack = make(Attack, "matched-filter:threshold=0.2")
    assert getattr(attack, "threshold", None) == 0.2
    keeps_its_tests("matched_filter", attack_checks(attack))
    small = "--data synthetic:mq2007:60 --clients 5 --rounds 1 --click-model informational --threads 1"
    rows = answer(f"attack --method matched-filter {small}")["results"]
    (auc,) = (row["auc"] for row in rows if row["method"] == "matched-filter")
    assert auc > 0.7  # without a defense even this simple idea finds clicks


def test_a_defense_works_from_the_first_minute(tmp_path: Path, install: Installer) -> None:
    passes_ruff(installed(tmp_path, "defense", "number-bound", install))
    keeps_its_tests("number_bound", defense_checks(make(Defense, "number-bound:limit=0.5")))


@pytest.mark.parametrize(("kind", "base"), [("attack", Attack), ("defense", Defense)])
def test_the_longest_name_is_formatted_too(
    kind: str, base: type[Plugin], tmp_path: Path, install: Installer
) -> None:
    passes_ruff(installed(tmp_path, kind, LONGEST, install))
    assert make(base, LONGEST).name == LONGEST


def test_limits_can_be_checked_and_every_limit_is_named(tmp_path: Path) -> None:
    for name in ("release", "gate.toml"):
        assert run("new", "limits", name, "--into", tmp_path).code == 0
    text = (tmp_path / "release.toml").read_text()
    assert text == (tmp_path / "gate.toml").read_text()
    assert SystemLimits.from_toml(text, "limits").given == ("max_attack_auc", "max_ndcg_loss")
    everything = SystemLimits.from_toml(text.replace("# m", "m").replace("# no_", "no_"), "limits")
    assert everything.given == NAMES


def test_the_examples_are_what_new_writes(tmp_path: Path) -> None:
    assert run("new", "attack", "matched-filter", "--into", tmp_path).code == 0
    assert run("new", "limits", "limits", "--into", tmp_path).code == 0
    for name in ("limits.toml", *(f"matched-filter/{file}" for file in files(tmp_path / "matched-filter"))):
        assert (EXAMPLES / name).read_bytes() == (tmp_path / name).read_bytes(), f"examples/{name}"


@pytest.mark.parametrize(("kind", "name"), [("attack", "mine"), ("defense", "mine"), ("limits", "mine.toml")])
def test_nothing_is_replaced(kind: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("kept")
    assert "exists and is not overwritten" in refusal("new", kind, name, "--into", tmp_path)
    assert files(tmp_path) == {name: b"kept"}
