"""The folders of plug-ins belong to one package, whatever the user's own folders are called."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name

from foltr_audit.utils.optional_dependencies import EXTRAS
from tests.fixtures.import_graph import ROOT, TOP_FOLDERS, imports, modules

FOLDERS = ("attacks", "defenses", "scenarios", "studies")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LISTS = """
from foltr_audit.core.plugins import Attack, Defense, Scenario
from foltr_audit.core.plugins.registry import names, unloadable
for base in (Attack, Defense, Scenario):
    assert names(base) and not unloadable(base), unloadable(base)
"""


def python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in a folder, with that folder on its path."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_the_wheel_lists_every_package_of_the_tree() -> None:
    listed = PROJECT["tool"]["setuptools"]
    folders = {name: ROOT / folder for name, folder in listed["package-dir"].items()}
    assert folders == {"foltr_audit": ROOT / "foltr_audit", **TOP_FOLDERS}
    assert listed["packages"] == [name for name, path in modules().items() if path.name == "__init__.py"]


def declared(*extras: str) -> dict[NormalizedName, SpecifierSet]:
    """The packages that the project needs with some extras, and which of their versions."""
    project = PROJECT["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][name] for name in extras)]
    needed = [Requirement(text) for texts in lists for text in texts]
    others = [extra for each in needed if each.name == project["name"] for extra in each.extras]
    found = {canonicalize_name(each.name): each.specifier for each in needed if each.name != project["name"]}
    return found | (declared(*others) if others else {})


def test_every_library_that_is_imported_is_declared() -> None:
    names = {name.replace("-", "_") for name in declared(*EXTRAS)}
    brought = {"llvmlite", "pandas", "pydantic_core", "sklearn"}  # numba, statsmodels and others bring them
    users_own = {"flwr", "_typeshed"}
    every = {target.partition(".")[0] for name in modules() for target in imports(name)}
    assert every - sys.stdlib_module_names - {"foltr_audit"} <= names | brought | users_own


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_needs_it(extra: str) -> None:
    assert set(EXTRAS[extra]) <= declared(extra).keys() - declared().keys()


def test_constraints_name_a_version_of_every_library_that_the_project_asks_for() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    versions = {canonicalize_name(name): version for name, version in pairs}
    asked = declared("test")
    assert not asked.keys() - versions.keys()
    assert not [name for name, bound in asked.items() if not bound.contains(versions[name])]


def test_the_checkout_has_no_links() -> None:
    """A clone on Windows and a zip archive would hold a text file in the place of each."""
    listed = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a clone")
    assert not [line for line in listed.stdout.splitlines() if line.startswith("120000")]


def test_folders_of_the_user_take_nothing_away(tmp_path: Path) -> None:
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        module = tmp_path / name / "__init__.py"
        module.write_text("raise RuntimeError('the user has a package of this name')")
    done = python(tmp_path, "-c", LISTS)
    assert done.returncode == 0, done.stderr
    listed = python(tmp_path, "-m", "foltr_audit", "list", "attacks", "--json")
    assert listed.returncode == 0, listed.stderr
    assert '"olsr"' in listed.stdout
    assert not listed.stderr
