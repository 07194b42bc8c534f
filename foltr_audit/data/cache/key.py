"""What a collection is made from, and when the same origin surely gives the same collection again."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

DECIDING = (
    *("core.spec", "core.spec.base", "core.spec.data", "utils.atomic_files", "errors", "rng", "data.load"),
    *("data.normalize", "data.sources", "data.synthetic.generate", "data.cache.entry", "data.letor.reader"),
    *("data.letor.features", "data.letor.lines", "data.letor.writer", "utils.reading"),
    *("utils.reading.arrays", "utils.reading.bounded_files", "utils.reading.json", "utils.reading.toml"),
    *("utils.reading.values", "data.label_columns", "data.qrels", "data.synthetic.columns"),
    *("data.synthetic.intents", "data.synthetic.topics", "kernels", "kernels.bell", "kernels.jit"),
    *("kernels.philox", "kernels.topic_documents", "core.records", "core.records.dataset"),
    *("utils.frozen_arrays", "core.records.names", "core.records.interactions"),
)
"""Modules that decide what a source becomes: data kept by others of them are not used."""

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
    """What decides the content, ready for JSON; None for a source that is no plain file."""
    stamps = [_stamp(path) for path in origin.files]
    version = code_version()
    if version is None or None in stamps:
        return None
    return {
        "source": origin.name,
        "fold": origin.fold,
        "normalise": origin.normalise,
        "dtype": origin.dtype,
        "split_seed": origin.split_seed,
        "files": [
            [os.fspath(path.resolve()), stamp] for path, stamp in zip(origin.files, stamps, strict=True)
        ],
        "version": version,
    }


def _stamp(path: Path) -> list[int] | None:
    """Size, times and inode of a plain file; the time of the last change of state cannot be set back."""
    try:
        facts = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]


def is_unchanged(before: Identity, after: Identity | None) -> bool:
    """Whether the files surely are what was read: no stamp moved, and the clock has moved on since."""
    newest = max((stamp[2] for _, stamp in before["files"]), default=0)
    return before == after and time.time_ns() - newest > _SETTLED_NS


@cache
def code_version() -> str | None:
    """SHA-256 over the code that reads, generates and normalises, and its libraries' versions."""
    from importlib.metadata import version

    digest = hashlib.sha256(f"{np.__version__} {version('polars')}".encode())
    root = Path(__file__).parents[2]
    for name in DECIDING:
        path = root.joinpath(*name.split("."))
        try:
            digest.update((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_bytes())
        except OSError:
            return None
    return digest.hexdigest()


def is_outdated(identity: Identity) -> bool:
    """Whether nothing can ask for this again; a missing file may come back with its disk."""
    now = ((stamp, _stamp(Path(path))) for path, stamp in identity["files"])
    return identity["version"] != code_version() or any(found not in (None, stamp) for stamp, found in now)
