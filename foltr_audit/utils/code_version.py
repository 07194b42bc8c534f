"""Which code made a result: a hash over sources of this package."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

EVERYTHING = ("", "attacks", "defenses", "scenarios", "studies", "recorder")
"""All packages: in a checkout all but the first lie beside it, once installed inside of it."""


@cache
def code_version(names: Sequence[str] = EVERYTHING) -> str:
    """SHA-256 over the sources of some packages and modules of foltr_audit, by name; "" is the whole."""
    sources, digest = {}, hashlib.sha256()
    for name in names:
        first = Path(str(import_module(f"foltr_audit.{name}".rstrip(".")).__file__))
        whole = first.name == "__init__.py"
        for path in first.parent.rglob("*") if whole else [first]:
            if path.suffix not in (".py", ".toml"):
                continue
            sources[f"{name}/{path.relative_to(first.parent).as_posix()}".lstrip("/")] = path.read_bytes()
    for source, content in sorted(sources.items()):
        digest.update(f"{source} {len(content)}\n".encode() + content)
    return digest.hexdigest()
