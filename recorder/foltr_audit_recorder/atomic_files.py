"""Files that exist as a whole or not at all: written under another name, flushed, then renamed."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator, Mapping
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
    with _renamed(path, lasting=True) as file:
        yield file
    # The rename changes the folder, not the file. Without this a power cut may undo it.
    sync_folders(path.parent)


@contextmanager
def _renamed(path: Path, *, lasting: bool) -> Iterator[BufferedIOBase]:
    """A stream to a file that gets the path's name at the end, flushed to the disk if `lasting`."""
    # The rename at the end would replace a device such as /dev/null by a plain file.
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "no regular file", str(path))
    # In the same folder, since a rename is atomic only inside one file system. The random name and the mode
    # "x" keep two writers apart, and refuse a link that somebody put there.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        temporary.replace(path)
    # Ctrl-C must not leave the temporary file behind either.
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """Put `data` at `path`; at any moment, even after a crash, a reader finds the old file or the new one."""
    with whole_file(path) as file:
        file.write(data)


def write_files(folder: Path, files: Mapping[str, bytes], *, lasting: bool = True) -> None:
    """Put files into a folder and those in it, each whole; they get their names in this order.

    Args:
        folder: an existing folder, in which the folders of the files exist.
        files: the content of each by its name.
        lasting: whether they survive a power cut. Else they survive only the end of this process, at a
            hundredth of the time; a reader must accept files that are missing or empty.

    Raises:
        OSError: as `whole_file`; files before that one may be written.
    """
    for name, content in files.items():
        with _renamed(folder / name, lasting=lasting) as file:
            file.write(content)
    if lasting:
        sync_folders(*dict.fromkeys((folder / name).parent for name in files))


def write_text(path: Path, text: str) -> None:
    r"""Put `text` at `path` as UTF-8 with `\n` line ends, like `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def sync_folders(*folders: Path) -> None:
    """Make renames and removals in folders survive a power cut."""
    for folder in folders:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_temporary(name: str, of: str | None = None) -> bool:
    """Whether a file name is one that `whole_file` uses until the rename, of any file or of a named one."""
    target = ".+" if of is None else re.escape(of)
    return re.fullmatch(rf"\.{target}\.[0-9a-f]+\.tmp", name) is not None


def remove_left(path: Path) -> None:
    """Remove what killed writers of a file left beside it; nobody else may be writing that file."""
    for file in path.parent.iterdir():
        if is_temporary(file.name, path.name):
            file.unlink(missing_ok=True)
