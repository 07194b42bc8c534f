"""Unpacks an untrusted bundle into a temporary folder.

It extracts only plain files with the names and in the form that `pack` writes, and reads them in chunks.
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
from foltr_audit.experiments.runs.folder import FRESH, TRAINING, report_write_errors
from foltr_audit.experiments.runs.folder import is_part as is_part_of_run

MOST_ENTRIES = 1_000_000
_TRUTH = "truth"
_BROKEN = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, struct.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError, LookupError),
)
"""Errors that the zip reader raises on files that are damaged or no zip files."""


@dataclass(frozen=True)
class BundleFolder:
    """A bundle in a temporary folder.

    Attributes:
        root: the folder.
        sha256: hash of the bundle's file (hex).
        manifest: its manifest.
        problems: files that are missing, extra or not as in the manifest, in words.
    """

    root: Path
    sha256: str
    manifest: BundleManifest
    problems: tuple[str, ...]


@contextmanager
def unpack(path: Path) -> Iterator[BundleFolder]:
    """Unpack a bundle for as long as the context lasts.

    Raises:
        UsageError: the file does not exist.
        TraceError: it is not a bundle, or is damaged.
        FoltrAuditError: the disk is full.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; expected a bundle")
    with tempfile.TemporaryDirectory(prefix="foltr-audit-") as name, path.open("rb") as stream:
        yield _unpack(path, stream, Path(name))


def _unpack(path: Path, stream: IO[bytes], root: Path) -> BundleFolder:
    try:
        # The hash and the entries come from one open file: exchanging the file at this path has no effect in
        # between.
        digest = digest_of(stream)
        archive = zipfile.ZipFile(stream)
    except _BROKEN as error:
        raise TraceError(f"{path}: damaged, or no bundle: {error}") from error
    with archive:
        infos = _safe_entries(path, archive.infolist(), path.stat().st_size)
        manifest = _manifest(path, archive, infos.pop(NAME))
        problems = [f"{name}: missing" for name in manifest.files if name not in infos]
        for name, info in infos.items():
            problem = _unpack_file(path, archive, info, root / "files", manifest)
            problems += [] if problem is None else [f"{name}: {problem}"]
    if not problems:
        _refuse_other_form(path, manifest, root, digest)
    return BundleFolder(root / "files", digest, manifest, tuple(problems))


def _safe_entries(path: Path, infos: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """The entries by name, if all are plain, stored files with safe names that fit into the bundle.

    Entries are stored, so their sizes can add up to the size of the file at most: no archive bomb passes.

    Raises:
        TraceError: an entry is not.
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
    # Readers differ on which of two entries with one name counts, and the hash in the manifest covers only
    # one.
    if len(found) < len(infos):
        raise TraceError(f"{path}: damaged: two entries have the same name")
    return found


def _refusal(info: zipfile.ZipInfo) -> str | None:
    name = info.orig_filename
    # zipfile cuts a name at its first NUL byte: the entry could have another name for another reader.
    if name != info.filename or "\\" in name or not name.isprintable():
        return "a name with a character that is not allowed"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "a name that is not a plain path inside the bundle"
    # The upper half of the attributes is the Unix mode: this refuses links and devices.
    if not stat.S_ISREG(info.external_attr >> 16):
        return "not a regular file"
    if info.flag_bits & 0x1:
        return "it is encrypted"
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        return "it is compressed; a bundle holds stored files only"
    return None


def shown(text: str) -> str:
    """Untrusted text, quoted for a message and cut to 80 characters."""
    return ascii(text if len(text) <= 80 else text[:80] + "...")


def _manifest(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BundleManifest:
    if info.file_size > MOST_BYTES:
        raise TraceError(f"{path}: damaged: {NAME} has {info.file_size} bytes; expected at most {MOST_BYTES}")
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
    """Extract a file into the folder; return what is wrong with it, if anything."""
    name = info.filename
    if name not in manifest.files:
        return f"not in {NAME}"
    if not belongs(name, manifest):
        return f"not a file of this kind of bundle: a {manifest.kind}"
    digest, total, target = hashlib.sha256(), 0, root / name
    with report_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("xb")
    with file:
        for piece in _pieces(path, archive, info):
            digest.update(piece)
            total += len(piece)
            with report_write_errors(target):
                file.write(piece)
    if (total, digest.hexdigest()) != (manifest.files[name].size, manifest.files[name].sha256):
        return f"not the content in {NAME}"
    return None


def belongs(name: str, manifest: BundleManifest) -> bool:
    """Whether a bundle with this manifest may contain a file of this name; never the truth of a trace."""
    parts = name.split("/")
    if manifest.kind == "comparison":
        return comparison_folder.is_part(name) and (manifest.lists or parts[-1] != ARRAYS)
    of_trace = any(part in (TRAINING, FRESH) for part in parts[:-1])
    return is_part_of_run(name) and (manifest.trace or not of_trace) and _TRUTH not in parts


def _refuse_other_form(path: Path, manifest: BundleManifest, root: Path, digest: str) -> None:
    """Refuse a bundle whose bytes between the files are not ours, e.g. a time or a comment.

    The bundle is packed again and compared by its hash: this covers every byte, with no list of zip fields.

    Raises:
        TraceError: the bytes differ.
    """
    again = root / "again.zip"
    with report_write_errors(again):
        (root / "files").mkdir(exist_ok=True)
        (root / "files" / NAME).write_bytes(manifest.text.encode())
        with again.open("xb") as stream:
            write_files(stream, root / "files", [*sorted(manifest.files), NAME])
        with again.open("rb") as stream:
            same = digest_of(stream) == digest
        again.unlink()
        (root / "files" / NAME).unlink()
    if not same:
        raise TraceError(
            f"{path}: damaged: the bytes between its files are not those that foltr-audit writes"
        )
