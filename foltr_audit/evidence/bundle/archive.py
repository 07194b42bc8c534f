"""The zip file of a bundle: stored entries in order of name, and last `manifest.json` with their SHA-256.

Nothing is compressed: no archive unpacks to more than its own size, and the same contents give the same bytes
with every version of zlib. A bundle is read as if an enemy had made it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import stat
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Annotated, Literal, NamedTuple, TypedDict

from pydantic import Field, ValidationError

from foltr_audit.core.field_errors import first_problem
from foltr_audit.core.plugins.registry import GROUPS
from foltr_audit.core.settings.base import SpecTable
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.experiments.comparison import folder as comparison_folder
from foltr_audit.experiments.comparison.cell_arrays import ARRAYS
from foltr_audit.experiments.runs.folder import FRESH, TRAINING, report_write_errors
from foltr_audit.experiments.runs.folder import is_part as is_part_of_run
from foltr_audit.utils.reading import json_table

NAME = "manifest.json"
MOST_MANIFEST_BYTES = 64 * 2**20
_CHUNK = 2**20
_BROKEN = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, struct.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError, LookupError),
)
"""Errors that the zip reader raises on files that are damaged or no zip files."""
_ROOMS = ("attacks", "defenses", "scenarios", "studies", "recorder")
"""Packages that lie beside the others in a checkout, and among them once installed."""

Kind = Literal["comparison", "run", "plan"]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class BundleEntry(SpecTable):
    """One file of a bundle: its size in bytes, and its SHA-256 (hex)."""

    size: Annotated[int, Field(strict=True, ge=0, lt=2**63)]
    sha256: Digest


class BundleManifest(SpecTable):
    """The manifest of a bundle.

    Attributes:
        kind: what was packed: a comparison, one Run, or the folder of a plan's Runs.
        partial: whether the folder was unfinished.
        lists: whether it contains the judged lists, with the clicks of simulated users (comparisons).
        trace: whether it contains the observed traces (Runs); it never contains their truth.
        versions: the versions that it was packed with, see `versions`.
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
    def facts(self) -> ManifestFacts:
        """What documents about the bundle repeat."""
        return {"kind": self.kind, "partial": self.partial, "lists": self.lists, "trace": self.trace}

    def may_hold(self, name: str) -> bool:
        """Whether a bundle of this kind holds a file of this name; never the truth of a trace."""
        parts = name.split("/")
        if self.kind == "comparison":
            return comparison_folder.is_part(name) and (self.lists or parts[-1] != ARRAYS)
        of_trace = any(part in (TRAINING, FRESH) for part in parts[:-1])
        return is_part_of_run(name) and (self.trace or not of_trace) and "truth" not in parts


class BundleFolder(NamedTuple):
    """A bundle in a temporary folder: the hash of its file, its manifest, and files that do not fit to it."""

    root: Path
    sha256: str
    manifest: BundleManifest
    problems: list[str]


class ManifestFacts(TypedDict):
    """What documents about a bundle repeat of its manifest."""

    kind: Kind
    partial: bool
    lists: bool
    trace: bool


def entry(name: str) -> zipfile.ZipInfo:
    """The zip header of a file, which depends on nothing but its name."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the earliest time that a zip file can name
    info.create_system = 3  # Unix; zipfile names the system that it runs on
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


def copy(content: IO[bytes], into: IO[bytes] | None = None) -> BundleEntry:
    """Copy a stream in chunks; its size and hash."""
    total, digest = 0, hashlib.sha256()
    while piece := content.read(_CHUNK):
        digest.update(piece)
        total += len(piece)
        if into is not None:
            into.write(piece)
    return BundleEntry(size=total, sha256=digest.hexdigest())


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
    with tempfile.TemporaryDirectory(prefix="foltr-audit-") as root, path.open("rb") as stream:
        try:
            bundle = _unpack(stream, Path(root))
        except (*_BROKEN, TraceError) as error:
            raise TraceError(f"{path}: damaged, or no bundle: {error}") from error
        yield bundle


def _unpack(stream: IO[bytes], root: Path) -> BundleFolder:
    # The hash and the entries come from one open file: another file at its path has no effect in between.
    whole, problems = copy(stream), []
    with zipfile.ZipFile(stream) as archive:
        infos = _plain_entries(archive.infolist(), whole.size)
        table = json_table(archive.read(infos.pop(NAME)), NAME, TraceError)
        try:
            manifest = BundleManifest.model_validate(table)
        except ValidationError as error:
            raise TraceError(f"{NAME}: {first_problem(error, None)}") from error
        for name in sorted({*manifest.files, *infos}):
            if name not in infos:
                problems.append(f"{name}: missing")
            elif name not in manifest.files:
                problems.append(f"{name}: not in {NAME}")
            elif not manifest.may_hold(name):
                problems.append(f"{name}: not a file of this kind of bundle: a {manifest.kind}")
            else:
                with archive.open(infos[name]) as content:
                    with report_write_errors(root / name):
                        (root / name).parent.mkdir(parents=True, exist_ok=True)
                        file = (root / name).open("xb")
                    with file:
                        if copy(content, file) != manifest.files[name]:
                            problems.append(f"{name}: not the content in {NAME}")
    return BundleFolder(root, whole.sha256, manifest, problems)


def _plain_entries(infos: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """The entries by name, if all are plain, stored files with safe names that fit into the bundle.

    Raises:
        ValueError: an entry is not.
    """
    for info in infos:
        problem = _refusal(info)
        if problem is not None:
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


@cache
def versions() -> dict[str, str]:
    """Versions by name; two machines with the same versions must compute the same bytes.

    `code` is the SHA-256 of our own sources; `plug-ins NAME` is the version of another distribution that
    registers plug-ins. Nothing here names a user or a host.
    """
    from llvmlite.binding import get_host_cpu_name  # kernels are compiled for it

    system = (platform.system(), platform.machine(), *platform.libc_ver())
    owners = {point.dist for group in GROUPS.values() for point in entry_points(group=group) if point.dist}
    return {
        "foltr-audit": version("foltr-audit"),
        "code": _code(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: version(name) for name in ("numpy", "numba", "scipy", "polars")},
        "platform": " ".join(part for part in system if part),
        "processor": str(get_host_cpu_name()),
        **{f"plug-ins {owner.name}": owner.version for owner in owners if owner.name != "foltr-audit"},
    }


def _code() -> str:
    folders, digest = {"": Path(__file__).resolve().parents[2]}, hashlib.sha256()
    for room in _ROOMS:
        spec = find_spec(f"foltr_audit.{room}")
        if spec is not None and spec.origin is not None:
            folders[f"{room}/"] = Path(spec.origin).parent
    files = {
        inside + path.relative_to(folder).as_posix(): path
        for inside, folder in folders.items()
        for path in folder.rglob("*.py")
    }
    for name, path in sorted(files.items()):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
