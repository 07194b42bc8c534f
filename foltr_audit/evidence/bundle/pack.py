"""Packs a comparison or Runs into one file: Specs, results, findings of cells, hashes and versions.

The bundle contains what is needed to check the results. For a comparison that is every cell's facts and
arrays, whose judged lists hold the clicks of simulated users. Whoever has the data can draw these clicks
again from the Spec; `without_lists` leaves them out for data that are not public. A trace is packed without
its truth, and only on request.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.evidence.bundle.archive import BundleWriter, digest_of
from foltr_audit.evidence.bundle.contents import BundleContents, BundleSource, contents_of
from foltr_audit.evidence.bundle.manifest import NAME, BundleEntry, BundleManifest
from foltr_audit.evidence.bundle.versions import versions
from foltr_audit.experiments.runs.folder import report_write_errors
from foltr_audit.recorder import atomic_files
from foltr_audit.utils.progress import SILENT, Progress

SCHEMA = "foltr-audit/packed-bundle/1"


@dataclass(frozen=True)
class Bundle:
    """A packed bundle.

    Attributes:
        path: the file.
        sha256: hash of the whole file (hex).
        size: its size in bytes.
        manifest: its manifest.
        unfinished: what is missing in it, in words.
    """

    path: Path
    sha256: str
    size: int
    manifest: BundleManifest
    unfinished: tuple[str, ...] = ()

    def table(self) -> dict[str, object]:
        """As one plain table."""
        manifest = self.manifest
        return {
            "schema": SCHEMA,
            "bundle": str(self.path),
            "sha256": self.sha256,
            "bytes": self.size,
            "files": len(manifest.files),
            "kind": manifest.kind,
            "partial": manifest.partial,
            "lists": manifest.lists,
            "trace": manifest.trace,
            "unfinished": list(self.unfinished),
            "versions": manifest.versions,
        }


def pack(
    folder: Path,
    to: Path,
    *,
    with_trace: bool = False,
    without_lists: bool = False,
    partial: bool = False,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Bundle:
    """Pack a folder of `compare`, `attack`, `audit` or `train`; the same folder gives the same bytes.

    Raises:
        UsageError: the folder is missing, or unfinished without `partial`; the path exists or is not a .zip.
        TraceError: the folder is damaged.
        FoltrAuditError: the bundle cannot be written.
    """
    _refuse_place(folder, to, overwrite=overwrite)
    contents = contents_of(folder, with_trace=with_trace, without_lists=without_lists)
    if contents.unfinished and not partial:
        raise UsageError(
            f"{folder}: unfinished: {contents.unfinished[0]}; finish it with --resume, "
            "or give --partial to pack the finished part"
        )
    with report_write_errors(to), atomic_files.whole_file(to) as stream:
        manifest = _write(contents, stream, progress)
    with to.open("rb") as packed:
        digest = digest_of(packed)
    return Bundle(to, digest, to.stat().st_size, manifest, tuple(contents.unfinished))


def _refuse_place(folder: Path, to: Path, *, overwrite: bool) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    if to.is_dir():
        raise UsageError(f"--to: {to} is a folder; expected the name of a file")
    if to.suffix.lower() != ".zip":
        raise UsageError(f"--to: {to}; expected a name that ends in .zip")
    if to.exists() and not overwrite:
        raise UsageError(f"--to: {to} exists; give --overwrite to replace it")
    if not to.parent.is_dir():
        raise UsageError(f"--to: {to.parent}: no such folder")
    if to.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"--to: {to} is inside {folder}; expected a path outside of it")


def _write(contents: BundleContents, stream: BufferedIOBase, progress: Progress) -> BundleManifest:
    files = {}
    with BundleWriter.writing(stream) as writer:
        with progress.task("pack", len(contents.files)) as tick:
            for name in sorted(contents.files):
                files[name] = _add(writer, name, contents.files[name])
                tick()
        manifest = BundleManifest(
            kind=contents.kind,
            partial=bool(contents.unfinished),
            lists=contents.lists,
            trace=contents.trace,
            versions=dict(versions()),
            specs=contents.specs,
            files=files,
        )
        text = manifest.text.encode()
        writer.add(NAME, io.BytesIO(text), len(text))
    return manifest


def _add(writer: BundleWriter, name: str, source: BundleSource) -> BundleEntry:
    if source.text is not None:
        text = source.text.encode()
        size, digest = writer.add(name, io.BytesIO(text), len(text))
        return BundleEntry(size=size, sha256=digest)
    try:
        with source.path.open("rb") as content:
            size, digest = writer.add(name, content, source.path.stat().st_size)
    except FileNotFoundError as error:
        raise TraceError(f"{source.path}: missing") from error
    except PermissionError as error:
        raise FoltrAuditError(f"{source.path}: cannot be read: {error.strerror}") from error
    if source.sha256 is not None and digest != source.sha256:
        raise TraceError(f"{source.path}: damaged: its SHA-256 is not the recorded one")
    return BundleEntry(size=size, sha256=digest)
