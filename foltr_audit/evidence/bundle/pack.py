"""Packs a comparison or Runs into one file: Specs, results, findings of cells, hashes and versions.

For a comparison that is every cell's facts and arrays, whose judged lists hold the clicks of simulated users.
Whoever has the data can draw these clicks again from the Spec; `without_lists` leaves them out for data that
are not public. A trace is packed without its truth, and only on request.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypedDict, cast

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.evidence.bundle.archive import NAME, BundleManifest, Kind, add, copy
from foltr_audit.evidence.bundle.versions import versions
from foltr_audit.experiments.comparison.cells import ARRAYS, FACTS
from foltr_audit.experiments.comparison.folder import CELLS, GRID, INDEX, ComparisonFolder
from foltr_audit.experiments.runs.folder import (
    FRESH,
    MODEL,
    PLAN,
    RESULTS,
    SPEC,
    RunFolder,
    report_write_errors,
)
from foltr_audit.experiments.runs.reader import RunReader, read_plan
from foltr_audit.recorder import atomic_files
from foltr_audit.recorder.part_files import HEADER, marker_name
from foltr_audit.report.results.train import ROUNDS
from foltr_audit.trace import Trace
from foltr_audit.utils.progress import SILENT, Progress

SCHEMA = "foltr-audit/packed-bundle/1"


class PackedBundle(TypedDict):
    """The facts of a packed bundle, as `packed-bundle-1.json` describes them; `bytes` is its size."""

    schema: str
    bundle: str
    sha256: str
    bytes: int
    files: int
    kind: Kind
    partial: bool
    lists: bool
    trace: bool
    unfinished: list[str]
    versions: dict[str, str]


@dataclass
class BundleContents:
    """What is packed of a folder.

    Attributes:
        root: the folder.
        kind, lists, trace, specs: as in the manifest.
        files: by name a file, or a text without local paths in its place.
        unfinished: what is missing, in words; if anything is, the bundle is partial.
    """

    root: Path
    kind: Kind
    lists: bool = False
    trace: bool = False
    specs: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path | str] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)

    def add(self, *names: str) -> None:
        """Pack the files of these names that are there."""
        self.files |= {name: self.root / name for name in names if (self.root / name).is_file()}

    def add_spec(self, name: str, spec: Spec) -> None:
        """Pack a Spec without local paths; its hash is the same."""
        self.files[name], self.specs[name] = spec.public.toml, spec.hash


def pack(
    folder: Path,
    to: Path,
    *,
    with_trace: bool = False,
    without_lists: bool = False,
    partial: bool = False,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> PackedBundle:
    """Pack a folder of `compare`, `attack`, `audit` or `train`.

    The same folder gives the same bytes.

    Raises:
        UsageError: the folder is missing, or unfinished without `partial`; the path exists or is not a .zip.
        TraceError: the folder is damaged.
        FoltrAuditError: the bundle cannot be written.
    """
    _refuse_place(folder, to, overwrite=overwrite)
    comparison = (folder / INDEX).is_file()
    if comparison and with_trace:
        raise UsageError(
            f"--with-trace: {folder} is a comparison, which stores no traces; record one cell with "
            "attack --config SPEC --out DIR and pack that"
        )
    if without_lists and not comparison:
        raise UsageError(f"--without-lists: {folder} is not a comparison; only their cells hold judged lists")
    contents = (
        _comparison(ComparisonFolder(folder), lists=not without_lists)
        if comparison
        else _runs(folder, with_trace=with_trace)
    )
    if contents.unfinished and not partial:
        raise UsageError(
            f"{folder}: unfinished: {contents.unfinished[0]}; finish it with --resume, "
            "or give --partial to pack the finished part"
        )
    with report_write_errors(to), atomic_files.whole_file(to) as stream:
        manifest = _write(contents, cast("IO[bytes]", stream), progress)
    with to.open("rb") as packed:
        whole = copy(packed)
    return {
        "schema": SCHEMA,
        "bundle": str(to),
        "sha256": whole.sha256,
        "bytes": whole.size,
        "files": len(manifest.files),
        "kind": manifest.kind,
        "partial": manifest.partial,
        "lists": manifest.lists,
        "trace": manifest.trace,
        "unfinished": contents.unfinished,
        "versions": manifest.versions,
    }


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


def _write(contents: BundleContents, stream: IO[bytes], progress: Progress) -> BundleManifest:
    files = {}
    with zipfile.ZipFile(stream, "w") as archive:
        with progress.task("pack", len(contents.files)) as tick:
            for name, source in sorted(contents.files.items()):
                with io.BytesIO(source.encode()) if isinstance(source, str) else source.open("rb") as content:
                    files[name] = add(archive, name, content)
                tick()
        manifest = BundleManifest(
            kind=contents.kind,
            lists=contents.lists,
            trace=contents.trace,
            partial=bool(contents.unfinished),
            versions=dict(versions()),
            specs=contents.specs,
            files=files,
        )
        add(archive, NAME, io.BytesIO(manifest.text.encode()))
    return manifest


def _comparison(folder: ComparisonFolder, *, lists: bool) -> BundleContents:
    contents = BundleContents(folder.path, "comparison", lists=lists)
    contents.files[GRID] = folder.grid.public.toml
    contents.add(INDEX, RESULTS)
    specs = [cell.spec for cell in folder.cells()]
    missing = sum(not folder.done(spec) for spec in specs)
    # The index does not name the cells that were trained to choose a sensitivity.
    finished = [RunFolder(file.parent).spec for file in sorted((folder.path / CELLS).glob(f"*/{FACTS}"))]
    trainings = [spec for spec in finished if spec.attack is None and spec.audit is None]
    for spec in dict.fromkeys([*specs, *trainings]):
        inside = f"{CELLS}/{spec.hash[:12]}"
        contents.add_spec(f"{inside}/{SPEC}", spec)
        if folder.done(spec):
            folder.read(spec)  # refuses a damaged cell
            contents.add(f"{inside}/{FACTS}", *([f"{inside}/{ARRAYS}"] if lists else []))
    if missing:
        contents.unfinished.append(f"{missing} of {len(specs)} cells are missing")
    if RESULTS not in contents.files:
        contents.unfinished.append(f"there is no {RESULTS}")
    return contents


def _runs(path: Path, *, with_trace: bool) -> BundleContents:
    several = (path / PLAN).is_file()
    contents = BundleContents(path, "plan" if several else "run", trace=with_trace)
    folders = [""]
    if several:
        plan = read_plan(path)
        contents.files[PLAN] = plan.public.toml
        folders = [f"{spec.hash[:12]}/" for spec in plan.specs]
    for inside in folders:
        if several and not (path / inside / SPEC).is_file():
            contents.unfinished.append(f"Run {inside.rstrip('/')} is missing")
            continue
        run = RunReader.open(path / inside)
        contents.add_spec(f"{inside}{SPEC}", run.spec)
        contents.add(f"{inside}{MODEL}")
        if not run.finished or f"{inside}{MODEL}" not in contents.files:
            contents.unfinished.append(f"{run.path} has {run.n_rounds} of {run.spec.train.rounds} rounds")
        if with_trace:
            fresh = [Trace.open(file.parent) for file in sorted(run.path.glob(f"{FRESH}/*/{HEADER}"))]
            for trace in [run.trace, *fresh] if run.trace is not None else fresh:
                _add_trace(contents, trace)
    contents.add(RESULTS, ROUNDS)
    if RESULTS not in contents.files:
        contents.unfinished.append(f"there is no {RESULTS}")
    return contents


def _add_trace(contents: BundleContents, trace: Trace) -> None:
    """Add the observed side of a trace; its truth is never packed."""
    trace.check_files()
    inside = trace.folder.relative_to(contents.root).as_posix()
    contents.add(f"{inside}/{HEADER}")
    for part in trace.parts:
        contents.add(f"{inside}/{marker_name(part.index)}")
        contents.add(*(f"{inside}/{part.file_name(table)}" for table in part.observed))
