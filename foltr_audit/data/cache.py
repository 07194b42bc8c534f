"""Ranking data that were parsed or generated once are memory-mapped the next time.

In `data` of the user's cache folder, or of that of FOLTR_AUDIT_CACHE (empty: no cache), each source has a
folder, named by a hash of the paths, sizes and times of its files, of its settings, and of the code:

```
meta.json               the source, and facts of the collection
PART.features.npy       float32 or float64 (documents, features)
PART.labels.npy         int64 (documents,)
PART.offsets.npy        int64 (queries + 1,)
PART.query_ids.npy      names in UTF-8, each ended by a NUL
PART.document_ids.npy   the same
PART.intents.npy        int64 (I, documents), only where there are several intents
PART.users.npy          int64 (queries,), only where queries are users'
```

A folder gets its name only when it is complete, and no file is ever changed: a killed writer leaves a folder
that nobody reads, and what a run has mapped stays when another removes it. A truncated entry is made again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.names import LazyNames
from foltr_audit.errors import DataError, FoltrAuditError
from foltr_audit.recorder import atomic_files
from foltr_audit.utils.reading import file_bytes
from foltr_audit.utils.reading.arrays import map_array

FOLDER_VARIABLE = "FOLTR_AUDIT_CACHE"
DECIDING = ("core", "data", "errors", "kernels", "recorder", "rng", "utils")
"""Rooms and modules whose code decides what a source becomes: an entry of other code is not used."""
SMALLEST_BYTES = 4 << 20
"""Collections with features below this size are not stored: they are parsed in less than about .1 s."""
META = "meta.json"
_MOST_META_BYTES = 16 << 20  # it names every file of a data set
_ABANDONED_S = 86_400  # a temporary folder may be a writer's that is still at work; none takes a day
_OWN = re.compile(r"\.?[0-9a-f]{32}\b.*")
_TYPES = {
    "features": ("<f4", "<f8"),
    "labels": ("<i8",),
    "offsets": ("<i8",),
    "query_ids": ("|u1",),
    "document_ids": ("|u1",),
    "intents": ("<i8",),
    "users": ("<i8",),
}


class SourceKey(BaseModel, frozen=True):
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

    def stamps(self) -> list[tuple[int, int] | None]:
        """Size and time of change, in nanoseconds, of each file; None for one that is no plain file."""
        return [_stamp(path) for path in self.files]

    def entry_name(self) -> str | None:
        """Name of its folder, other for other content; None for what is not kept.

        A pipe or a device may give something else each time.
        """
        stamps = self.stamps()
        decides = (self.model_dump_json(exclude={"source"}), stamps, code_version())
        return None if None in stamps else hashlib.sha256(repr(decides).encode()).hexdigest()[:32]


class EntryFacts(BaseModel):
    """What `meta.json` says of the collection in its folder."""

    origin: SourceKey
    stamps: list[tuple[int, int] | None]
    version: str
    fingerprint: str
    synthetic: bool
    with_intents: bool
    with_users: bool
    left_out: int
    read: tuple[int, int] | None

    @property
    def is_outdated(self) -> bool:
        """Whether the code or a file has changed; a file that is missing may come back with its disk."""
        now = zip(self.stamps, self.origin.stamps(), strict=True)
        return self.version != code_version() or any(new not in (None, old) for old, new in now)


@dataclass(frozen=True, kw_only=True)
class CacheEntry:
    """A source in the cache."""

    source: str
    fold: int
    normalised: str
    dtype: str
    fingerprint: str
    bytes: int
    last_used: str


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return (facts.st_size, facts.st_mtime_ns) if stat.S_ISREG(facts.st_mode) else None


@cache
def code_version() -> str:
    """SHA-256 over the code that reads, generates and normalises, and over the versions that it runs on."""
    from importlib.metadata import version

    packages = (version("foltr-audit"), np.__version__, version("polars"))
    digest = hashlib.sha256(" ".join(packages).encode())
    root = Path(__file__).parents[1]
    for name in DECIDING:
        module = root / f"{name}.py"
        for path in [module] if module.is_file() else sorted((root / name).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def cached(origin: SourceKey, load: Callable[[], Collection]) -> Collection:
    """The collection of an origin: from the cache, or loaded and then stored there.

    A cache that cannot be written costs one line on stderr, nothing else.
    """
    folder, name = cache_folder(), origin.entry_name()
    if folder is None or name is None:
        return load()
    place = folder / name
    found = map_entry(place, origin)
    if found is not None:
        with suppress(OSError):
            os.utime(place / META)  # its time is that of the last use
        return found
    collection = load()
    size = sum(collection.part(name).features.nbytes for name in Collection.PARTS)
    if size < SMALLEST_BYTES or origin.entry_name() != name:  # a file was changed meanwhile
        return collection
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the data may be less public than the folder
        # The cache is a convenience: an entry takes about half of the free space at most.
        if shutil.disk_usage(folder).free < 2 * size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _put(place, collection, origin)
    except OSError as error:
        _note(f"note: data cache: {folder}: {error.strerror or error}; continuing without it")
        return collection
    del collection  # mapped, it need not stay in memory
    # Another process may have removed the entry meanwhile: the data are then loaded once more.
    return map_entry(place, origin) or load()


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


# --- one entry ------------------------------------------------------------------------------------


def write_entry(folder: Path, collection: Collection, origin: SourceKey) -> None:
    """Write a collection into an empty folder, and flush it to the disk.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    for part in Collection.PARTS:
        for kind in _TYPES:
            array = getattr(collection.part(part), kind)
            if array is None:
                continue
            if kind.endswith("_ids"):
                try:
                    array = LazyNames.of(array).text
                except ValueError as error:  # a NUL in a name: `cached` goes on without the cache
                    raise OSError(None, str(error)) from error
            with (folder / f"{part}.{kind}.npy").open("xb") as file:
                np.save(file, np.ascontiguousarray(array, array.dtype.newbyteorder("<")), allow_pickle=False)
                # No checksum would tell a file that a power cut emptied: it is on the disk before it counts.
                file.flush()
                os.fsync(file.fileno())
    facts = EntryFacts(
        origin=origin,
        stamps=origin.stamps(),
        version=code_version(),
        fingerprint=collection.fingerprint,
        synthetic=collection.synthetic,
        with_intents=collection.train.intents is not None,
        with_users=collection.train.users is not None,
        left_out=collection.left_out,
        read=collection.read,
    )
    atomic_files.write_text(folder / META, facts.model_dump_json(indent=1) + "\n")


def map_entry(folder: Path, origin: SourceKey) -> Collection | None:
    """The collection in a folder, memory-mapped and read-only; None if anything about it is wrong."""
    try:
        facts = _facts(folder)
        found = Collection(
            **{part: _map_part(folder, part, facts) for part in Collection.PARTS},
            source=origin.source,
            synthetic=facts.synthetic,
            fold=origin.fold,
            fingerprint=facts.fingerprint,
            normalised=origin.normalise,
            intents_from=origin.intents,
            left_out=facts.left_out,
            read=facts.read,
        )
    # Its arrays need not fit together. None of this is worth an error: the source is parsed again.
    except (OSError, ValueError, LookupError, DataError):
        return None
    return found if str(found.train.features.dtype) == origin.dtype else None


def _facts(folder: Path) -> EntryFacts:
    return EntryFacts.model_validate_json(file_bytes(folder / META, DataError, _MOST_META_BYTES))


def _map_part(folder: Path, part: str, facts: EntryFacts) -> Dataset:
    arrays: dict[str, Any] = {}
    for kind, types in _TYPES.items():
        path = folder / f"{part}.{kind}.npy"
        if (kind == "intents" and not facts.with_intents) or (kind == "users" and not facts.with_users):
            continue
        arrays[kind] = map_array(path)
        if arrays[kind].dtype.str not in types:
            raise ValueError(f"{path.name} is not what was written")
    queries = LazyNames(arrays.pop("query_ids"), arrays["offsets"].size - 1)
    documents = LazyNames(arrays.pop("document_ids"), arrays["labels"].size)
    if not (queries.is_sound and documents.is_sound):
        raise ValueError("names are not what was written")
    return Dataset(query_ids=tuple(queries), document_ids=documents, **arrays)


def _put(place: Path, collection: Collection, origin: SourceKey) -> None:
    """Write a collection next to its place, then rename it, unless another process was faster."""
    written = place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")
    try:
        written.mkdir()
        write_entry(written, collection, origin)
        if map_entry(place, origin) is None:
            _remove(place)  # damaged, or not there
            with suppress(OSError):  # another process has just put its own
                written.rename(place)
            atomic_files.sync_folder(place.parent)
    finally:
        with suppress(FileNotFoundError):
            _remove(written)
    with suppress(OSError):  # another process may sweep at the same time
        _sweep(place.parent)


# --- all entries ----------------------------------------------------------------------------------


def _own(folder: Path) -> Iterator[tuple[Path, EntryFacts | None]]:
    """What the cache wrote, sorted, and the facts of each entry; None for unfinished or damaged ones."""
    for path in sorted(folder.iterdir()):
        if _OWN.fullmatch(path.name):
            facts = None
            with suppress(OSError, ValueError, DataError):
                facts = None if path.name.startswith(".") or path.is_symlink() else _facts(path)
            yield path, facts


def _sweep(folder: Path) -> None:
    """Remove what killed writers left, and entries that no run can use again."""
    for path, facts in _own(folder):
        young = path.name.startswith(".") and time.time() - path.lstat().st_mtime < _ABANDONED_S
        if not young and (facts is None or facts.is_outdated):
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a file or folder that may be gone already; a link is removed, not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def list_entries() -> list[CacheEntry]:
    """Every source in the cache, by name."""
    folder = cache_folder()
    if folder is None or not folder.is_dir():
        return []
    rows = []
    for path, facts in _own(folder):
        with suppress(FileNotFoundError):  # another process has just removed it
            if facts is not None:
                used = datetime.fromtimestamp(int((path / META).stat().st_mtime), UTC)
                rows.append(
                    CacheEntry(
                        source=facts.origin.name,
                        fold=facts.origin.fold,
                        normalised=facts.origin.normalise,
                        dtype=facts.origin.dtype,
                        fingerprint=facts.fingerprint,
                        bytes=_bytes(path),
                        last_used=used.isoformat(),
                    )
                )
    return sorted(rows, key=lambda row: (row.source, row.fold, row.normalised, row.last_used))


def _bytes(folder: Path) -> int:
    size = 0
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def clear() -> tuple[int, int]:
    """Empty the cache, unfinished and damaged parts included; the numbers of entries and bytes removed.

    Files that are not the cache's own stay.

    Raises:
        FoltrAuditError: something cannot be removed.
    """
    folder = cache_folder()
    if folder is None or not folder.is_dir():
        return 0, 0
    own = list(_own(folder))
    size = sum(_bytes(path) for path, _ in own if not path.is_symlink())
    try:
        for path, _ in own:
            _remove(path)
    except OSError as error:
        raise FoltrAuditError(f"data cache: {error.filename}: cannot be removed: {error.strerror}") from error
    return sum(facts is not None for _, facts in own), size
