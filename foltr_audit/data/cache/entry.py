"""One collection in a folder of its own, as plain arrays that are memory-mapped when they are read back.

```
meta.json                     facts of the collection, form of every array; sealed by its own hash
train.features.npy            float32 or float64 (documents, features)
train.labels.npy              int64 (documents,)
train.offsets.npy             int64 (queries + 1,)
train.query_ids.npy           names in UTF-8, each ended by a NUL
train.document_ids.npy        the same
train.intents.npy             int64 (I, documents), only where there are several intents
vali.*, test.*                likewise
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
SCHEMA = "foltr-audit/data-cache/1"
MOST_META_BYTES = 16 << 20
"""A longer file of facts is not read: it names every file of a data set."""

_FORMS = {
    "features": ("<f4", "<f8"),
    "labels": ("<i8",),
    "offsets": ("<i8",),
    "query_ids": ("|u1",),
    "document_ids": ("|u1",),
    "intents": ("<i8",),
}
_UNHASHED = "features"  # the only large array: its size and form are checked, its content is not


def seal(table: dict[str, Any]) -> str:
    """A JSON object with the SHA-256 of itself, as text."""
    return json.dumps({**table, "sha256": _digest(table)}, indent=1, sort_keys=True) + "\n"


def unseal(path: Path) -> dict[str, Any] | None:
    """The object of a sealed JSON file; None if it is missing, damaged or of another schema."""
    try:
        table = json_table(file_bytes(path, DataError, MOST_META_BYTES), str(path), DataError)
    except DataError:
        return None
    if table.get("schema") != SCHEMA:
        return None
    return table if table.pop("sha256", None) == _digest(table) else None


def _digest(table: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def write_entry(folder: Path, collection: Collection) -> None:
    """Write a collection into an empty folder, and see it onto the disk.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    forms = {}
    for part in Collection.PARTS:
        for kind, array in _arrays(collection.part(part)).items():
            path = folder / f"{part}.{kind}.npy"
            with path.open("xb") as file:
                np.save(file, array, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
            forms[path.name] = _form(path, array, kind)
    meta = {
        "schema": SCHEMA,
        "fingerprint": collection.fingerprint,
        "normalised": collection.normalised,
        "synthetic": collection.synthetic,
        "arrays": forms,
    }
    atomic_files.write_text(folder / META, seal(meta))


def _arrays(part: Dataset) -> dict[str, NDArray[Any]]:
    values = {
        "features": part.features,
        "labels": part.labels,
        "offsets": part.offsets,
        "query_ids": _stored(part.query_ids),
        "document_ids": _stored(part.document_ids),
    }
    if part.intents is not None:
        values["intents"] = part.intents
    return {
        kind: np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for kind, array in values.items()
    }


def _stored(names: Sequence[str]) -> NDArray[np.uint8]:
    try:
        return LazyNames.of(names).text
    except ValueError as error:
        raise OSError(None, str(error)) from error


def _form(path: Path, array: NDArray[Any], kind: str) -> dict[str, Any]:
    size = path.stat().st_size
    return {
        "bytes": size,
        "header": _header(path, size - array.nbytes),
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "crc32": None if kind == _UNHASHED else zlib.crc32(array.data),
    }


def _header(path: Path, length: int) -> list[int]:
    """Length and checksum of what stands before the values."""
    with path.open("rb") as file:
        return [length, zlib.crc32(file.read(length))]


def map_entry(folder: Path, *, source: str, fold: int, intents_from: str | None = None) -> Collection | None:
    """The collection in a folder, memory-mapped and read-only; None if anything about it is wrong.

    Every array must have the size, type and shape that were written, and all but the features the
    same bytes: labels and offsets steer compiled code, which trusts them.
    """
    meta = unseal(folder / META)
    if meta is None:
        return None
    try:
        parts = {part: _map_part(folder, part, meta["arrays"]) for part in Collection.PARTS}
        return Collection(
            train=parts["train"],
            vali=parts["vali"],
            test=parts["test"],
            source=source,
            synthetic=bool(meta["synthetic"]),
            fold=fold,
            fingerprint=str(meta["fingerprint"]),
            normalised=str(meta["normalised"]),
            intents_from=intents_from,
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, DataError):
        return None


def _map_part(folder: Path, part: str, forms: dict[str, Any]) -> Dataset:
    arrays: dict[str, NDArray[Any]] = {}
    for kind, dtypes in _FORMS.items():
        path = folder / f"{part}.{kind}.npy"
        if kind == "intents" and path.name not in forms:
            continue
        form = forms[path.name]
        array = map_array(path)
        if array.dtype.str not in dtypes or _form(path, array, kind) != form:
            raise ValueError(f"{path.name} is not what was written")
        arrays[kind] = array
    queries = LazyNames(arrays["query_ids"], arrays["offsets"].size - 1)
    documents = LazyNames(arrays["document_ids"], arrays["labels"].size)
    if not (queries.is_sound and documents.is_sound):
        raise ValueError("names that are not what was written")
    return Dataset(
        features=arrays["features"],
        labels=arrays["labels"],
        offsets=arrays["offsets"],
        query_ids=tuple(queries),
        document_ids=documents,
        intents=arrays.get("intents"),
    )
