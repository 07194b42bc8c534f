"""Ranking data that were parsed or generated once are memory-mapped the next time.

In `data` of the user's cache folder, or of that of FOLTR_AUDIT_CACHE (empty: no cache), each source has a
folder with a file `PART.ARRAY.npy` for each array, and `facts.json`, which says what they were made from. It
gets its name only when it is complete. If the source, the code or a file in it has changed, it is made again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import LazyNames
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.errors import DataError
from foltr_audit.utils.reading import file_bytes
from foltr_audit.utils.reading.arrays import map_array

FOLDER_VARIABLE = "FOLTR_AUDIT_CACHE"
DECIDING = ("core", "data", "kernels", "utils")
"""Rooms whose code decides what a source becomes, as do the modules at the top of the package."""
SMALLEST_BYTES = 4 << 20
"""Collections with features below this size are not stored: they are parsed in less than about .1 s."""
FACTS = "facts.json"
_MOST_FACTS_BYTES = 1 << 20
_ABANDONED_S = 86_400  # a temporary folder may be a writer's that is still at work; none takes a day
_ARRAYS = ("features", "labels", "offsets", "query_ids", "document_ids", "intents", "users")


class SourceKey(NamedTuple):
    """What a collection is made from.

    Attributes:
        data: the `data` table of the Spec.
        fold: as in the Collection.
        split_seed: of the split into parts; None where nothing is split.
        files: every file that is read.
    """

    data: DataSpec
    fold: int = 0
    split_seed: int | None = None
    files: tuple[Path, ...] = ()

    @property
    def entry_name(self) -> str:
        """Name of its folder; a relative path is another source in another working folder."""
        data, source = self.data, self.data.source
        source = source if data.is_synthetic else os.path.abspath(source)
        return _digest(source, data.normalise, data.dtype, data.intents, *self[1:])

    def identity(self) -> str | None:
        """A hash of code, source and the sizes and times of its files; None for what is not kept.

        A pipe or a device may give something else each time.
        """
        stamps = [_stamp(path) for path in self.files]
        return None if None in stamps else _digest(self.entry_name, stamps, code_version())


class CachedFacts(BaseModel):
    """What `facts.json` says: what the arrays were made from, and the number format and shape of each."""

    identity: str
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    fingerprint: str
    synthetic: bool
    left_out: int
    read: tuple[int, int] | None


def _digest(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode(errors="surrogatepass")).hexdigest()[:32]


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

    root = Path(__file__).parents[1]
    digest = hashlib.sha256(" ".join(map(version, ("foltr-audit", "numpy", "polars"))).encode())
    for paths in (root.glob("*.py"), *((root / room).rglob("*.py") for room in DECIDING)):
        for path in sorted(paths):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def cached(origin: SourceKey, load: Callable[[], Collection]) -> Collection:
    """The collection of an origin: from the cache, or loaded and then stored there.

    A cache that cannot be written costs one line on stderr, nothing else.
    """
    folder, identity = cache_folder(), origin.identity()
    if folder is None or identity is None:
        return load()
    entry = folder / origin.entry_name
    mapped = map_entry(entry, origin)
    if mapped is not None:
        return mapped
    collection = load()
    size = sum(collection.part(name).features.nbytes for name in Collection.PARTS)
    if size < SMALLEST_BYTES or origin.identity() != identity:  # a file was changed meanwhile
        return collection
    try:
        _store(entry, collection, identity, size)
    except (OSError, ValueError) as error:  # ValueError: a name contains a NUL
        _note(
            f"note: data cache: {folder}: {getattr(error, 'strerror', None) or error}; continuing without it"
        )
    return map_entry(entry, origin) or collection


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


def _store(entry: Path, collection: Collection, identity: str, size: int) -> None:
    """Write a collection next to its place, then rename it."""
    folder = entry.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the data may be less public than the folder
    for path in folder.glob(".*"):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > _ABANDONED_S:
                shutil.rmtree(path)
    # The cache is a convenience: an entry takes about half of the free space at most.
    if shutil.disk_usage(folder).free < 2 * size:
        raise OSError(None, "too little space on the disk")
    with TemporaryDirectory(prefix=".", dir=folder, ignore_cleanup_errors=True) as temporary:
        written = Path(temporary) / entry.name
        written.mkdir()
        write_entry(written, collection, identity)
        with suppress(OSError):  # the usual case: there is no older one
            entry.rename(Path(temporary) / "older")
        with suppress(OSError):  # another process has just put its own
            written.rename(entry)


def write_entry(folder: Path, collection: Collection, identity: str) -> None:
    """Write a collection into an empty folder, and flush it to the disk.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
        ValueError: a name contains a NUL.
    """
    parts = {name: _arrays(collection.part(name)) for name in Collection.PARTS}
    arrays = {f"{name}.{kind}": array for name, part in parts.items() for kind, array in part.items()}
    for name, array in arrays.items():
        with (folder / f"{name}.npy").open("xb") as file:
            np.save(file, array, allow_pickle=False)
            # No checksum would tell a file that a power cut emptied: it is on the disk before it counts.
            file.flush()
            os.fsync(file.fileno())
    facts = CachedFacts(
        identity=identity,
        arrays={name: (array.dtype.str, array.shape) for name, array in arrays.items()},
        fingerprint=collection.fingerprint,
        synthetic=collection.synthetic,
        left_out=collection.left_out,
        read=collection.read,
    )
    (folder / FACTS).write_text(facts.model_dump_json(), encoding="utf-8")


def _arrays(part: Dataset) -> dict[str, NDArray[np.generic]]:
    """Every array of a part; names of queries and documents as UTF-8, each ended by a NUL."""
    arrays: dict[str, Any] = {kind: getattr(part, kind) for kind in _ARRAYS}
    for kind in ("query_ids", "document_ids"):
        arrays[kind] = LazyNames.of(arrays[kind]).text
    return {kind: np.ascontiguousarray(array) for kind, array in arrays.items() if array is not None}


def map_entry(folder: Path, origin: SourceKey) -> Collection | None:
    """The collection in a folder, memory-mapped and read-only; None if anything about it is wrong."""
    try:
        facts = CachedFacts.model_validate_json(file_bytes(folder / FACTS, DataError, _MOST_FACTS_BYTES))
        if facts.identity != origin.identity():
            return None
        return Collection(
            **{part: _map_part(folder, part, facts) for part in Collection.PARTS},
            source=origin.data.source,
            synthetic=facts.synthetic,
            fold=origin.fold,
            fingerprint=facts.fingerprint,
            normalised=origin.data.normalise,
            intents_from=origin.data.intents,
            left_out=facts.left_out,
            read=facts.read,
        )
    # Its arrays need not fit together. None of this is worth an error: the source is parsed again.
    except (OSError, ValueError, TypeError, LookupError, DataError):
        return None


def _map_part(folder: Path, part: str, facts: CachedFacts) -> Dataset:
    arrays: dict[str, Any] = {}
    for kind in _ARRAYS:
        if f"{part}.{kind}" in facts.arrays:
            array = arrays[kind] = map_array(folder / f"{part}.{kind}.npy")
            if (array.dtype.str, array.shape) != facts.arrays[f"{part}.{kind}"]:
                raise ValueError(f"{part}.{kind} is not what was written")
    queries = LazyNames(arrays.pop("query_ids"), arrays["offsets"].size - 1)
    documents = LazyNames(arrays.pop("document_ids"), arrays["labels"].size)
    if not (queries.is_sound and documents.is_sound):
        raise ValueError("names are not what was written")
    return Dataset(query_ids=tuple(queries), document_ids=documents, **arrays)
