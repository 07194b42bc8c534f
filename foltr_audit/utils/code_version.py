"""Which code made a result: a hash over sources of this package."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

EVERYTHING = ("", "attacks", "defenses", "scenarios", "studies", "recorder")
"""All packages: in a checkout all but the first lie beside it, once installed inside of it."""


@cache
def code_version(packages: Sequence[str] = EVERYTHING) -> str:
    """SHA-256 over names and contents of all modules of some packages of foltr_audit; the whole is ""."""
    sources, digest = {}, hashlib.sha256()
    for package in packages:
        folder = Path(str(files(f"foltr_audit.{package}".rstrip("."))))
        for path in folder.rglob("*.py"):
            sources[f"{package}/{path.relative_to(folder).as_posix()}".lstrip("/")] = path.read_bytes()
    for name, content in sorted(sources.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
