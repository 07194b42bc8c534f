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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from . import atomic_files
from .atomic_files import Piece
from .table_files import Columns, PackedColumn, row_count, table_pieces, without_implied

VERSION = "0.1.0"
"""Version of the recorder."""

TRACE_SCHEMA = "foltr-audit/trace/1"
PART_SCHEMA = "foltr-audit/trace-part/1"
HEADER = "trace.toml"

OBSERVED = ("observed/rounds", "observed/messages", "observed/interactions")
"""Tables that every part has."""

OBSERVED_TOO = ("observed/candidates", "observed/cohort", "observed/metrics")
"""Tables that a part has where there is something to write in them."""

TRUTH = ("truth/rounds", "truth/messages", "truth/clicks")
"""Tables of a trace with truth."""

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


def part_files(
    part: PartRange,
    tables: Mapping[str, Columns],
    packed: Mapping[str, Mapping[str, PackedColumn]] = MappingProxyType({}),
) -> dict[str, list[Piece]]:
    """The files of a part, in pieces, by their paths inside the trace folder; the marker last.

    Columns that follow from others are left out: see `table_files`.

    Raises:
        ValueError: a table whose columns have different lengths or hold objects.
    """
    files: dict[str, list[Piece]] = {}
    entries: dict[str, dict[str, object]] = {}
    for table, columns in without_implied(tables).items():
        name, pieces = file_name(table, part.index), table_pieces(columns, packed.get(table, {}))
        files[name] = pieces
        entries[name] = {"rows": row_count(columns), "sha256": _sha256(pieces), "size": sum(map(len, pieces))}
    marker = {"schema": PART_SCHEMA, **vars(part), "files": entries}
    files[marker_name(part.index)] = [(json.dumps(marker, indent=1, sort_keys=True) + "\n").encode()]
    return files


def _sha256(pieces: Sequence[Piece]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def commit_part(folder: Path, files: Mapping[str, Sequence[Piece]]) -> None:
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
