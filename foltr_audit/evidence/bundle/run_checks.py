"""Checks whether the plan, Specs, results and traces in a bundle of Runs are consistent."""

from __future__ import annotations

from pathlib import Path

from foltr_audit.errors import TraceError
from foltr_audit.evidence.bundle.differences import EXACT, first_lines, table_differences
from foltr_audit.evidence.bundle.integrity import FOREIGN, BundleCheck, error_line
from foltr_audit.evidence.bundle.manifest import BundleManifest
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runs.folder import FRESH, MODEL, RESULTS, TRAINING, RunFolder
from foltr_audit.experiments.runs.reader import read_plan
from foltr_audit.trace import Trace
from foltr_audit.utils.formatting import json_ready
from foltr_audit.utils.reading import file_bytes, json_table
from foltr_audit.utils.reading.arrays import read_array
from foltr_audit.utils.rows import JsonValue


def stored_results(root: Path) -> dict[str, JsonValue] | None:
    """The results of a bundle of Runs; None if it has none."""
    path = root / RESULTS
    return json_table(file_bytes(path, TraceError), RESULTS, TraceError) if path.is_file() else None


def plan_of(root: Path, manifest: BundleManifest) -> Plan:
    """The plan of a bundle of Runs.

    Raises:
        TraceError: it is damaged.
    """
    return Plan((RunFolder(root).spec,)) if manifest.kind == "run" else read_plan(root)


def check_runs(root: Path, manifest: BundleManifest) -> BundleCheck:
    """Check that Runs and results are those of the plan, and that models and traces are complete."""
    plan = plan_of(root, manifest)
    planned = {"" if manifest.kind == "run" else spec.hash[:12] for spec in plan.specs}
    problems = [f"{name or 'the Run'}: not in the plan" for name in sorted(manifest.runs.keys() - planned)]
    if not manifest.partial:
        problems += [f"{name}: missing" for name in sorted(planned - manifest.runs.keys())]
    results = stored_results(root)
    if results is None and not manifest.partial:
        problems.append(f"{RESULTS}: missing")
    if results is not None:
        wanted = json_ready(plan.public.table())
        problems += first_lines(table_differences(results["config"], wanted, EXACT, f"{RESULTS}: config"))
    traces = 0
    for name in sorted(manifest.runs.keys() & planned):
        folder = RunFolder(root / name)
        try:
            traces += _check_run(folder, manifest)
        except FOREIGN as error:
            problems.append(f"{name}: {error_line(error)}".replace(f"{root}/", ""))
    and_traces = f", {traces} complete traces without their truth" if manifest.trace else ""
    return BundleCheck.of(
        "Runs", problems, f"{len(manifest.runs)} of {len(plan.specs)} Runs of the plan{and_traces}"
    )


def _check_run(folder: RunFolder, manifest: BundleManifest) -> int:
    """Check the model and the traces of a Run, and return the number of traces."""
    if (folder.path / MODEL).is_file():
        read_array(folder.path / MODEL, TraceError)
    elif not manifest.partial:
        raise ValueError(f"{MODEL}: missing")
    problems = folder.problems()
    if problems:
        raise ValueError(problems[0])
    if not manifest.trace:
        return 0
    training, fresh = folder.path / TRAINING, sorted((folder.path / FRESH).glob("*"))
    traces = [place for place in (training, *fresh) if place.is_dir()]
    for place in traces:
        Trace.open(place).check_files()
    if not manifest.partial and training not in traces:
        raise ValueError(f"{TRAINING}: missing")
    return len(traces)
