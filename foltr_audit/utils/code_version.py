"""Which code made a result: hashes over the sources of this package, and of plug-ins."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_PACKAGE = "foltr_audit"
EVERYTHING = ("", "attacks", "defenses", "scenarios", "studies", "recorder")
"""All packages: in a checkout all but the first lie beside it, once installed inside of it."""

_CODE = (".py", ".so", ".toml")
_INSTALLED = {"site-packages", "dist-packages"}
_IMPORTS = re.compile(rb"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+(\w[\w., \t]*))", re.MULTILINE)


@cache
def code_version(names: Sequence[str] = EVERYTHING, without: Collection[str] = ()) -> str:
    """SHA-256 over the sources of some packages and modules of foltr_audit, by name; "" is the whole.

    `without`: rooms, and files beside them, that do not count.
    """
    sources: dict[str, Path] = {}
    for name in names:
        sources |= _sources(f"{_PACKAGE}.{name}".rstrip("."), name)
    return _digest({name: path for name, path in sources.items() if name.partition("/")[0] not in without})


def plugin_version(name: str) -> str:
    """SHA-256 over the sources of a package or module that is not ours, and of what these import.

    Of a package all sources count. So do those of every package or module that an import statement names,
    and so on, unless it is installed (in `site-packages`) or part of Python: the helper next to a plug-in.
    Modules whose names are computed, and files of data, do not count. Where the sources lie does not matter.
    """
    sources: dict[str, Path] = {}
    seen, todo = {name, _PACKAGE, *sys.stdlib_module_names}, [name]
    while todo:
        outer = todo.pop()
        own = _sources(outer, outer)
        imported = {each for path in own.values() for each in _imported(path.read_bytes())} - seen
        seen |= imported
        todo += [each for each in imported if not _is_installed(each)]
        sources |= own
    return _digest(sources)


def _imported(source: bytes) -> Iterator[str]:
    """The outermost names of what a source imports; relative imports, of its own package, have none."""
    for origin, several in _IMPORTS.findall(source):
        for each in (origin or several).decode().split(","):
            if each.strip():
                yield each.split()[0].partition(".")[0]


def _places(name: str) -> list[Path]:
    """The folders of a package, or the file of a module; none where no file defines it."""
    module = sys.modules.get(name)
    try:
        spec = find_spec(name) if module is None else module.__spec__
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    file = [spec.origin] if spec.origin and spec.has_location else []
    return [Path(place) for place in spec.submodule_search_locations or file if Path(place).exists()]


def _sources(name: str, known_as: str) -> dict[str, Path]:
    """The sources of a package or module, by their path in it."""
    found: dict[str, Path] = {}
    for place in _places(name):
        for path in place.rglob("*") if place.is_dir() else [place]:
            inner = path.relative_to(place if place.is_dir() else place.parent)
            if path.suffix in _CODE and not _INSTALLED & set(inner.parts):  # an environment may lie inside
                found[f"{known_as}/{inner.as_posix()}".lstrip("/")] = path
    return found


def _is_installed(name: str) -> bool:
    """Whether a package or module is one of an environment; also if there is none of this name."""
    places = _places(name)
    return not places or any(_INSTALLED & set(place.parts) for place in places)


def _digest(sources: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(sources.items()):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
