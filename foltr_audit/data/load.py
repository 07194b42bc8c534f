"""From the `data` table of a Spec to the collection: synthetic, or read from files, or cached.

Data that were parsed or generated once are memory-mapped the next time. In `data` of the user's cache folder,
or of that of FOLTR_AUDIT_CACHE (empty: no cache), each source has a folder of `PART.ARRAY.npy` files with
`facts.json`. It gets its name only when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import names_in, names_text
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.data.arrays import made_collection
from foltr_audit.data.intents import count_read, intent_files, with_intents
from foltr_audit.data.search_log import LogFiles, load_search_log
from foltr_audit.data.sources import SourceFiles, folds_of, load_data, locate, prepared
from foltr_audit.data.synthetic import synthetic_parts
from foltr_audit.errors import DataError, UsageError
from foltr_audit.utils.code_version import code_version
from foltr_audit.utils.reading import file_bytes, json_table, whole_number
from foltr_audit.utils.reading.arrays import map_array

FOLDER_VARIABLE = "FOLTR_AUDIT_CACHE"
_DECIDES = ("core", "data", "errors", "kernels", "recorder", "rng", "utils")
"""Rooms and modules whose code decides what a source becomes: an entry of other code is not used."""
SMALLEST_BYTES = 4 << 20
"""Collections with features below this size are not stored: they are parsed in less than about .1 s."""
FACTS = "facts.json"
_ABANDONED_S = 86_400  # a temporary folder may be a writer's that is still at work; none takes a day
_COUNTED = ("fingerprint", "synthetic", "n_missing", "left_out", "read")
_ARRAYS = (
    *("features", "labels", "offsets", "query_ids", "document_ids", "intents", "users"),
    *("file_queries", "file_documents"),
)


class SourceKey(NamedTuple):
    """What a collection is made from: the `data` table of a Spec, its fold, every file that is read.

    The seed of the split into parts is None where nothing is split.
    """

    data: DataSpec
    fold: int = 0
    split_seed: int | None = None
    files: tuple[Path, ...] = ()

    @property
    def entry_name(self) -> str:
        """Name of its folder; a relative path is another source in another working folder."""
        source = self.data.source if self.data.is_synthetic else os.path.abspath(self.data.source)
        return _digest(source, self.data.model_dump(exclude={"source", "balance"}), *self[1:])

    def identity(self) -> str | None:
        """A hash of the source, sizes and times of its files, and code; None for pipes and devices."""
        try:
            files = [path.stat() for path in self.files]
        except OSError:
            return None
        if not all(stat.S_ISREG(file.st_mode) for file in files):
            return None
        stamps = [(file.st_size, file.st_mtime_ns) for file in files]
        return _digest(self.entry_name, stamps, code_version(_DECIDES), np.__version__, version("polars"))


def _digest(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode(errors="surrogatepass")).hexdigest()[:32]


def cached(origin: SourceKey, load: Callable[[], Collection]) -> Collection:
    """The collection of an origin: from the cache, or loaded and then stored there.

    A cache that cannot be written costs one line on stderr, nothing else.
    """
    folder, identity = cache_folder(), origin.identity()
    if folder is None or identity is None:
        return load()
    entry = folder / origin.entry_name
    mapped = map_entry(entry, origin, identity)
    if mapped is not None:
        return mapped
    collection = load()
    size = sum(collection.part(name).features.nbytes for name in Collection.PARTS)
    if size < SMALLEST_BYTES or origin.identity() != identity:  # a file was changed meanwhile
        return collection
    try:
        store(entry, collection, identity)
    except (OSError, ValueError) as error:  # ValueError: a name contains a NUL
        reason = getattr(error, "strerror", None) or error
        _note(f"note: data cache: {folder}: {reason}; continuing without it")
    return map_entry(entry, origin, identity) or collection


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
    sys.stderr.write(line + "\n")


def store(entry: Path, collection: Collection, identity: str) -> None:
    """Write a collection next to its place, then rename it; a checksum tells what a power cut emptied."""
    folder = entry.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the data may be less public than the folder
    for path in folder.glob(".*"):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > _ABANDONED_S:
                shutil.rmtree(path)
    with TemporaryDirectory(prefix=".", dir=folder, ignore_cleanup_errors=True) as temporary:
        written, arrays = Path(temporary) / entry.name, {}
        written.mkdir()
        for part in Collection.PARTS:
            for kind in _ARRAYS:
                values: Any = getattr(collection.part(part), kind)
                if values is None:
                    continue
                array = names_text(values) if kind.endswith("_ids") else values
                file = written / f"{part}.{kind}.npy"
                np.save(file, array, allow_pickle=False)
                arrays[file.stem] = _checksum(file)
        facts = {"arrays": arrays} | {name: getattr(collection, name) for name in _COUNTED}
        seal = _digest(identity, json.dumps(facts))
        (written / FACTS).write_text(json.dumps({"seal": seal} | facts), encoding="utf-8")
        with suppress(OSError):  # the usual case: there is no older one
            entry.rename(Path(temporary) / "older")
        with suppress(OSError):  # another process has just put its own
            written.rename(entry)


def _checksum(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            total = zlib.crc32(piece, total)
    return total


def map_entry(folder: Path, origin: SourceKey, identity: str) -> Collection | None:
    """The collection in a folder, mapped read-only; None if it is damaged or of another source."""
    try:
        facts: dict[str, Any] = json_table(file_bytes(folder / FACTS, DataError, 1 << 20), FACTS, DataError)
        if facts.pop("seal") != _digest(identity, json.dumps(facts)):
            return None
        parts: dict[str, Any] = {part: {} for part in Collection.PARTS}
        for name, checksum in facts.pop("arrays").items():
            part, _, kind = name.partition(".")
            if _checksum(folder / f"{name}.npy") != checksum:
                return None
            parts[part][kind] = map_array(folder / f"{name}.npy")
        for part, own in parts.items():
            own["query_ids"] = names_in(own["query_ids"], own["offsets"].size - 1)
            own["document_ids"] = names_in(own["document_ids"], own["labels"].size)
            parts[part] = Dataset(**own)
        read = facts.pop("read")
        return Collection(
            **parts,
            **facts,
            read=None if read is None else tuple(read),
            source=origin.data.source,
            fold=origin.fold,
            normalised=origin.data.normalise,
            missing=origin.data.missing,
            intents_from=origin.data.intents,
        )
    # Its arrays need not fit together. None of this is worth an error: the source is parsed again.
    except (OSError, ValueError, TypeError, LookupError, DataError):
        return None


def load_collection(data: DataSpec, seed: int, *, cache: bool = True) -> Collection:
    """The normalised collection of a Spec; `seed` splits sources without parts of their own.

    Large collections come from the user's cache folder from the second time on, unless `cache` is off.

    Raises:
        DataError: the files cannot be read as ranking data.
        UsageError: a source or fold that does not exist, or arrays that were prepared in another way.
    """
    if data.is_made:
        return made_collection(data)
    fold, split_seed, files = 0, None, tuple[Path, ...]()
    load: Callable[[], Collection]
    if data.is_synthetic:
        load = _synthetic(data)
    elif (log := LogFiles.of(data.source)) is not None:
        files, load = (log.metadata, log.letor), partial(load_search_log, data, log)
    else:
        located = locate(data.source, data.fold)
        # Where nothing is split the seed does not matter: runs of all seeds share one entry of the cache.
        fold, split_seed, files = located.fold, seed if located.split else None, located.files
        load = partial(load_data, data, located, seed)
    if not cache:
        return load()
    every = (path.resolve() for path in (*files, *intent_files(data.intents)))
    return cached(SourceKey(data, fold, split_seed, tuple(every)), load)


def folds(data: DataSpec) -> tuple[int, ...]:
    return () if data.is_synthetic or data.is_made else folds_of(data.source)


def source_files(data: DataSpec) -> SourceFiles | None:
    """The files of ranking data, and which parts they lack; None for synthetic data and search logs.

    Raises:
        DataError: no such data, or an unknown layout.
        UsageError: a fold that does not exist.
    """
    if data.is_synthetic or data.is_made or LogFiles.of(data.source) is not None:
        return None
    return locate(data.source, data.fold)


def _synthetic(data: DataSpec) -> Callable[[], Collection]:
    if data.fold:
        raise UsageError(f"--fold: {data.fold}; synthetic data have no folds")
    like, _, queries = data.source.partition(":")[2].partition(":")
    number = whole_number(queries, 0, 10**9)  # `synthetic_parts` refuses numbers that are too large
    if queries and number is None:
        raise UsageError(f"--data: {data.source!r}; expected synthetic:NAME or synthetic:NAME:QUERIES")

    def generate() -> Collection:
        parts, read = synthetic_parts(like, queries=number), None
        if data.intents is not None:
            read = count_read(parts, data.intents)
            parts = with_intents(parts, data.intents, data.source)
        return prepared(parts, data, synthetic=True, fold=0, intents_from=data.intents, read=read)

    return generate
