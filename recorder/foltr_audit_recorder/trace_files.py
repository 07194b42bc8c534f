"""What lies in a trace folder: a header, and parts of whole rounds, each committed by a marker written last.

    trace.toml                    the header
    observed/rounds-00000.npz     what the server saw: a file for each table and part
    truth/clicks-00000.npz        what nobody but the laboratory knows
    part-00000.json               the marker of a part: its rounds, its files and their SHA-256

A kill before the marker leaves files without one: a reader does not see them, and `clean` removes them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from . import atomic_files
from .round_tables import Tables

PART_SCHEMA = "foltr-audit/trace-part/1"
HEADER = "trace.toml"
MOST_HEADER_BYTES = 1 << 20
"""A longer header is neither written nor read."""

_FILE = re.compile(r"[a-z]+-([0-9]{5,18})\.npz")
_MARKER = re.compile(r"part-([0-9]{5,18})\.json")


@dataclass(frozen=True)
class PartRange:
    """Which part of which trace a commit writes.

    Attributes:
        trace: id of the trace, the SHA-256 (hex) of `trace.toml`.
    """

    trace: str
    index: int
    first_round: int
    last_round: int


def file_name(table: str, index: int) -> str:
    """Path of a table of part `index` inside the trace folder."""
    return f"{table}-{index:05d}.npz"


def marker_name(index: int) -> str:
    return f"part-{index:05d}.json"


def marker_indices(folder: Path) -> list[int]:
    """Indices of all markers in a folder, rising."""
    entries = folder.iterdir() if folder.is_dir() else ()
    return sorted({int(match[1]) for entry in entries if (match := _MARKER.fullmatch(entry.name))})


def archive_of(arrays: Mapping[str, NDArray[np.generic]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Arrays of numbers or text as `numpy.savez` writes them: the same bytes on any day and machine.

    Its option that refuses objects came with NumPy 2.2, and earlier versions store it as an array.
    """
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, values in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # of 1980
            entry.create_system = 3  # Python's own differs by system
            entry.compress_type = compression
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(values), allow_pickle=False)
    return stream.getvalue()


def part_files(part: PartRange, tables: Tables) -> dict[str, bytes]:
    """The files of a part by their paths inside the trace folder; the marker last."""
    files: dict[str, bytes] = {}
    entries: dict[str, dict[str, object]] = {}
    for table, columns in tables.items():
        name = file_name(table, part.index)
        files[name] = content = archive_of(columns)
        digest = hashlib.sha256(content).hexdigest()
        entries[name] = {"rows": len(columns["round"]), "sha256": digest, "size": len(content)}
    marker = {"schema": PART_SCHEMA, **vars(part), "files": entries}
    return {**files, marker_name(part.index): (json.dumps(marker, indent=1, sort_keys=True) + "\n").encode()}


def commit_part(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a part in their order, each whole or not at all; its folders must exist.

    Raises:
        OSError: the folder cannot be written, or the disk is full; what was committed before stays valid.
            Or somebody else has written this part.
    """
    *tables, marker = files
    if (folder / marker).exists():
        raise FileExistsError(errno.EEXIST, "another writer has written this part", str(folder / marker))
    # All tables are on the disk, under their names, before the marker names them.
    atomic_files.write_files(folder, {name: files[name] for name in tables})
    atomic_files.write_files(folder, {marker: files[marker]})


def clean(folder: Path, next_part: int) -> None:
    """Remove temporary files, and files of parts from `next_part` on, which were never committed."""
    for place in (folder, folder / "observed", folder / "truth"):
        for entry in sorted(place.iterdir()) if place.is_dir() else []:
            found = _FILE.fullmatch(entry.name) if place != folder else None
            stale = found is not None and int(found[1]) >= next_part
            if stale or atomic_files.is_temporary(entry.name):
                entry.unlink()
