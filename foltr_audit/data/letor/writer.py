"""Writer for LETOR text: dense rows whose values read back as the same float32."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Dataset
from foltr_audit.data.letor.features import MAX_FEATURES
from foltr_audit.errors import DataError
from foltr_audit.recorder.atomic_files import whole_file

MAX_LABEL = 31
_BATCH_VALUES = 1_000_000
_NO_QUERY = re.compile(r"[\s#\0]|^$")
_NO_DOCUMENT = re.compile(r"[\s\0]")


def write_letor(dataset: Dataset, path: Path) -> None:
    """Write dense LETOR text with query and document ids, gzip if the name ends in `.gz`.

    The file appears whole or not at all, and reading it back gives the same fingerprint.

    Raises:
        DataError: content that `read_letor` would refuse or change, or a file that cannot be written.
    """
    _refuse_unreadable(dataset, path)
    rows = max(1, _BATCH_VALUES // dataset.n_features)
    try:
        with _packed_by_name(path) as stream:
            for start in range(0, dataset.n_documents, rows):
                stream.write(_text(dataset, start, min(start + rows, dataset.n_documents)))
    except OSError as error:
        raise DataError(f"letor: {path}: cannot be written: {error.strerror or error}") from error


def _refuse_unreadable(dataset: Dataset, path: Path) -> None:
    where = f"letor: {path.name}"
    if not dataset.n_documents or not 1 <= dataset.n_features <= MAX_FEATURES:
        shape = dataset.features.shape
        raise DataError(f"{where}: features of shape {shape}; expected rows of 1 to {MAX_FEATURES} features")
    if not np.all(np.isfinite(dataset.features)):
        raise DataError(f"{where}: a feature is not finite")
    if dataset.labels.max() > MAX_LABEL:
        raise DataError(f"{where}: label {dataset.labels.max()} is above {MAX_LABEL}")
    if len(set(dataset.query_ids)) != dataset.n_queries:
        raise DataError(f"{where}: two queries have the same id")
    for kind, names, refused in (
        ("query", dataset.query_ids, _NO_QUERY),
        ("document", dataset.document_ids, _NO_DOCUMENT),
    ):
        bad = next((name for name in names if refused.search(name) or not _encodes(name)), None)
        if bad is not None:
            raise DataError(f"{where}: {kind} id {bad!r} cannot be written; expected a name without spaces")


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(dataset: Dataset, start: int, stop: int) -> bytes:
    """The lines of rows start .. stop-1."""
    import polars as pl

    queries = np.searchsorted(dataset.offsets, np.arange(start, stop), side="right") - 1
    heads = [
        f"{label} qid:{dataset.query_ids[query]}"
        for label, query in zip(dataset.labels[start:stop].tolist(), queries.tolist(), strict=True)
    ]
    tails = [f" #docid = {name}\n" if name else "\n" for name in dataset.document_ids[start:stop]]
    pieces: list[pl.Series | pl.Expr] = [pl.Series(heads, dtype=pl.String)]
    for column in range(dataset.n_features):
        values = pl.Series(np.ascontiguousarray(dataset.features[start:stop, column]))
        pieces += [pl.lit(f" {column + 1}:"), values.cast(pl.String)]
    lines = pl.select(pl.concat_str([*pieces, pl.Series(tails, dtype=pl.String)])).to_series()
    return "".join(lines.to_list()).encode()


@contextmanager
def _packed_by_name(path: Path) -> Iterator[BufferedIOBase]:
    """A stream for a whole file, packed where its name ends in `.gz`."""
    with whole_file(path) as raw:
        if path.name.endswith(".gz"):
            # No name and no time inside: the same data gives the same bytes.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed:
                yield packed
        else:
            yield raw
