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
from typing import IO, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import FoltrAuditError

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
_ENCRYPTED = 1
_BROKEN = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError, MemoryError),
    *(NotImplementedError, RuntimeError, ValueError, ArithmeticError, LookupError),
)
"""What the zip reader raises on files that are damaged, or no archives."""


def read_array(path: Path, error: type[FoltrAuditError]) -> NDArray[np.generic]:
    """The array of a `.npy` file, read-only; an error of the given kind if it is not one plain array."""
    try:
        with path.open("rb") as stream:
            return _array_in(stream, path.stat().st_size, LONGEST)
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    except (ValueError, MemoryError) as problem:
        raise error(f"{path}: no .npy file with one plain array: {_reason(problem)}") from problem


def map_array(path: Path) -> NDArray[np.generic]:
    """The array of a `.npy` file, mapped into memory and read-only; an error if it is not one plain array."""
    with path.open("rb") as stream:
        form = _form_in(stream, path.stat().st_size, LONGEST)
        # Without the subclass memmap, kernels see the type that they were compiled for.
        return np.asarray(
            np.memmap(path, form.dtype, "r", offset=stream.tell(), shape=form.shape, order=form.order)
        )


def read_archive(
    content: bytes | Path, where: str, error: type[FoltrAuditError], *, longest: int = LONGEST
) -> dict[str, NDArray[np.generic]]:
    """The arrays of an `.npz` archive by name, of its content or its file; all are read-only.

    `longest`: length that an axis of an array without values may have.

    Raises:
        FoltrAuditError: of the given kind: it is damaged, holds something else than plain arrays, or would
            unpack to more than its own size explains.
    """
    try:
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        with zipfile.ZipFile(io.BytesIO(content) if isinstance(content, bytes) else content) as archive:
            found = {}
            for name, info in _members(archive, size).items():
                with archive.open(info) as stream:
                    found[name] = _array_in(stream, info.file_size, longest)
            return found
    except _BROKEN as problem:
        raise error(f"{where}: damaged: {_reason(problem)}") from problem


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
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
        packed = info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if packed or info.flag_bits & _ENCRYPTED:
            raise ValueError(f"{info.filename[:80]!a}: compressed in another way than NumPy does")
        found[match[1]] = info
    return found


class _Form(NamedTuple):
    """What the header of an array claims."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    order: Literal["C", "F"]


def _array_in(stream: IO[bytes], size: int, longest: int) -> NDArray[np.generic]:
    """One array, which is all of a stream of `size` bytes."""
    form = _form_in(stream, size, longest)
    expected = prod(form.shape) * form.dtype.itemsize
    content = stream.read(expected)
    if len(content) != expected or stream.read(1):
        raise ValueError(f"{len(content)} bytes of values, or more; expected {expected}")
    if not expected:
        return np.empty(form.shape, form.dtype)
    # Over bytes, `frombuffer` copies nothing and gives a read-only array.
    flat = np.frombuffer(content, dtype=form.dtype)
    # NumPy trusts bytes that are no value of their type.
    if flat.dtype.kind == "b" and flat.view(np.uint8).max() > 1:
        raise ValueError("a truth value that is neither 0 nor 1")
    if flat.dtype.kind == "U":
        letters = flat.view(f"{flat.dtype.str[0]}u4")
        if letters.max() > 0x10FFFF or np.any((letters >= 0xD800) & (letters <= 0xDFFF)):
            raise ValueError("text with a number that is no character")
    return flat.reshape(form.shape, order=form.order)


def _form_in(stream: IO[bytes], size: int, longest: int) -> _Form:
    """What the header of an array claims, if that are as many bytes as the stream has."""
    magic, length = stream.read(len(_MAGIC)), int.from_bytes(stream.read(2), "little")
    if magic != _MAGIC:
        raise ValueError("another beginning than that of NumPy's format 1.0")
    match = _HEADER.fullmatch(stream.read(length).decode("latin-1"))
    if match is None:
        raise ValueError("no header of a plain array")
    order, kind, width, fortran, axes = match.groups()
    shape = tuple(int(axis) for axis in axes.replace(" ", "").split(",") if axis)
    try:
        dtype = np.dtype(f"{order}{kind}{width}")
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in KINDS or not int(width) or len(shape) > _MOST_AXES:
        raise ValueError(f"an array of {kind}{width} with {len(shape)} axes; expected plain numbers or text")
    claimed = len(_MAGIC) + 2 + length + prod(shape) * dtype.itemsize
    if claimed != size:
        raise ValueError(f"{size} bytes; its header claims {claimed}, for shape {shape}")
    if not prod(shape) and max(shape) > longest:
        raise ValueError(f"an array without values of shape {shape}")
    return _Form(dtype, shape, "F" if fortran == "True" else "C")


def _reason(problem: Exception) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__


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
        fits = array.dtype.kind == "U" if form.kind == "U" else array.dtype == np.dtype(f"<{form.kind}")
        if not fits or array.ndim != len(form.axes):
            raise ValueError(
                f"{name}: {array.dtype} with {array.ndim} axes; expected {form.kind} with {len(form.axes)}"
            )
        for axis, length in zip(form.axes, array.shape, strict=True):
            if lengths.setdefault(axis, length) != length:
                raise ValueError(f"{name}: {length} along an axis of {lengths[axis]}")
        if form.kind not in ("U", "b1"):
            numbers = cast("NDArray[np.float64]", array)  # of any kind
            if np.any((numbers < form.least) | (numbers > form.most)):
                raise ValueError(f"{name}: a value outside of {form.least:g} to {form.most:g}")
    return lengths
