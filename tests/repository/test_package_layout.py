"""The folders of plug-ins belong to one package, whatever the user's own folders are called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("attacks", "defenses", "scenarios", "studies")
LISTS = """
from foltr_audit.core.plugins import Attack, Defense, Scenario
from foltr_audit.core.plugins.registry import names, unloadable
for base in (Attack, Defense, Scenario):
    assert names(base) and not unloadable(base), unloadable(base)
import foltr_audit
print(foltr_audit.__file__)
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


@pytest.mark.parametrize(
    ("name", "folder"), [*((name, name) for name in FOLDERS), ("recorder", "recorder/foltr_audit_recorder")]
)
def test_the_package_holds_the_folders_of_the_checkout(name: str, folder: str) -> None:
    inside = ROOT / "foltr_audit" / name
    assert inside.resolve() == ROOT / folder
    assert os.readlink(inside) == f"../{folder}"  # relative: a clone may lie anywhere


def test_folders_of_the_user_take_nothing_away(tmp_path: Path) -> None:
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(
            "raise RuntimeError('the user has a package of this name')"
        )
    done = python(tmp_path, "-c", LISTS)
    assert done.returncode == 0, done.stderr
    listed = python(tmp_path, "-m", "foltr_audit", "list", "attacks", "--json")
    assert listed.returncode == 0, listed.stderr
    assert '"olsr"' in listed.stdout
    assert not listed.stderr


def test_a_checkout_that_comes_first_on_the_path_is_the_one_that_runs(tmp_path: Path) -> None:
    """Even where another one is installed."""
    other = tmp_path / "other"
    shutil.copytree(ROOT / "foltr_audit", other / "foltr_audit", ignore=shutil.ignore_patterns("__pycache__"))
    for place in (ROOT, other):
        done = python(tmp_path, "-c", LISTS, PYTHONPATH=str(place))
        assert done.returncode == 0, done.stderr
        assert Path(done.stdout.strip()).is_relative_to(place)
