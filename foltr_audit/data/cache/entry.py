"""One collection in a folder of its own, as plain arrays that are memory-mapped when they are read back.

```
meta.json                     facts of the collection, size and checksum of every file; sealed by its own hash
train.features.npy            float32 or float64 (documents, features)
train.labels.npy              int64 (documents,)
train.offsets.npy             int64 (queries + 1,)
train.query_ids.npy           names in UTF-8, each ended by a NUL
train.document_ids.npy        the same
train.intents.npy             int64 (I, documents), only where there are several intents
vali.*, test.*                the same
```
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.names import LazyNames
from foltr_audit.errors import DataError
from foltr_audit.utils import atomic_files
from foltr_audit.utils.reading import file_bytes, json_table
from foltr_audit.utils.reading.arrays import map_array

META = "meta.json"
SCHEMA = "foltr-audit/data-cache/2"
MOST_META_BYTES = 16 << 20
"""A longer file of facts is not read: it names every file of a data set."""

_TYPES = {
    "features": ("<f4", "<f8"),
    "labels": ("<i8",),
    "offsets": ("<i8",),
    "query_ids": ("|u1",),
    "document_ids": ("|u1",),
    "intents": ("<i8",),
}
_HEADER_BYTES = 128  # what NumPy writes before the values of such arrays


def seal(table: dict[str, Any]) -> str:
    """A JSON object with the SHA-256 of itself, as text."""
    return json.dumps({**table, "sha256": _digest(table)}, indent=1, sort_keys=True) + "\n"


def unseal(path: Path) -> dict[str, Any] | None:
    """The object of a sealed JSON file; None if it is missing, damaged or of another schema."""
    try:
        table = json_table(file_bytes(path, DataError, MOST_META_BYTES), str(path), DataError)
    except DataError:
        return None
    sealed = table.pop("sha256", None)
    return table if table.get("schema") == SCHEMA and sealed == _digest(table) else None


def _digest(table: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def write_entry(folder: Path, collection: Collection) -> None:
    """Write a collection into an empty folder, and flush it to the disk.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    sums = {}
    for part in Collection.PARTS:
        for kind, array in _arrays(collection.part(part)).items():
            path = folder / f"{part}.{kind}.npy"
            with path.open("xb") as file:
                np.save(file, array, allow_pickle=False)
                # Features are checked by size and header only: their bytes must be on the disk before the
                # facts name them.
                file.flush()
                os.fsync(file.fileno())
            sums[path.name] = _checksum(path)
    facts = {name: getattr(collection, name) for name in ("fingerprint", "normalised", "synthetic")}
    atomic_files.write_text(folder / META, seal({"schema": SCHEMA, **facts, "files": sums}))


def _arrays(part: Dataset) -> dict[str, NDArray[Any]]:
    values = {
        "features": part.features,
        "labels": part.labels,
        "offsets": part.offsets,
        "query_ids": _packed(part.query_ids),
        "document_ids": _packed(part.document_ids),
    }
    if part.intents is not None:
        values["intents"] = part.intents
    return {
        kind: np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for kind, array in values.items()
    }


def _packed(names: Sequence[str]) -> NDArray[np.uint8]:
    try:
        return LazyNames.of(names).text
    except ValueError as error:
        # As an OSError, which callers answer by going on without the cache.
        raise OSError(None, str(error)) from error


def _checksum(path: Path) -> list[int]:
    """Size and CRC-32 of a file; of features, the only large array, the CRC-32 of the header alone.

    Labels and offsets steer compiled code, which trusts them. A wrong feature only gives a wrong score, and
    reading all of them would undo what mapping saves.
    """
    with path.open("rb") as file:
        content = file.read(_HEADER_BYTES if path.name.endswith(".features.npy") else -1)
    return [path.stat().st_size, zlib.crc32(content)]


def map_entry(folder: Path, *, source: str, fold: int, intents_from: str | None = None) -> Collection | None:
    """The collection in a folder, memory-mapped and read-only; None if anything about it is wrong."""
    meta = unseal(folder / META)
    if meta is None:
        return None
    try:
        parts = {part: _map_part(folder, part, meta["files"]) for part in Collection.PARTS}
        return Collection(
            **parts,
            source=source,
            synthetic=bool(meta["synthetic"]),
            fold=fold,
            fingerprint=str(meta["fingerprint"]),
            normalised=str(meta["normalised"]),
            intents_from=intents_from,
        )
    # A damaged entry may say anything that JSON can hold, and its arrays need not fit together. None of this
    # is worth an error: the source is parsed again.
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, DataError):
        return None


def _map_part(folder: Path, part: str, sums: dict[str, Any]) -> Dataset:
    arrays: dict[str, NDArray[Any]] = {}
    for kind, types in _TYPES.items():
        path = folder / f"{part}.{kind}.npy"
        if kind == "intents" and path.name not in sums:
            continue
        arrays[kind] = map_array(path)
        if arrays[kind].dtype.str not in types or _checksum(path) != sums[path.name]:
            raise ValueError(f"{path.name} is not what was written")
    queries = LazyNames(arrays.pop("query_ids"), arrays["offsets"].size - 1)
    documents = LazyNames(arrays.pop("document_ids"), arrays["labels"].size)
    if not (queries.is_sound and documents.is_sound):
        raise ValueError("names are not what was written")
    return Dataset(query_ids=tuple(queries), document_ids=documents, **arrays)
