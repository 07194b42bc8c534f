"""Arrays out of a bundle, read only if they are what a cell or a model holds."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import TraceError

MOST_BYTES = 8 * 2**30
"""Arrays of one cell that unpack to more are not read."""

_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, ValueError, EOFError, LookupError, RuntimeError)
_NAME = re.compile(r"(.+)\.npy")
_FORMS = {
    r"rounds/.+": ("f8", "T"),
    r"query_ndcg": ("f8", "Q"),
    r"lists/query": ("U", "L"),
    r"lists/(message|rank|unknowns|group)": ("i8", "L"),
    r"lists/shown": ("i8", "Lk"),
    r"lists/(clicks|observed|told)": ("b1", "Lk"),
    r"lists/surprisal": ("f8", "L"),
    r"guessed/\d+/scores": ("f8", "Lk"),
    r"guessed/\d+/guess": ("b1", "Lk"),
    r"guessed/\d+/(any_click|surprisal)": ("f8", "L"),
}
"""Type and axes of each array of a cell by name; axes of one letter have one length."""


def cell_arrays(content: bytes | Path) -> dict[str, NDArray[Any]]:
    """The arrays of a cell, of a file or its content.

    Raises:
        TraceError: something else, also where it would unpack to more than `MOST_BYTES`.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content) if isinstance(content, bytes) else content) as archive:
            found = _arrays(archive)
    except _BROKEN as error:
        raise TraceError(f"arrays: damaged: {error}") from error
    _check_forms(found)
    return found


def vector(path: Path) -> NDArray[Any]:
    """The array of a `.npy` file.

    Raises:
        TraceError: it holds something else.
    """
    try:
        with path.open("rb") as stream:
            return _array(stream, path.stat().st_size)
    except (OSError, ValueError, EOFError, LookupError) as error:
        raise TraceError(f"{path.name}: damaged: {error}") from error


def _arrays(archive: zipfile.ZipFile) -> dict[str, NDArray[Any]]:
    infos = archive.infolist()
    if sum(info.file_size for info in infos) > MOST_BYTES:
        raise ValueError(f"unpack to more than {MOST_BYTES} bytes")
    found: dict[str, NDArray[Any]] = {}
    for info in infos:
        match = _NAME.fullmatch(info.filename)
        if match is None or match[1] in found:
            raise ValueError(f"{info.filename!a}: no array, or given twice")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{info.filename!a}: compressed in another way than NumPy does")
        with archive.open(info) as stream:
            found[match[1]] = _array(stream, info.file_size)
    return found


def _array(stream: IO[bytes], size: int) -> NDArray[Any]:
    """One array in NumPy's format, whose header is believed only if it fits the number of bytes."""
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"array format {version}; expected (1, 0)")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    count = 1
    for length in shape:
        count *= length
    if dtype.hasobject or dtype.kind not in "fiubU" or fortran or min(shape, default=0) < 0:
        raise ValueError(f"array of {dtype}; expected plain numbers or text in order of rows")
    content = stream.read(size)
    if len(content) != count * dtype.itemsize:
        raise ValueError(f"{len(content)} bytes for an array of {count} times {dtype.itemsize}")
    return np.frombuffer(content, dtype=dtype).reshape(shape) if count else np.empty(shape, dtype)


def _check_forms(arrays: Mapping[str, NDArray[Any]]) -> None:
    lengths: dict[str, int] = {}
    for name, array in arrays.items():
        form = next((form for pattern, form in _FORMS.items() if re.fullmatch(pattern, name)), None)
        if form is None:
            raise TraceError(f"arrays: {name!a}: no array of a cell")
        kind, axes = form
        fits = array.dtype.kind == "U" if kind == "U" else array.dtype == np.dtype(f"<{kind}")
        if not fits or array.ndim != len(axes):
            raise TraceError(f"arrays: {name}: {array.dtype} with {array.ndim} axes")
        for axis, length in zip(axes, array.shape, strict=True):
            if lengths.setdefault(axis, length) != length:
                raise TraceError(f"arrays: {name}: {length} along an axis of {lengths[axis]}")
