"""Ranking data that were parsed or generated once are memory-mapped the next time.

In `data` of the user's cache folder, or of the one that FOLTR_AUDIT_CACHE names (empty: no cache):

```
FINGERPRINT-NORMALISATION-VERSION/   a collection, see `entry`; sources of the same content share it
KEY.json                             which source (its files' sizes, times and inodes) has which content
```

Everything gets its name only when it is complete, and no file is ever changed: a killed writer leaves
a temporary folder that nobody reads, and what a run has mapped stays when another removes it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from foltr_audit.core.records import Collection
from foltr_audit.data.cache.entry import SCHEMA, map_entry, seal, unseal, write_entry
from foltr_audit.data.cache.key import Identity, SourceKey, identity_of, is_outdated, is_unchanged
from foltr_audit.errors import FoltrAuditError
from foltr_audit.utils import atomic_files

FOLDER_VARIABLE = "FOLTR_AUDIT_CACHE"
SMALLEST_BYTES = 4 << 20
"""Collections with features below this size are not stored: they are parsed in less than about .1 s."""

_ABANDONED_S = 86_400  # a temporary folder may be a writer's that is still at work; none takes a day
_CONTENT = re.compile(r"[0-9a-f]{32}-(none|zscore|zscore-parts|query-minmax)-float(32|64)-[0-9a-f]{8}")
_KEY = re.compile(r"[0-9a-f]{32}\.json")


@dataclass(frozen=True, kw_only=True)
class CacheEntry:
    """A source in the cache; `content` is the folder that it may share with others."""

    source: str
    fold: int
    normalised: str
    dtype: str
    fingerprint: str
    bytes: int
    last_used: str
    content: str


def cached(origin: SourceKey, load: Callable[[], Collection]) -> Collection:
    """The collection of an origin: from the cache, or loaded and then stored there.

    A cache that cannot be written costs one line on stderr, nothing else.
    """
    folder = cache_folder()
    identity = identity_of(origin)
    if folder is None or identity is None:
        return load()
    found = _look_up(folder, origin, identity)
    if found is not None:
        return found
    collection = load()
    if _size(collection) < SMALLEST_BYTES or not is_unchanged(identity, identity_of(origin)):
        return collection
    try:
        _store(folder, identity, collection)
    except OSError as error:
        _note(f"note: data cache: {folder}: {error.strerror or error}; continuing without it")
        return collection
    del collection  # mapped, it need not stay in memory
    # Another process may have swept the entry meanwhile: the data are then loaded once more.
    return _look_up(folder, origin, identity) or load()


def cache_folder() -> Path | None:
    """Where the cache is; None where it is switched off, or where the user has no folder."""
    from platformdirs import user_cache_path

    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen == "":
        return None
    root = user_cache_path("foltr-audit") if chosen is None else Path(chosen).absolute()
    return root / "data" if root.is_absolute() else None


@cache
def _note(line: str) -> None:
    """Write a line to stderr, once per process."""
    sys.stderr.write(line + "\n")


# --- finding and storing --------------------------------------------------------------------------


def _index_file(folder: Path, identity: Identity) -> Path:
    text = json.dumps(identity, sort_keys=True)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _look_up(folder: Path, origin: SourceKey, identity: Identity) -> Collection | None:
    path = _index_file(folder, identity)
    table = _read_index(path)
    # The name is a part of a hash: the identity as a whole decides.
    if table is None or table.get("identity") != identity:
        return None
    place, intents = folder / table["content"], origin.intents
    found = map_entry(place, source=origin.source, fold=origin.fold, intents_from=intents)
    if found is None or (found.normalised, _dtype(found)) != (origin.normalise, origin.dtype):
        return None
    with suppress(OSError):
        os.utime(path)  # its time is that of the last use
    return found


def _read_index(path: Path) -> dict[str, Any] | None:
    """Which source has which content; None for a damaged file."""
    table = unseal(path)
    # `content` becomes a part of a path, so nothing but a name of the cache's own form is taken: it cannot
    # lead out of the folder.
    return table if table and _CONTENT.fullmatch(str(table.get("content"))) else None


def _dtype(collection: Collection) -> str:
    return str(collection.train.features.dtype)


def _size(collection: Collection) -> int:
    return sum(collection.part(name).features.nbytes for name in Collection.PARTS)


def _store(folder: Path, identity: Identity, collection: Collection) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the data may be less public than the folder
    form = f"{collection.normalised}-{_dtype(collection)}"
    name = f"{collection.fingerprint[:32]}-{form}-{identity['version'][:8]}"
    if not _is_sound(folder / name):
        # The cache is a convenience: an entry takes about half of the free space at most.
        if shutil.disk_usage(folder).free < 2 * _size(collection):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _put(folder / name, collection)
    facts = {"identity": identity, "fingerprint": collection.fingerprint, "content": name}
    atomic_files.write_text(_index_file(folder, identity), seal({"schema": SCHEMA, **facts}))
    with suppress(OSError):  # another process may sweep at the same time
        _sweep(folder)


def _is_sound(place: Path) -> bool:
    return map_entry(place, source="", fold=0) is not None


def _put(place: Path, collection: Collection) -> None:
    """Write a collection next to its place, then rename it, unless another process was faster."""
    written, damaged = (place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp") for _ in range(2))
    try:
        written.mkdir()
        write_entry(written, collection)
        try:
            written.rename(place)
        except OSError:
            if _is_sound(place):
                return
            # Moved aside, not overwritten: another process may still have its files mapped.
            place.rename(damaged)
            written.rename(place)
        atomic_files.sync_folder(place.parent)
    finally:
        _remove(written)
        _remove(damaged)


def _sweep(folder: Path) -> None:
    """Remove what killed writers left, sources that have changed since, and content without a source."""
    for path in _unfinished(folder):
        if time.time() - path.lstat().st_mtime > _ABANDONED_S:
            _remove(path)
    used = set()
    for path, table in _sources(folder):
        if table is None or is_outdated(table["identity"]):
            path.unlink(missing_ok=True)
        else:
            used.add(table["content"])
    for path in _contents(folder):
        if path.name not in used:
            _remove(path)


def _sources(folder: Path) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """The index file of every source, sorted, and what it says."""
    return ((path, _read_index(path)) for path in sorted(folder.glob("*.json")) if _KEY.fullmatch(path.name))


def _contents(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*-*-*")) if _CONTENT.fullmatch(path.name)]


def _unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.glob(".*.tmp") if atomic_files.is_temporary(path.name)]


def _remove(path: Path) -> None:
    """Remove a file or folder that may be gone already; a link is removed, not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


# --- looking at it and emptying it ----------------------------------------------------------------


def list_entries() -> list[CacheEntry]:
    """Every source in the cache, by name."""
    folder = cache_folder()
    if folder is None:
        return []
    rows = [_row(path, table) for path, table in _sources(folder) if table]
    return sorted(rows, key=lambda row: (row.source, row.fold, row.normalised, row.last_used))


def _row(path: Path, table: dict[str, Any]) -> CacheEntry:
    identity = table["identity"]
    last_used = 0
    with suppress(FileNotFoundError):  # another process has just removed it
        last_used = int(path.stat().st_mtime)
    return CacheEntry(
        source=identity["source"],
        fold=identity["fold"],
        normalised=identity["normalise"],
        dtype=identity["dtype"],
        fingerprint=table["fingerprint"],
        bytes=_bytes(path.with_name(table["content"])),
        last_used=datetime.fromtimestamp(last_used, UTC).isoformat(),
        content=table["content"],
    )


def _bytes(folder: Path) -> int:
    size = 0
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def clear() -> tuple[int, int]:
    """Empty the cache, unfinished and damaged parts included; the numbers of sources and bytes removed.

    Files that are not the cache's own stay.

    Raises:
        FoltrAuditError: something cannot be removed.
    """
    folder = cache_folder()
    if folder is None or not folder.is_dir():
        return 0, 0
    sources = [path for path, _ in _sources(folder)]
    folders = _contents(folder) + _unfinished(folder)
    size = sum(map(_bytes, folders))
    try:
        for path in (*sources, *folders):
            _remove(path)
    except OSError as error:
        raise FoltrAuditError(f"data cache: {error.filename}: cannot be removed: {error.strerror}") from error
    left = next((path for path in folders if path.exists()), None)
    if left is not None:
        raise FoltrAuditError(f"data cache: {left}: cannot be removed")
    return len(sources), size
