"""Selects the files of a comparison or of Runs that go into a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.evidence.bundle.manifest import Kind
from foltr_audit.experiments.comparison.cell_arrays import ARRAYS
from foltr_audit.experiments.comparison.expansion import CellPlan
from foltr_audit.experiments.comparison.facts import FACTS, read_facts
from foltr_audit.experiments.comparison.folder import CELLS, GRID, INDEX, ComparisonFolder
from foltr_audit.experiments.runs.folder import FRESH, MODEL, PLAN, RESULTS, SPEC, TRAINING, RunFolder
from foltr_audit.experiments.runs.reader import RunReader, read_plan
from foltr_audit.recorder.part_files import HEADER, marker_name
from foltr_audit.report.results.train import ROUNDS
from foltr_audit.trace import Trace
from foltr_audit.utils.reading import file_bytes, json_table
from foltr_audit.utils.rows import JsonValue

CellName = tuple[object, ...]
"""The name of a cell in the results of a comparison: chain, learner, click model and repetition."""

_FAILED = ("defense", "learner", "click_model", "run")


@dataclass(frozen=True)
class BundleSource:
    """A file to pack.

    Attributes:
        path: its place on disk.
        sha256: the hash that its content must have, if another file names it.
        text: what is packed instead of its content: the same without local paths.
    """

    path: Path
    sha256: str | None = None
    text: str | None = None


@dataclass
class BundleContents:
    """The contents of a bundle.

    Attributes:
        kind: the kind of the folder.
        lists, trace: as in the manifest.
        files: the files by their name in the bundle.
        specs: the hash of each Spec by the name of its file.
        unfinished: what is missing, in words; if anything is, the bundle is partial.
    """

    kind: Kind
    lists: bool = False
    trace: bool = False
    files: dict[str, BundleSource] = field(default_factory=dict)
    specs: dict[str, str] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)

    def add(self, root: Path, *names: str) -> None:
        """Pack files of a folder under their own names."""
        self.files |= {name: BundleSource(root / name) for name in names}

    def add_spec(self, root: Path, inside: str, spec: Spec) -> None:
        """Pack a Spec without local paths; its hash is the same."""
        self.files[f"{inside}{SPEC}"] = BundleSource(root / SPEC, text=spec.public.toml)
        self.specs[f"{inside}{SPEC}"] = spec.hash

    def add_if_there(self, root: Path, *names: str) -> None:
        """Pack the files that exist."""
        self.add(root, *(name for name in names if (root / name).is_file()))


def contents_of(path: Path, *, with_trace: bool, without_lists: bool) -> BundleContents:
    """The files of a folder that are packed.

    Raises:
        UsageError: the folder does not exist, is neither a comparison nor Runs, or does not fit the options.
        TraceError: it is damaged.
    """
    if (path / INDEX).is_file():
        if with_trace:
            raise UsageError(
                f"--with-trace: {path} is a comparison, which stores no traces; record one cell with "
                "attack --config SPEC --out DIR and pack that"
            )
        return _of_comparison(ComparisonFolder.open(path), lists=not without_lists)
    if without_lists:
        raise UsageError(
            f"--without-lists: {path} is not a comparison; only cells of comparisons hold judged lists"
        )
    return _of_runs(path, with_trace=with_trace)


def _of_comparison(folder: ComparisonFolder, *, lists: bool) -> BundleContents:
    found = BundleContents("comparison", lists=lists)
    found.files[GRID] = BundleSource(folder.path / GRID, text=folder.grid.public.toml)
    found.add(folder.path, INDEX)
    found.add_if_there(folder.path, RESULTS)
    cells = folder.cells()
    missing = missing_cells(folder)
    for spec in dict.fromkeys([cell.spec for cell in cells] + list(_trainings(folder))):
        _add_cell(found, folder, spec)
    known = {name for name, _ in failures(folder.path)}
    unexplained = [cell for cell in missing if failed_key(cell.spec) not in known]
    if unexplained:
        found.unfinished.append(f"{len(unexplained)} of {len(cells)} cells are missing")
    if not (folder.path / RESULTS).is_file():
        found.unfinished.append(f"there is no {RESULTS}")
    elif unexplained:
        del found.files[RESULTS]  # they are of an earlier, smaller grid
    return found


def _add_cell(found: BundleContents, folder: ComparisonFolder, spec: Spec) -> None:
    root, inside = folder.cell(spec), f"{CELLS}/{spec.hash[:12]}"
    found.add_spec(root, f"{inside}/", spec)
    if not folder.done(spec):
        return
    found.add(folder.path, f"{inside}/{FACTS}")
    if found.lists:
        found.files[f"{inside}/{ARRAYS}"] = BundleSource(root / ARRAYS, read_facts(root, spec).arrays_sha256)


def _trainings(folder: ComparisonFolder) -> Iterator[Spec]:
    """Finished cells that were trained to choose a sensitivity; the index does not name them."""
    for path in sorted((folder.path / CELLS).glob(f"*/{FACTS}")):
        spec = RunFolder(path.parent).spec
        if spec.attack is None and spec.audit is None:
            yield spec


def failures(path: Path) -> list[tuple[CellName, str]]:
    """The cells that failed to run, by `failed_key`, and why, from the results of a comparison.

    Raises:
        TraceError: the results are damaged.
    """
    file = path / RESULTS
    if not file.is_file():
        return []
    table = json_table(file_bytes(file, TraceError), str(file), TraceError)
    rows = cast("list[dict[str, JsonValue]] | None", table.get("failed"))
    try:
        return [(tuple(row[name] for name in _FAILED), str(row["why"])) for row in rows or ()]
    except (KeyError, TypeError) as error:
        raise TraceError(f"{file}: damaged: failed: expected rows with {', '.join(_FAILED)}, why") from error


def failed_key(spec: Spec) -> CellName:
    """The name of a cell in the `failed` rows of a comparison's results."""
    return "+".join(spec.defense), spec.train.learner, spec.train.click_model, spec.repetition


def missing_cells(folder: ComparisonFolder) -> list[CellPlan]:
    """The cells of the current grid that are not finished."""
    return [cell for cell in folder.cells() if not folder.done(cell.spec)]


def _of_runs(path: Path, *, with_trace: bool) -> BundleContents:
    several = (path / PLAN).is_file()
    found = BundleContents("plan" if several else "run", trace=with_trace)
    if not several:
        _add_run(found, path, "", RunReader.open(path))
    else:
        plan = read_plan(path)
        found.files[PLAN] = BundleSource(path / PLAN, text=plan.public.toml)
        for spec in plan.specs:
            name = spec.hash[:12]
            if (path / name / SPEC).is_file():
                _add_run(found, path, f"{name}/", RunReader.open(path / name))
            else:
                found.unfinished.append(f"Run {name} is missing")
    found.add_if_there(path, RESULTS, ROUNDS)
    if RESULTS not in found.files:
        found.unfinished.append(f"there is no {RESULTS}")
    return found


def _add_run(found: BundleContents, root: Path, inside: str, run: RunReader) -> None:
    found.add_spec(run.path, inside, run.spec)
    found.add_if_there(root, f"{inside}{MODEL}")
    if not run.finished or f"{inside}{MODEL}" not in found.files:
        found.unfinished.append(f"{run.path} has {run.n_rounds} of {run.spec.train.rounds} rounds")
    if not found.trace:
        return
    if run.trace is not None:
        _add_trace(found, f"{inside}{TRAINING}", run.trace)
    for folder in sorted(entry for entry in (run.path / FRESH).glob("*") if entry.is_dir()):
        _add_trace(found, f"{inside}{FRESH}/{folder.name}", Trace.open(folder))


def _add_trace(found: BundleContents, inside: str, trace: Trace) -> None:
    """Add the observed side of a trace; its truth is never packed."""
    found.files[f"{inside}/{HEADER}"] = BundleSource(trace.folder / HEADER, trace.trace_id)
    for part in trace.parts:
        marker = marker_name(part.index)
        found.files[f"{inside}/{marker}"] = BundleSource(trace.folder / marker)
        for table in part.observed:
            name = part.file_name(table)
            found.files[f"{inside}/{name}"] = BundleSource(trace.folder / name, part.files[table].sha256)
