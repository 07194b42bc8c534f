"""Packs a comparison or Runs into one file: Specs, results, findings of cells, hashes and versions.

For a comparison that is every cell's facts and arrays, whose judged lists hold the clicks of simulated users.
Whoever has the data can draw these clicks again from the Spec; `without_lists` leaves them out for data that
are not public. A trace is packed without its truth, and only on request.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from foltr_audit.errors import UsageError
from foltr_audit.evidence.bundle.archive import NAME, BundleManifest, ManifestFacts, copy, entry, versions
from foltr_audit.experiments.comparison.cell_arrays import ARRAYS
from foltr_audit.experiments.comparison.facts import FACTS
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
from foltr_audit.report.results.compare import known_failures
from foltr_audit.report.results.train import ROUNDS
from foltr_audit.trace import Trace
from foltr_audit.utils.progress import SILENT, Progress

Sources = dict[str, str | None]
"""By name the files to pack; with a text without local paths to pack in place of some."""


class PackedBundle(ManifestFacts):
    """The facts of a packed bundle, as `packed-bundle-1.json` describes them; `bytes` is its size."""

    schema: str
    bundle: str
    sha256: str
    bytes: int
    files: int
    unfinished: list[str]
    versions: dict[str, str]


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
    several, lists = (folder / PLAN).is_file(), comparison and not without_lists
    sources: Sources = {RESULTS: None}
    unfinished = list(
        _add_comparison(sources, ComparisonFolder(folder), lists=lists)
        if comparison
        else _add_runs(sources, folder, several=several, with_trace=with_trace)
    )
    if not (folder / RESULTS).is_file():
        unfinished.append(f"there is no {RESULTS}")
    if unfinished and not partial:
        raise UsageError(
            f"{folder}: unfinished: {unfinished[0]}; finish it with --resume, "
            "or give --partial to pack the finished part"
        )
    manifest = BundleManifest(
        kind="comparison" if comparison else "plan" if several else "run",
        lists=lists,
        trace=with_trace,
        partial=bool(unfinished),
        versions=versions(),
        specs={},
        files={},
    )
    with report_write_errors(to), atomic_files.whole_file(to) as stream:
        _write(cast("IO[bytes]", stream), folder, sources, manifest, progress)
    with to.open("rb") as packed:
        whole = copy(packed)
    return {
        "schema": "foltr-audit/packed-bundle/1",
        "bundle": str(to),
        "sha256": whole.sha256,
        "bytes": whole.size,
        "files": len(manifest.files),
        **manifest.facts,
        "unfinished": unfinished,
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


def _write(
    stream: IO[bytes], folder: Path, sources: Sources, manifest: BundleManifest, progress: Progress
) -> None:
    """Write the sources that exist, note their hashes in the manifest, and write that."""
    names = sorted(name for name, text in sources.items() if text is not None or (folder / name).is_file())
    with zipfile.ZipFile(stream, "w") as archive, progress.task("pack", len(names)) as tick:
        for name in names:
            text = sources[name]
            content = (folder / name).open("rb") if text is None else io.BytesIO(text.encode())
            with content, archive.open(entry(name), "w", force_zip64=True) as into:
                manifest.files[name] = copy(content, into)
            if name.rpartition("/")[2] == SPEC:  # a Spec without local paths has its hash
                manifest.specs[name] = manifest.files[name].sha256
            tick()
        archive.writestr(entry(NAME), manifest.text)


def _add_comparison(sources: Sources, folder: ComparisonFolder, *, lists: bool) -> Iterator[str]:
    """Add the files of a comparison, and name in words what is missing."""
    sources |= {GRID: folder.grid.public.toml, INDEX: None}
    specs = [cell.spec for cell in folder.cells()]
    # The index does not name the cells that were trained to choose a sensitivity.
    finished = [RunFolder(file.parent).spec for file in sorted((folder.path / CELLS).glob(f"*/{FACTS}"))]
    trainings = [spec for spec in finished if spec.attack is None and spec.audit is None]
    for spec in dict.fromkeys([*specs, *trainings]):
        inside = f"{CELLS}/{spec.hash[:12]}"
        sources[f"{inside}/{SPEC}"] = spec.public.toml
        if folder.done(spec):
            folder.read(spec)  # refuses a damaged cell
            sources |= {f"{inside}/{FACTS}": None} | ({f"{inside}/{ARRAYS}": None} if lists else {})
    missing = sum(not folder.done(spec) for spec in specs) - len(known_failures(folder))
    if missing:
        yield f"{missing} of {len(specs)} cells are missing"


def _add_runs(sources: Sources, path: Path, *, several: bool, with_trace: bool) -> Iterator[str]:
    """Add the files of Runs, and name in words what is missing."""
    sources[ROUNDS] = None
    folders = [""]
    if several:
        plan = read_plan(path)
        sources[PLAN] = plan.public.toml
        folders = [f"{spec.hash[:12]}/" for spec in plan.specs]
    for inside in folders:
        if several and not (path / inside / SPEC).is_file():
            yield f"Run {inside.rstrip('/')} is missing"
            continue
        run = RunReader.open(path / inside)
        sources |= {f"{inside}{SPEC}": run.spec.public.toml, f"{inside}{MODEL}": None}
        if not run.finished or not (run.path / MODEL).is_file():
            yield f"{run.path} has {run.n_rounds} of {run.spec.train.rounds} rounds"
        if with_trace:
            fresh = [Trace.open(file.parent) for file in sorted(run.path.glob(f"{FRESH}/*/{HEADER}"))]
            for trace in [run.trace, *fresh] if run.trace is not None else fresh:
                sources |= dict.fromkeys(_observed_files(trace, path))


def _observed_files(trace: Trace, root: Path) -> Iterator[str]:
    """The names of the files of a trace without its truth, which is never packed."""
    trace.check_files()
    inside = trace.folder.relative_to(root).as_posix()
    yield f"{inside}/{HEADER}"
    for part in trace.parts:
        yield f"{inside}/{marker_name(part.index)}"
        yield from (f"{inside}/{part.file_name(table)}" for table in part.observed)
