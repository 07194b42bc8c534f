"""Reads finished Runs, one or several in an `--out` folder."""

from __future__ import annotations

from pathlib import Path

from foltr_audit.core.settings.experiment import Spec, first_difference
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.experiments.plan import Plan, read_tables
from foltr_audit.experiments.runs.folder import PLAN, RECORDS, SPEC, RunFolder
from foltr_audit.experiments.store import StoredRun, read_run
from foltr_audit.utils.reading import file_text


def read_runs(path: Path) -> dict[Path, StoredRun]:
    """The finished Runs of an `--out` folder by their own folder, in the order of its plan."""
    if not (path / PLAN).is_file():
        if (path / "trace.toml").exists() and not (path / SPEC).exists():
            raise UsageError(f"{path}: a trace without its Run; expected a folder that --out made")
        return {path: _finished(path, RunFolder.open(path).spec)}
    runs = {}
    for spec in read_plan(path).specs:
        inner = path / spec.hash[:12]
        if not (inner / SPEC).is_file():
            raise UsageError(
                f"{path}: unfinished, Run {inner.name} of its {PLAN} is missing; end the run with --resume"
            )
        difference = first_difference(RunFolder(inner).spec.public, spec.public)
        if difference is not None:
            raise TraceError(f"{inner / SPEC}: another Spec than in {PLAN}: {difference}")
        runs[inner] = _finished(inner, spec)
    return runs


def _finished(path: Path, spec: Spec) -> StoredRun:
    if not (path / RECORDS).is_file():
        raise UsageError(f"{path}: unfinished; end the run with --resume")
    return read_run(path, spec)


def read_plan(path: Path) -> Plan:
    """The plan of an `--out` folder with several Runs; a `TraceError` if it is damaged."""
    where = str(path / PLAN)
    try:
        return Plan.of(read_tables(file_text(path / PLAN, UsageError), where), where)
    except UsageError as error:
        raise TraceError(f"damaged Run: {error}") from error


def spec_around(path: Path, spec_hash: str) -> Spec | None:
    """The Spec of the Run that a trace lies in; None where it lies elsewhere."""
    for folder in tuple(path.resolve().parents)[:2]:
        if (folder / SPEC).is_file() and (spec := RunFolder(folder).spec).hash == spec_hash:
            return spec
    return None
