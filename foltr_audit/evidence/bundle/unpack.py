"""Unpacks a bundle of unknown origin into a folder that is gone afterwards.

Only plain files with names of ours, in the one form that we write, come out; everything is read in pieces.
"""

from __future__ import annotations

import hashlib
import stat
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from foltr_audit.errors import TraceError, UsageError
from foltr_audit.evidence.bundle.archive import CHUNK, digest_of, write_files
from foltr_audit.evidence.bundle.manifest import MOST_BYTES, NAME, BundleManifest
from foltr_audit.experiments.comparison import folder as comparison_folder
from foltr_audit.experiments.comparison.cell_arrays import ARRAYS
from foltr_audit.experiments.runs.folder import FRESH, TRAINING, writing
from foltr_audit.experiments.runs.folder import is_part as is_part_of_run

MOST_ENTRIES = 1_000_000
_TRUTH = "truth"
_BROKEN = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, struct.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError, LookupError),
)
"""What the zip reader raises on files that are none, or damaged."""


@dataclass(frozen=True)
class BundleFolder:
    """A bundle in a temporary folder.

    Attributes:
        root: the folder.
        sha256: of the bundle's file (hex).
        manifest: what it says it holds.
        problems: files that are missing, extra or other than the manifest says, in words.
    """

    root: Path
    sha256: str
    manifest: BundleManifest
    problems: tuple[str, ...]


@contextmanager
def unpacked(path: Path) -> Iterator[BundleFolder]:
    """The content of a bundle, for as long as the context lasts.

    Raises:
        UsageError: no such file.
        TraceError: no bundle, or a damaged one.
        FoltrAuditError: there is no room for it.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; expected a bundle")
    with tempfile.TemporaryDirectory(prefix="foltr-audit-") as name, path.open("rb") as stream:
        yield _unpack(path, stream, Path(name))


def _unpack(path: Path, stream: IO[bytes], root: Path) -> BundleFolder:
    try:
        digest = digest_of(stream)
        archive = zipfile.ZipFile(stream)
    except _BROKEN as error:
        raise TraceError(f"{path}: damaged, or no bundle: {error}") from error
    with archive:
        infos = _checked(path, archive.infolist(), path.stat().st_size)
        manifest = _manifest(path, archive, infos.pop(NAME))
        problems = [f"{name}: missing" for name in manifest.files if name not in infos]
        for name, info in infos.items():
            problem = _unpack_file(path, archive, info, root / "files", manifest)
            problems += [] if problem is None else [f"{name}: {problem}"]
    if not problems:
        _refuse_other_form(path, manifest, root, digest)
    return BundleFolder(root / "files", digest, manifest, tuple(problems))


def _checked(path: Path, infos: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """The entries by name, if all are plain, stored, safely named files that fit into the bundle.

    Raises:
        TraceError: one is not.
    """
    if NAME not in [info.filename for info in infos]:
        raise TraceError(f"{path}: damaged, or no bundle: no {NAME} in it")
    if len(infos) > MOST_ENTRIES:
        raise TraceError(f"{path}: damaged: {len(infos)} entries; expected at most {MOST_ENTRIES}")
    for info in infos:
        problem = _refusal(info)
        if problem is not None:
            raise TraceError(f"{path}: damaged: entry {shown(info.orig_filename)}: {problem}")
    if sum(info.file_size for info in infos) > size:
        raise TraceError(f"{path}: damaged: its entries are larger than the file")
    found = {info.filename: info for info in infos}
    if len(found) < len(infos):
        raise TraceError(f"{path}: damaged: a name stands for two entries")
    return found


def _refusal(info: zipfile.ZipInfo) -> str | None:
    name = info.orig_filename
    if name != info.filename or "\\" in name or not name.isprintable():
        return "a name with a character that no file here has"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "a name that is no plain path inside of the bundle"
    if not stat.S_ISREG(info.external_attr >> 16):
        return "no regular file"
    if info.flag_bits & 0x1:
        return "it is encrypted"
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        return "it is compressed; a bundle holds stored files only"
    return None


def shown(text: str) -> str:
    """Foreign text, quoted for a message and cut to 80 characters."""
    return ascii(text if len(text) <= 80 else text[:80] + "...")


def _manifest(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BundleManifest:
    if info.file_size > MOST_BYTES:
        raise TraceError(f"{path}: damaged: {NAME} has {info.file_size} bytes; expected {MOST_BYTES} at most")
    return BundleManifest.parse(b"".join(_pieces(path, archive, info)), str(path))


def _pieces(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    try:
        with archive.open(info) as content:
            while piece := content.read(CHUNK):
                yield piece
    except _BROKEN as error:
        raise TraceError(f"{path}: damaged: {shown(info.filename)}: {error}") from error


def _unpack_file(
    path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, root: Path, manifest: BundleManifest
) -> str | None:
    """Put a file into the folder; what is wrong with it, and then it may be left out."""
    name = info.filename
    if name not in manifest.files:
        return f"not in {NAME}"
    if not belongs(name, manifest):
        return f"no part of such a bundle of a {manifest.kind}"
    digest, total, target = hashlib.sha256(), 0, root / name
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("xb")
    with file:
        for piece in _pieces(path, archive, info):
            digest.update(piece)
            total += len(piece)
            with writing(target):
                file.write(piece)
    if (total, digest.hexdigest()) != (manifest.files[name].size, manifest.files[name].sha256):
        return f"not the content that {NAME} names"
    return None


def belongs(name: str, manifest: BundleManifest) -> bool:
    """Whether such a bundle may hold a file of this name; no bundle holds the truth of a trace."""
    parts = name.split("/")
    if manifest.kind == "comparison":
        return comparison_folder.is_part(name) and (manifest.lists or parts[-1] != ARRAYS)
    of_trace = any(part in (TRAINING, FRESH) for part in parts[:-1])
    return is_part_of_run(name) and (manifest.trace or not of_trace) and _TRUTH not in parts


def _refuse_other_form(path: Path, manifest: BundleManifest, root: Path, digest: str) -> None:
    """Refuse a bundle that differs beside the contents of its files, e.g. in a time or a comment.

    Raises:
        TraceError: it does.
    """
    again = root / "again.zip"
    with writing(again):
        (root / "files").mkdir(exist_ok=True)
        (root / "files" / NAME).write_bytes(manifest.text.encode())
        with again.open("xb") as stream:
            write_files(stream, root / "files", [*sorted(manifest.files), NAME])
        with again.open("rb") as stream:
            same = digest_of(stream) == digest
        again.unlink()
        (root / "files" / NAME).unlink()
    if not same:
        raise TraceError(f"{path}: damaged: other bytes between its files than foltr-audit writes")
