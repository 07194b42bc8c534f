"""Hashes of code: what changes them, and what does not."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from foltr_audit.utils.code_version import EVERYTHING, code_version, plugin_version

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = {
    "plug45.py": "import os, side45\nfrom package45.inner import x\ndef f():\n    from late45 import y\n",
    "side45.py": "import numpy\n",
    "late45.py": "y = 1\n",
    "package45/__init__.py": "",
    "package45/inner.py": "from . import other\nx = 1\n",
    "package45/other.py": "",
    "beside45.py": "nobody imports it",
}


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Puts folders on the path; what was imported from them is forgotten at the end."""
    before = set(sys.modules)
    yield monkeypatch
    for name in set(sys.modules) - before:
        if "45" in name:
            del sys.modules[name]


def version(folder: Path, sources: Mapping[str, str], patch: pytest.MonkeyPatch, name: str = "plug45") -> str:
    """The hash of a module or package of these sources in a folder."""
    for file, source in sources.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(source)
    with patch.context() as here:
        here.syspath_prepend(str(folder))
        return plugin_version(name)


@pytest.mark.parametrize("changed", PLUGIN)
def test_a_module_and_what_it_imports_count_wherever_they_lie(
    tmp_path: Path, modules: pytest.MonkeyPatch, changed: str
) -> None:
    first = version(tmp_path / "a", PLUGIN, modules)
    assert version(tmp_path / "b", PLUGIN, modules) == first
    other = version(tmp_path / "c", {**PLUGIN, changed: PLUGIN[changed] + "# more\n"}, modules)
    assert (other == first) == (changed == "beside45.py")


def test_what_is_installed_counts_only_as_the_plug_in_itself(
    tmp_path: Path, modules: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "lib" / "site-packages"
    modules.syspath_prepend(str(place))
    found = []
    for text in ("1", "2"):
        library = version(place, {"library45.py": text}, modules, "library45")
        found.append((library, version(tmp_path / text, {"plug45.py": "import library45\n"}, modules)))
    assert found[0][0] != found[1][0]
    assert found[0][1] == found[1][1]


def test_the_hash_is_that_of_the_sorted_names_and_bytes(tmp_path: Path, modules: pytest.MonkeyPatch) -> None:
    sources = {"package45/b.py": "x\r\n", "package45/__init__.py": "", "package45/a/b.toml": "é"}
    expected = hashlib.sha256()
    for name, text in sorted(sources.items()):
        expected.update(f"{name} {len(text.encode())}\n{text}".encode())
    found = version(tmp_path, {**sources, "package45/notes.txt": "none"}, modules, "package45")
    assert found == expected.hexdigest()


def test_what_no_file_defines_has_the_hash_of_nothing() -> None:
    empty = hashlib.sha256(b"").hexdigest()
    assert {plugin_version(name) for name in ("no_such_module_45", "__main__45", "sys")} == {empty}


def test_a_package_that_is_imported_has_the_sources_that_were_imported(
    tmp_path: Path, modules: pytest.MonkeyPatch
) -> None:
    first = version(tmp_path / "a", PLUGIN, modules)
    version(tmp_path / "b", {**PLUGIN, "plug45.py": ""}, modules)
    modules.syspath_prepend(str(tmp_path / "a"))
    importlib.invalidate_caches()
    importlib.import_module("plug45")
    modules.syspath_prepend(str(tmp_path / "b"))
    assert plugin_version("plug45") == first


def test_a_checkout_and_an_installed_package_have_the_same_hash(tmp_path: Path) -> None:
    """A wheel has all packages inside of the first one, and files besides sources."""
    leave = shutil.ignore_patterns("__pycache__", "*.css", "*.js", "*.j2")
    shutil.copytree(ROOT / "foltr_audit", tmp_path / "foltr_audit", ignore=leave)
    for name in EVERYTHING[1:]:
        place = "recorder/foltr_audit_recorder" if name == "recorder" else name
        shutil.copytree(ROOT / place, tmp_path / "foltr_audit" / name, ignore=leave)

    def installed() -> list[str]:
        code = "import foltr_audit.utils.code_version as c; print(c.__file__, c.code_version())"
        run = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"]
        return subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.split()

    assert installed() == [str(tmp_path / "foltr_audit" / "utils" / "code_version.py"), code_version()]
    with (tmp_path / "foltr_audit" / "attacks" / "olsr.py").open("a") as file:
        file.write("# more\n")
    assert installed()[1] != code_version()


def test_rooms_that_do_not_count_change_nothing() -> None:
    assert code_version(EVERYTHING, ("cli",)) != code_version()
    assert code_version(EVERYTHING, ("no-such-room",)) == code_version()
