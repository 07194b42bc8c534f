"""Arrays in NumPy's format, alone or in an archive: read only if they are as large as they claim to be.

NumPy's own reader evaluates the header as Python, allocates what it claims, and raises many kinds of errors.
Here a header is matched against the one form that NumPy writes, and its claim is compared with the file's
size before anything is allocated.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import FoltrAuditError


class ArraySchema(NamedTuple):
    """The expected type and axes of an array.

    Attributes:
        kind: its type, e.g. `f8`; `U` for text of any length.
        axes: a letter for each axis; axes of one letter have one length.
        least, most: of its values; NaN passes.
    """

    kind: str
    axes: str
    least: float = -np.inf
    most: float = np.inf


def refuse_other_forms(
    arrays: Mapping[str, NDArray[np.generic]], forms: Mapping[str, ArraySchema]
) -> dict[str, int]:
    """Check arrays by name against the form of the first pattern of their name; the length of each axis."""
    lengths: dict[str, int] = {}
    for name, array in arrays.items():
        form = next((form for pattern, form in forms.items() if re.fullmatch(pattern, name)), None)
        if form is None:
            raise ValueError(f"{name[:80]!a}: no array that is expected here")
        _refuse_other_form(name, array, form)
        for axis, length in zip(form.axes, array.shape, strict=True):
            if lengths.setdefault(axis, length) != length:
                raise ValueError(f"{name}: {length} along an axis of {lengths[axis]}")
    return lengths


def _refuse_other_form(name: str, array: NDArray[np.generic], form: ArraySchema) -> None:
    fits = array.dtype.kind == "U" if form.kind == "U" else array.dtype == np.dtype(f"<{form.kind}")
    if not fits or array.ndim != len(form.axes):
        raise ValueError(
            f"{name}: {array.dtype} with {array.ndim} axes; expected {form.kind} with {len(form.axes)}"
        )
    if form.kind in ("U", "b1"):
        return
    numbers = cast("NDArray[np.float64]", array)  # of any kind
    if np.any((numbers < form.least) | (numbers > form.most)):
        raise ValueError(f"{name}: a value outside of {form.least:g} to {form.most:g}")


KINDS = "fiubU"
"""Kinds of numbers, truth values and text that an array may hold."""

UNPACKS_TO = (256 << 20, 100)
"""What an archive may unpack to: this many bytes, or this many times its own size if that is more."""

MOST_UNPACKED = 8 << 30
"""Bytes that no archive may unpack to, however large it is."""

LONGEST = 1 << 20
"""Length that an axis of an array without values may have, unless said otherwise: no byte vouches for it."""

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    r"\{'descr': '([<>|=]?)([a-zA-Z])(\d{1,6})', 'fortran_order': (True|False), "
    r"'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?),?\),? ?\}\s*"
)
_MOST_AXES = 8
_MOST_MEMBERS = 100_000
_NAME = re.compile(r"([^/\\\0][^\\\0]*)\.npy")
_LOCAL_HEADER = 30  # bytes before the name of a member (APPNOTE 6.3, section 4.3.7)
_MOST_HEADER = 1 << 16
_ENCRYPTED = 1
_COMPRESSED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError, MemoryError),
    *(NotImplementedError, RuntimeError, ValueError, ArithmeticError, LookupError),
)
"""What the zip reader raises on files that are damaged, or no archives."""


class ArrayHeader(NamedTuple):
    """The header of an array: what it claims to be.

    Attributes:
        dtype: the type of its values.
        shape: its axes.
        fortran: its first axis is the one that varies fastest.
        start: where its values begin.
    """

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def size(self) -> int:
        """Bytes of header and values."""
        return self.start + prod(self.shape) * self.dtype.itemsize


def read_array(path: Path, error: type[FoltrAuditError]) -> NDArray[np.generic]:
    """The array of a `.npy` file, read-only; an error of the given kind if it is not one plain array."""
    try:
        with path.open("rb") as stream:
            return array_in(stream, path.stat().st_size)
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    except (ValueError, MemoryError) as problem:
        raise error(f"{path}: no .npy file with one plain array: {_reason(problem)}") from problem


def map_array(path: Path) -> NDArray[np.generic]:
    """The array of a `.npy` file, mapped into memory and read-only; an error if it is not one plain array."""
    with path.open("rb") as stream:
        header = header_in(stream, path.stat().st_size)
    # Without the subclass memmap, kernels see the type that they were compiled for.
    return np.asarray(
        np.memmap(
            path,
            dtype=header.dtype,
            mode="r",
            offset=header.start,
            shape=header.shape,
            order="F" if header.fortran else "C",
        )
    )


def read_archive(
    content: bytes | Path,
    where: str,
    error: type[FoltrAuditError],
    *,
    stored: bool = False,
    longest: int = LONGEST,
) -> dict[str, NDArray[np.generic]]:
    """The arrays of an `.npz` archive by name, of its content or its file; all are read-only.

    `stored`: whether compressed arrays are refused, and the archive's checksums not compared: of contents
    whose hash was. `longest`: length that an axis of an array without values may have.

    Raises:
        FoltrAuditError: of the given kind: it is damaged, holds something else than plain arrays, or would
            unpack to more than its own size explains.
    """
    try:
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        with zipfile.ZipFile(io.BytesIO(content) if isinstance(content, bytes) else content) as archive:
            infos = _members(archive, size, _COMPRESSED[:1] if stored else _COMPRESSED)
            if stored and isinstance(content, bytes):
                return {name: _array_at(content, info, longest) for name, info in infos.items()}
            found = {}
            for name, info in infos.items():
                with archive.open(info) as stream:
                    found[name] = array_in(stream, info.file_size, longest)
            return found
    except _BROKEN as problem:
        raise error(f"{where}: damaged: {_reason(problem)}") from problem


def _members(archive: zipfile.ZipFile, size: int, ways: tuple[int, ...]) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an archive by name, if it may be unpacked."""
    infos = archive.infolist()
    # The sizes are claims of the archive, but a safe bound: the zip reader returns no more bytes of a member
    # than it claims.
    most = min(MOST_UNPACKED, max(UNPACKS_TO[0], UNPACKS_TO[1] * size))
    if len(infos) > _MOST_MEMBERS or sum(info.file_size for info in infos) > most:
        raise ValueError(f"it unpacks to more than {most} bytes; expected that at most")
    found: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        match = _NAME.fullmatch(info.filename)
        if match is None or match[1] in found:
            raise ValueError(f"{info.filename[:80]!a}: no array, or given twice")
        if info.compress_type not in ways or info.flag_bits & _ENCRYPTED:
            other = " in another way than NumPy does" if zipfile.ZIP_DEFLATED in ways else ""
            raise ValueError(f"{info.filename[:80]!a}: compressed{other}; expected arrays as they are")
        found[match[1]] = info
    return found


def _array_at(content: bytes, info: zipfile.ZipInfo, longest: int) -> NDArray[np.generic]:
    """A member of an archive that is stored as it is, without a copy where its values are aligned."""
    begin = info.header_offset
    name, extra = (int.from_bytes(content[begin + at : begin + at + 2], "little") for at in (26, 28))
    start = begin + _LOCAL_HEADER + name + extra
    if content[begin : begin + 4] != b"PK\3\4" or start + info.file_size > len(content):
        raise ValueError(f"{info.filename[:80]!a}: not where the archive says")
    header = header_in(io.BytesIO(content[start : start + _MOST_HEADER]), info.file_size, longest)
    if not prod(header.shape):
        return np.empty(header.shape, header.dtype)
    flat = np.frombuffer(content, header.dtype, prod(header.shape), start + header.start)
    _refuse_odd_values(flat)
    if not flat.flags.aligned:
        flat = flat.copy()
        flat.flags.writeable = False
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def array_in(stream: IO[bytes], size: int, longest: int = LONGEST) -> NDArray[np.generic]:
    """One array, which is all of a stream of `size` bytes."""
    header = header_in(stream, size, longest)
    content = stream.read(size - header.start)
    if len(content) != size - header.start or stream.read(1):
        raise ValueError(f"{header.start + len(content)} bytes, or more; expected {size}")
    if not prod(header.shape):
        return np.empty(header.shape, header.dtype)
    # Over bytes, `frombuffer` copies nothing and gives a read-only array.
    flat = np.frombuffer(content, dtype=header.dtype)
    _refuse_odd_values(flat)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def header_in(stream: IO[bytes], size: int, longest: int = LONGEST) -> ArrayHeader:
    """The header of an array, if it claims as many bytes as the stream has."""
    magic, length = stream.read(len(_MAGIC)), int.from_bytes(stream.read(2), "little")
    if magic != _MAGIC:
        raise ValueError("another beginning than that of NumPy's format 1.0")
    match = _HEADER.fullmatch(stream.read(length).decode("latin-1"))
    if match is None:
        raise ValueError("no header of a plain array")
    order, kind, width, fortran, axes = match.groups()
    shape = tuple(int(axis) for axis in axes.replace(" ", "").split(",") if axis)
    if kind not in KINDS or not int(width) or len(shape) > _MOST_AXES:
        raise ValueError(f"an array of {kind}{width} with {len(shape)} axes; expected plain numbers or text")
    try:
        dtype = np.dtype(f"{order}{kind}{width}")
    except TypeError as problem:
        raise ValueError(f"an array of {kind}{width}; expected plain numbers or text") from problem
    header = ArrayHeader(dtype, shape, fortran == "True", len(_MAGIC) + 2 + length)
    if header.size != size:
        raise ValueError(f"{size} bytes; its header claims {header.size}, for shape {shape}")
    if not prod(shape) and max(shape) > longest:
        raise ValueError(f"an array without values of shape {shape}")
    return header


def _refuse_odd_values(flat: NDArray[np.generic]) -> None:
    """Refuse bytes that are no value of their type, which NumPy trusts."""
    if flat.dtype.kind == "b" and flat.view(np.uint8).max() > 1:
        raise ValueError("a truth value that is neither 0 nor 1")
    if flat.dtype.kind == "U":
        letters = flat.view(f"{flat.dtype.str[0]}u4")
        if letters.max() > 0x10FFFF or np.any((letters >= 0xD800) & (letters <= 0xDFFF)):
            raise ValueError("text with a number that is no character")


def _reason(problem: Exception) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__
