"""Files that are there as a whole or not at all: written beside their place, flushed, then renamed."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[BufferedIOBase]:
    """A stream whose content takes the path's name only once it is on disk.

    Raises:
        OSError: the folder is missing or unwritable, the disk is full, or `path` is a folder or device;
            `path` is then as it was.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "no regular file", str(path))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_bytes(path: Path, data: bytes) -> None:
    """Put `data` at `path`; a reader, or a crash at any moment, meets the old file or the new one.

    Raises:
        OSError: as `whole_file`.
    """
    with whole_file(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    r"""Put `text` at `path` as UTF-8 with `\n` line ends, like `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_temporary(name: str) -> bool:
    """Whether a file name is one that `whole_file` uses until the rename."""
    return re.fullmatch(r"\..+\.[0-9a-f]+\.tmp", name) is not None
