"""Evidence bundles: what a study found as one file that others can check and re-run in part.

A bundle is a zip file of Specs, results, findings of cells, hashes and versions. Its entries are stored in
order of name, and last `manifest.json` with their SHA-256. Nothing is compressed: no archive unpacks to more
than its own size, and the same contents give the same bytes with every version of zlib. It is read as if an
enemy had made it. The arrays of cells hold the clicks of simulated users: `without_lists` leaves them out for
data that are not public. A trace is packed without its truth, and only on request.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import stat
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple, cast

from pydantic import Field, ValidationError

from foltr_audit.core.results import RunRecord
from foltr_audit.core.settings.base import SpecTable
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError, first_problem
from foltr_audit.experiments.comparison.folder import CELLS, GRID, INDEX, ComparisonFolder
from foltr_audit.experiments.runs.folder import (
    ARRAYS,
    MODEL,
    PLAN,
    RECORDS,
    RESULTS,
    ROUNDS,
    SPEC,
    RunFolder,
    read_plan,
    report_write_errors,
)
from foltr_audit.experiments.runs.folder import is_part as is_part_of_run
from foltr_audit.experiments.store import read_records, read_run, records_of
from foltr_audit.experiments.versions import cell_name, versions
from foltr_audit.recorder import atomic_files
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import json_table

FOREIGN = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, struct.error, EOFError, OSError, MemoryError, TypeError),
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, ValueError, FoltrAuditError),
)
"""Errors that an untrusted file may raise where it is read, or its values where they are used."""
NAME = "manifest.json"
MOST_MANIFEST_BYTES = 64 * 2**20
Kind = Literal["comparison", "run", "plan"]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Facts = dict[str, Any]
"""What `packed-bundle-1.json` says of a packed bundle, and `verification-1.json` of a verified one."""


class BundleEntry(SpecTable):
    """One file of a bundle: its size in bytes, and its SHA-256 (hex)."""

    size: Annotated[int, Field(strict=True, ge=0, lt=2**63)]
    sha256: Digest


class BundleManifest(SpecTable):
    """The manifest of a bundle.

    Attributes:
        kind: what was packed: a comparison, one Run, or the folder of a plan's Runs.
        lists: whether it contains the judged lists, with the clicks of simulated users (comparisons).
        trace: whether it contains the observed traces (Runs); it never contains their truth.
        specs: the hash of each Spec, by the name of its file.
        files: every file except the manifest.
    """

    schema_: Literal["foltr-audit/bundle/1"] = Field("foltr-audit/bundle/1", alias="schema")
    kind: Kind
    partial: bool = False
    lists: bool = False
    trace: bool = False
    versions: dict[str, str]
    specs: dict[str, Digest]
    files: dict[str, BundleEntry]

    @property
    def text(self) -> str:
        """The JSON form in which it is stored."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), indent=1, sort_keys=True) + "\n"

    @property
    def facts(self) -> Facts:
        """What the documents about a bundle repeat."""
        return {"kind": self.kind, "partial": self.partial, "lists": self.lists, "trace": self.trace}


@dataclass
class BundleContents:
    """What of a folder is packed, and what a bundle must contain once it is unpacked.

    `files` has a text for each file that is packed without local paths; cells and Runs are named by their
    folders, which end with a slash; `unfinished` says in words what is missing.
    """

    root: Path
    kind: Kind = "run"
    files: dict[str, str | None] = field(default_factory=dict)
    specs: dict[str, Spec] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, root: Path, *, lists: bool, trace: bool) -> BundleContents:
        """The contents of a folder, with the arrays of cells or the traces of Runs; an error if damaged."""
        contents = cls(root)
        contents._add(INDEX, RESULTS, RECORDS)
        if INDEX in contents.files:
            contents.kind = "comparison"
            contents._add_comparison(ComparisonFolder(root), [ARRAYS] if lists else [])
        else:
            contents._add_runs()
        if trace:  # its observed side; its truth is never packed
            names = (file.relative_to(root).as_posix() for file in root.rglob("*"))
            contents._add(*(name for name in names if is_part_of_run(name) and "/truth/" not in name))
        if RESULTS not in contents.files:
            contents.unfinished.append(f"there is no {RESULTS}")
        return contents

    def _add(self, *names: str) -> None:
        for name in names:
            if (self.root / name).is_file():
                self.files.setdefault(name, None)

    def _add_spec(self, place: str, spec: Spec, *more: str) -> None:
        self.specs[place], self.files[f"{place}{SPEC}"] = spec, spec.public.toml
        if (self.root / place / RECORDS).is_file():
            self._add(*(f"{place}{name}" for name in (RECORDS, *more)))
            self.finished.append(place)

    def _add_comparison(self, folder: ComparisonFolder, arrays: Sequence[str]) -> None:
        self.files[GRID] = folder.grid.public.toml
        specs = [cell.spec for cell in folder.cells()]
        cells = {folder.cell(spec).name: spec for spec in specs}
        # The index does not name the cells that were trained to choose a sensitivity.
        for file in sorted((self.root / CELLS).glob(f"*/{RECORDS}")):
            spec = RunFolder(file.parent).spec
            if spec.attack is None and spec.audit is None:
                code = records_of(RunRecord, read_records(file, spec)[1])[0].code
                cells |= {cell_name(spec, code): spec} if folder.is_of_index(spec, code) else {}
        for name, spec in cells.items():
            self._add_spec(f"{CELLS}/{name}/", spec, *arrays)
        missing = sum(not folder.done(spec) for spec in specs) - len(folder.failures())
        if missing:
            self.unfinished.append(f"{missing} of {len(specs)} cells are missing")

    def _add_runs(self) -> None:
        self._add(ROUNDS)
        if (self.root / PLAN).is_file():
            plan, self.kind = read_plan(self.root), "plan"
            self.files[PLAN] = plan.public.toml
            runs = {f"{spec.hash[:12]}/": spec for spec in plan.specs}
        else:
            runs = {"": RunFolder.open(self.root).spec}
        for place, spec in runs.items():
            self._add_spec(place, spec, ARRAYS, MODEL)
            if place not in self.finished:
                self.unfinished.append(f"Run {spec.hash[:12]} is not finished")


def pack(
    folder: Path,
    to: Path,
    *,
    with_trace: bool = False,
    without_lists: bool = False,
    partial: bool = False,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Facts:
    """Pack a folder of `compare`, `attack`, `audit` or `train`; the same folder gives the same bytes."""
    _refuse_place(folder, to, overwrite=overwrite)
    with report_write_errors(to):
        atomic_files.remove_left(to)
    comparison = (folder / INDEX).is_file()
    if comparison and with_trace:
        raise UsageError(
            f"--with-trace: {folder} is a comparison, which stores no traces; record one cell with "
            "attack --config SPEC --out DIR and pack that"
        )
    if without_lists and not comparison:
        raise UsageError(f"--without-lists: {folder} is not a comparison; only their cells hold judged lists")
    lists = comparison and not without_lists
    contents = BundleContents.of(folder, lists=lists, trace=with_trace)
    for place in contents.finished:
        read_run(folder / place, contents.specs[place])  # refuses a damaged one
    if contents.unfinished and not partial:
        raise UsageError(
            f"{folder}: unfinished: {contents.unfinished[0]}; finish it with --resume, "
            "or give --partial to pack the finished part"
        )
    manifest = BundleManifest(
        kind=contents.kind,
        lists=lists,
        trace=with_trace,
        partial=bool(contents.unfinished),
        versions=versions(),
        specs={f"{place}{SPEC}": spec.hash for place, spec in contents.specs.items()},
        files={},
    )
    with (
        report_write_errors(to),
        atomic_files.whole_file(to) as stream,
        zipfile.ZipFile(cast("IO[bytes]", stream), "w") as archive,
        progress.task("pack", len(contents.files)) as tick,
    ):
        for name, text in sorted(contents.files.items()):
            content = (folder / name).open("rb") if text is None else io.BytesIO(text.encode())
            with content, archive.open(entry(name), "w", force_zip64=True) as into:
                manifest.files[name] = copy(content, into)
            tick()
        archive.writestr(entry(NAME), manifest.text)
    with to.open("rb") as packed:
        whole = copy(packed)
    return {
        "schema": "foltr-audit/packed-bundle/1",
        "bundle": str(to),
        "sha256": whole.sha256,
        "bytes": whole.size,
        "files": len(manifest.files),
        **manifest.facts,
        "unfinished": contents.unfinished,
        "versions": manifest.versions,
    }


def _refuse_place(folder: Path, to: Path, *, overwrite: bool) -> None:
    inside = to.resolve().is_relative_to(folder.resolve())
    problems = (
        (not folder.is_dir(), f"{folder}: no such folder"),
        ((folder / "trace.toml").is_file(), f"{folder}: a trace alone; expected the folder of --out"),
        (to.is_dir(), f"--zip: {to} is a folder; expected the name of a file"),
        (to.suffix.lower() != ".zip", f"--zip: {to}; expected a name that ends in .zip"),
        (to.exists() and not overwrite, f"--zip: {to} exists; give --overwrite to replace it"),
        (not to.parent.is_dir(), f"--zip: {to.parent}: no such folder"),
        (inside, f"--zip: {to} is inside {folder}; expected a path outside of it"),
    )
    for wrong, why in problems:
        if wrong:
            raise UsageError(why)


def entry(name: str) -> zipfile.ZipInfo:
    """The zip header of a file, which depends on nothing but its name."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the earliest time of zip files
    info.create_system = 3  # Unix; zipfile names the system that it runs on
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


def copy(content: IO[bytes], into: IO[bytes] | None = None) -> BundleEntry:
    """Copy a stream in chunks; its size and hash."""
    total, digest = 0, hashlib.sha256()
    while piece := content.read(2**20):
        digest.update(piece)
        total += len(piece)
        if into is not None:
            into.write(piece)
    return BundleEntry(size=total, sha256=digest.hexdigest())


class BundleFolder(NamedTuple):
    """A bundle in a temporary folder: the hash of its file, its manifest, and files that do not fit to it."""

    root: Path
    sha256: str
    manifest: BundleManifest
    problems: list[str]


@contextmanager
def unpack(path: Path) -> Iterator[BundleFolder]:
    """Unpack a bundle for as long as the context lasts; a `TraceError` if it is none, or damaged."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file; expected results that report --zip has packed")
    with tempfile.TemporaryDirectory(prefix="foltr-audit-") as root, path.open("rb") as stream:
        try:
            # The hash and the entries come from one open file: another file at its path has no effect.
            sha256, size = copy(stream).sha256, stream.tell()
            with zipfile.ZipFile(stream) as archive:
                bundle = BundleFolder(Path(root), sha256, *_extract(archive, size, Path(root)))
        except FOREIGN as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                full = f"{root}: {error.strerror}; expected room for {path}, TMPDIR names another folder"
                raise FoltrAuditError(full) from error
            why = f"{NAME}: {first_problem(error, None)}" if isinstance(error, ValidationError) else error
            raise TraceError(f"{path}: damaged, or not packed by report --zip: {why}") from error
        yield bundle


def _extract(archive: zipfile.ZipFile, size: int, root: Path) -> tuple[BundleManifest, list[str]]:
    """Extract the files that the manifest names; it, and in words what does not fit to it."""
    infos, problems = _plain_entries(archive.infolist(), size), []
    manifest = BundleManifest.model_validate(json_table(archive.read(infos.pop(NAME)), NAME, TraceError))
    for name in sorted({*manifest.files, *infos}):
        if name not in infos:
            problems.append(f"{name}: missing")
        elif name not in manifest.files:
            problems.append(f"{name}: not in {NAME}")
        else:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            with (root / name).open("xb") as file, archive.open(infos[name]) as content:
                if copy(content, file) != manifest.files[name]:
                    problems.append(f"{name}: not the content in {NAME}")
    return manifest, problems


def _plain_entries(infos: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """The entries by name; a `ValueError` unless all are plain, stored files with safe names that fit."""
    for info in infos:
        if problem := _refusal(info):
            raise ValueError(f"entry {info.orig_filename[:80]!a}: {problem}")
    if sum(info.file_size for info in infos) > size:
        raise ValueError("its entries are larger than the file")
    entries = {info.filename: info for info in infos}
    # Readers differ on which of two entries with one name counts, and the manifest has one hash for both.
    if len(entries) < len(infos):
        raise ValueError("two entries have the same name")
    if NAME not in entries:
        raise ValueError(f"no {NAME} in it")
    if entries[NAME].file_size > MOST_MANIFEST_BYTES:
        raise ValueError(f"{NAME}: {entries[NAME].file_size} bytes; expected at most {MOST_MANIFEST_BYTES}")
    return entries


def _refusal(info: zipfile.ZipInfo) -> str:
    name = info.orig_filename
    # zipfile cuts a name at its first NUL byte: the entry could have another name for another reader.
    if name != info.filename or "\\" in name or not name.isprintable():
        return "a name with a character that is not allowed"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "a name that is not a plain path inside the zip"
    # The upper half of the attributes is the Unix mode: this refuses links and devices.
    if not stat.S_ISREG(info.external_attr >> 16):
        return "not a regular file"
    if info.flag_bits & 0x1:
        return "it is encrypted"
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        return "it is compressed; report --zip stores files as they are"
    return ""
