"""The canonical form of a bundle's zip file: stored entries in order of name, the manifest last.

Nothing is compressed. So an archive is about as large as its contents, and the same contents give the same
bytes with every version of zlib; the large files of a bundle are compressed already. The archive has no
times, owners or comments.
"""

from __future__ import annotations

import hashlib
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, cast

CHUNK = 2**20
# The earliest time that a zip file can name; a true time would change the bytes with every call.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_ZIP64 = 2**31 - 2**20  # longer entries get ZIP64 fields; the margin covers a file that still grows


def entry(name: str) -> zipfile.ZipInfo:
    """The zip header of a file."""
    info = zipfile.ZipInfo(name, _EPOCH)
    # zipfile names the system that it runs on, so the bytes would differ between systems.
    info.create_system = _UNIX
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.compress_type = zipfile.ZIP_STORED
    return info


class BundleWriter:
    """Writes entries one after the other, in chunks; create it with `writing`."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        """Write to an open archive."""
        self._archive = archive

    @classmethod
    @contextmanager
    def writing(cls, stream: IO[bytes] | BufferedIOBase) -> Iterator[BundleWriter]:
        """A writer to a seekable stream; the list of entries is written at the end."""
        with zipfile.ZipFile(cast("IO[bytes]", stream), "w", zipfile.ZIP_STORED) as archive:
            yield cls(archive)

    def add(self, name: str, content: IO[bytes], size: int) -> tuple[int, str]:
        """Pack the content of a stream of about `size` bytes; return its true size and SHA-256 (hex)."""
        digest, total = hashlib.sha256(), 0
        with self._archive.open(entry(name), "w", force_zip64=size > _ZIP64) as into:
            while piece := content.read(CHUNK):
                digest.update(piece)
                total += len(piece)
                into.write(piece)
        return total, digest.hexdigest()


def write_files(stream: IO[bytes], root: Path, names: Iterable[str]) -> None:
    """Write the archive of some files of a folder, in the given order."""
    with BundleWriter.writing(stream) as writer:
        for name in names:
            path = root / name
            with path.open("rb") as content:
                writer.add(name, content, path.stat().st_size)


def digest_of(stream: IO[bytes]) -> str:
    """SHA-256 (hex) of the rest of a stream, read in chunks."""
    digest = hashlib.sha256()
    while piece := stream.read(CHUNK):
        digest.update(piece)
    return digest.hexdigest()
