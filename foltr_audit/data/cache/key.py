"""What a collection is made from, and whether the same source gives the same collection again."""

from __future__ import annotations

import hashlib
import stat
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

DECIDING = ("core", "data", "errors", "kernels", "rng", "utils")
"""Rooms and modules whose code decides what a source becomes: an entry of other code is not used."""

_SETTLED_NS = 100_000_000  # a file that changed later than this may change again without a newer time

Identity = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SourceKey:
    """What a collection is made from.

    Attributes:
        name: the source as `data cache list` shows it.
        source, fold: as in the Collection.
        normalise: how its features are scaled.
        dtype: number format of its features, `float32` or `float64`.
        split_seed: of the split into parts; None where nothing is split.
        files: every file that is read.
        intents: as in the Collection's `intents_from`.
    """

    name: str
    source: str
    fold: int
    normalise: str
    dtype: str
    split_seed: int | None
    files: tuple[Path, ...]
    intents: str | None = None


def identity_of(origin: SourceKey) -> Identity | None:
    """What decides the content, ready for JSON; None for a source that is not a plain file."""
    files = [[str(path.resolve()), _stamp(path)] for path in origin.files]
    if any(stamp is None for _, stamp in files):
        return None
    return {
        "source": origin.name,
        "fold": origin.fold,
        "normalise": origin.normalise,
        "dtype": origin.dtype,
        "split_seed": origin.split_seed,
        "files": files,
        "version": code_version(),
    }


def _stamp(path: Path) -> list[int] | None:
    """Size, times and inode of a plain file; unlike its mtime, its ctime cannot be set back."""
    try:
        facts = path.stat()
    except OSError:
        return None
    # A pipe or a device may give something else each time, and its stamp does not say so.
    if not stat.S_ISREG(facts.st_mode):
        return None
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]


def is_unchanged(before: Identity, after: Identity | None) -> bool:
    """Whether the files are what was read: no stamp changed, and the clock has moved on since."""
    newest = max((stamp[2] for _, stamp in before["files"]), default=0)
    return before == after and time.time_ns() - newest > _SETTLED_NS


@cache
def code_version() -> str:
    """SHA-256 over the code that reads, generates and normalises, and over the versions that it runs on."""
    from importlib.metadata import version

    packages = (version("foltr-audit"), np.__version__, version("polars"))
    digest = hashlib.sha256(" ".join(packages).encode())
    root = Path(__file__).parents[2]
    for name in DECIDING:
        module = root / f"{name}.py"
        for path in [module] if module.is_file() else sorted((root / name).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def is_outdated(identity: Identity) -> bool:
    """Whether no run can use this again; a file that is missing may come back with its disk."""
    now = ((stamp, _stamp(Path(path))) for path, stamp in identity["files"])
    return identity["version"] != code_version() or any(found not in (None, stamp) for stamp, found in now)
