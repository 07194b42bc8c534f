"""Text lines of LETOR and group files: plain or gzip, refused where they are not text."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from foltr_audit.errors import DataError

MOST_SHOWN = 20
"""Bytes of a file that an error message may quote."""

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BATCH_BYTES = 2 << 20  # a batch that stays in the cache reads faster than 20,000 wide rows at once
_MOST_LINE_BYTES = 16 << 20  # a line of all features that there may be has some two million
# gzip packs repetitions a thousandfold: a small file from outside could otherwise fill the memory.
_MOST_UNPACKED = (8 << 20, 200)  # this many bytes, or this many times the packed ones
_FOLD = re.compile(r"Fold\d+")
_GROUP_SIZE = re.compile(rb"\d{1,18}")


def name_in_messages(path: Path) -> str:
    """How errors name a file: `train.txt`, or `Fold2/train.txt` in a folder of folds."""
    folder = path.parent.name
    return f"{folder}/{path.name}" if _FOLD.fullmatch(folder) else path.name


def shown(value: bytes) -> str:
    """A piece of a file for a message; a long one is not quoted, as the file may be of another kind."""
    if len(value) > MOST_SHOWN:
        return f"of {len(value)} bytes"
    return repr(value.decode("utf-8", errors="replace"))


def line_batches(path: Path, who: str = "letor") -> Iterator[tuple[int, list[bytes]]]:
    """Lines of a text file, some megabytes at a time, each batch with its first line's number (from 1).

    `who` names the reader in messages.

    Raises:
        DataError: a file that is missing, a folder, unreadable, damaged gzip, or not UTF-8 text.
    """
    name = name_in_messages(path)
    number = 1
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == _GZIP_MAGIC
            stream = cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=raw))) if packed else raw
            for lines in _batches(stream, raw, f"{who}: {name}"):
                if number == 1 and lines[0].startswith(_BYTE_ORDER_MARK):
                    lines[0] = lines[0][len(_BYTE_ORDER_MARK) :]
                _refuse_binary(lines, number, f"{who}: {name}")
                yield number, lines
                number += len(lines)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{who}: {name}: damaged gzip data ({error}); expected a complete file") from error
    except IsADirectoryError as error:
        raise DataError(f"{who}: {path}: a folder, where a file is expected") from error
    except FileNotFoundError as error:
        raise DataError(f"{who}: {path}: no such file") from error
    except OSError as error:
        raise DataError(f"{who}: {path}: cannot be read: {error.strerror or error}") from error


def _batches(stream: BinaryIO, raw: BinaryIO, where: str) -> Iterator[list[bytes]]:
    """Lines of a stream without their ends, some megabytes at a time.

    Args:
        stream: what is read.
        raw: the file it reads from, which may be compressed.
        where: names the file in messages.

    Raises:
        DataError: a line without an end, or a packed file of nothing but repetitions.
    """
    rest, total = b"", 0
    while piece := stream.read(_BATCH_BYTES):
        total += len(piece)
        if stream is not raw and raw.seekable():  # a pipe has no position
            packed = raw.tell()
            if total > max(_MOST_UNPACKED[0], _MOST_UNPACKED[1] * packed):
                raise DataError(f"{where}: {packed} bytes unpack to {total} and more; expected data")
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > _MOST_LINE_BYTES:
            raise DataError(f"{where}: a line of more than {_MOST_LINE_BYTES} bytes; expected shorter ones")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _refuse_binary(lines: list[bytes], first: int, where: str) -> None:
    # One check of a whole batch; lines are searched only to name the bad one.
    text = b"\n".join(lines)
    if b"\0" not in text and (text.isascii() or _is_utf8(text)):
        return
    for number, line in enumerate(lines, first):
        fault = "a NUL byte" if b"\0" in line else "" if _is_utf8(line) else "bytes that are not UTF-8"
        if fault:
            raise DataError(f"{where}:{number}: {fault}; expected a text file, plain or gzip")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_group_sizes(path: Path) -> list[int]:
    """Numbers of rows of the queries in a libsvm `.query` file, one a line; blank lines are skipped.

    Raises:
        DataError: a file that cannot be read, or a line that is not a whole number from 1.
    """
    sizes: list[int] = []
    for first, lines in line_batches(path):
        for number, line in enumerate(lines, first):
            text = line.strip()
            if not text:
                continue
            size = int(text) if _GROUP_SIZE.fullmatch(text) else 0
            if size < 1:
                where = f"letor: {name_in_messages(path)}:{number}"
                raise DataError(f"{where}: group size {shown(text)}; expected a whole number from 1")
            sizes.append(size)
    return sizes
