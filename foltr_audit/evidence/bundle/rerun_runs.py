"""Re-runs Runs and compares their models, traces and results with the stored ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError, TraceError
from foltr_audit.evidence.bundle.comparison_checks import compare_results
from foltr_audit.evidence.bundle.differences import (
    EXACT,
    NumericTolerance,
    array_differences,
    first_lines,
    table_differences,
)
from foltr_audit.evidence.bundle.integrity import BundleCheck, CheckUnavailableError
from foltr_audit.evidence.bundle.manifest import BundleManifest
from foltr_audit.evidence.bundle.place import DataLocator, DataPlaces
from foltr_audit.evidence.bundle.rerun_cells import CellComparison
from foltr_audit.evidence.bundle.run_checks import stored_results
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import RunResult
from foltr_audit.experiments.runs.folder import MODEL, RESULTS, RunFolder
from foltr_audit.recorder.part_files import HEADER
from foltr_audit.report.results.attack import AttackReport
from foltr_audit.report.results.audit import AuditReport
from foltr_audit.report.results.base import Report
from foltr_audit.report.results.train import ROUNDS, TrainReport
from foltr_audit.trace import Trace, TracePart
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import file_text, toml_table
from foltr_audit.utils.reading.arrays import read_array
from foltr_audit.utils.rows import JsonValue

REPORTS: dict[str, type[AttackReport | AuditReport | TrainReport]] = {
    report.SCHEMA: report for report in (AttackReport, AuditReport, TrainReport)
}
FROM_PRESET = ("published",)
"""Fields of the results that come from a preset, not from a report."""


class RunRerunner:
    """Re-runs some Runs of an unpacked bundle, one after the other.

    Attributes:
        root: the unpacked bundle.
        manifest: its manifest.
        data: finds the data.
        tolerance: the tolerance of numbers.
        results: the Runs that were re-run so far.
    """

    def __init__(
        self, root: Path, manifest: BundleManifest, places: DataPlaces, tolerance: NumericTolerance
    ) -> None:
        self.root = root
        self.manifest = manifest
        self.data = DataLocator(places)
        self.tolerance = tolerance
        self.results: dict[Spec, RunResult] = {}
        self._folders = {digest: name for name, digest in manifest.runs.items()}

    def compare(self, specs: Sequence[Spec], into: Path, progress: Progress = SILENT) -> list[CellComparison]:
        """Re-run Runs into folders of `into`, and compare each with its stored form, in order."""
        return [self._rerun(spec, into / spec.hash[:12], progress) for spec in specs]

    def _rerun(self, spec: Spec, into: Path, progress: Progress) -> CellComparison:
        fingerprint = fingerprint_of(stored_results(self.root), spec.data.fold)
        try:
            runner = self.data.runner(spec, fingerprint, progress, with_undefended=True)
        except CheckUnavailableError as error:
            return CellComparison(spec, missing=str(error))
        try:
            self.results[spec] = runner.run(spec, RunFolder.create(into, spec))
        except FoltrAuditError as error:
            return CellComparison(spec, problems=(f"cannot be run: {error}",))
        return self._compare(spec, into)

    def _compare(self, spec: Spec, again: Path) -> CellComparison:
        inside = self._folders[spec.hash]
        here = self.root / inside if inside else self.root
        names = [name.removeprefix(f"{inside}/") for name in self._names(inside)]
        missing = [name for name in names if not (again / name).is_file()]
        other = [
            name
            for name in names
            if name not in missing and (here / name).read_bytes() != (again / name).read_bytes()
        ]
        if not missing and not other:
            return CellComparison(spec, same_bytes=True)
        problems = [f"{name}: missing in the re-run" for name in missing]
        if self.tolerance == EXACT:
            problems += [f"{name}: other bytes{_first_number(here, again, name)}" for name in other]
        else:
            problems += list(_differences(here, again, other, self.tolerance))
        return CellComparison(spec, problems=tuple(first_lines(iter(problems))))

    def _names(self, inside: str) -> list[str]:
        """The files of one Run, without the results in the folder of a single Run."""
        if inside:
            return [name for name in self.manifest.files if name.startswith(f"{inside}/")]
        return [name for name in self.manifest.files if name not in (RESULTS, ROUNDS)]

    def check_results(self, plan: Plan, into: Path) -> BundleCheck:
        """Check that the results are those of the re-run Runs.

        Raises:
            CheckUnavailableError: some Runs of the plan were not re-run, or there are no results.
        """
        stored = stored_results(self.root)
        if stored is None:
            raise CheckUnavailableError(
                "there are no results: the Runs were packed before they were finished"
            )
        if any(spec not in self.results for spec in plan.specs):
            raise CheckUnavailableError(
                f"the results are of {len(plan.specs)} Runs, and {len(self.results)} were re-run; give --all"
            )
        report = REPORTS[str(stored["schema"])].of(plan, [self.results[spec] for spec in plan.specs])
        check = compare_results(
            self.root, report.json(), "what the re-run Runs give", self.tolerance, extra=FROM_PRESET
        )
        problems = list(self._rounds_problems(report, into))
        return BundleCheck("results", "fails", (*check.found, *problems)) if problems else check

    def _rounds_problems(self, report: Report, into: Path) -> Iterator[str]:
        if ROUNDS not in self.manifest.files or not isinstance(report, TrainReport):
            return
        report.save_rounds(into)
        stored, found = (root / ROUNDS for root in (self.root, into))
        if stored.read_bytes() != found.read_bytes():
            yield from _frame_differences(stored, found, ROUNDS, self.tolerance)


def fingerprint_of(results: Mapping[str, JsonValue] | None, fold: int) -> str | None:
    """The fingerprint of a fold in the results; None if they do not name it."""
    folds = (
        [] if results is None else cast("dict[str, list[dict[str, JsonValue]]]", results["dataset"])["folds"]
    )
    return next((str(row["fingerprint"]) for row in folds if row["fold"] == fold), None)


def _first_number(here: Path, again: Path, name: str) -> str:
    """The first difference of the models."""
    if name != MODEL:
        return ""
    return "".join(f": {line}" for line in _vector_differences(here, again, EXACT))


def _vector_differences(here: Path, again: Path, tolerance: NumericTolerance) -> Iterator[str]:
    stored, found = ({"model": read_array(root / MODEL, TraceError)} for root in (here, again))
    yield from array_differences(stored, found, tolerance)


def _differences(here: Path, again: Path, names: Sequence[str], tolerance: NumericTolerance) -> Iterator[str]:
    """The differences in files whose bytes differ."""
    traces = {name.removesuffix(f"/{HEADER}") for name in names if name.endswith(f"/{HEADER}")}
    traces |= {name.rpartition("/")[0] for name in names if "/part-" in name}
    traces |= {name.rpartition("/observed/")[0] for name in names if "/observed/" in name}
    if MODEL in names:
        yield from (f"{MODEL}: {line}" for line in _vector_differences(here, again, tolerance))
    for name in sorted(traces):
        yield from _trace_differences(here / name, again / name, name, tolerance)


def _trace_differences(here: Path, again: Path, name: str, tolerance: NumericTolerance) -> Iterator[str]:
    earlier, later = (
        toml_table(file_text(root / HEADER, TraceError), HEADER, TraceError) for root in (here, again)
    )
    yield from table_differences(earlier, later, tolerance, f"{name}/{HEADER}")
    stored, found = Trace.open(here), Trace.open(again)
    if [part.n_rounds for part in stored.parts] != [part.n_rounds for part in found.parts]:
        yield f"{name}: {stored.n_rounds} rounds, found {found.n_rounds}, or in other parts"
        return
    for part, other in zip(stored.parts, found.parts, strict=True):
        where = f"{name}, part {part.index}"
        before, after = (_columns(trace, one) for trace, one in ((stored, part), (found, other)))
        yield from (f"{where}: {line}" for line in array_differences(before, after, tolerance))


def _columns(trace: Trace, part: TracePart) -> dict[str, NDArray[np.generic]]:
    """Every observed column of a part, by its table and name."""
    return {
        f"{table}/{name}": values
        for table, columns in trace.whole_columns(part, part.observed).items()
        for name, values in columns.items()
    }


def _frame_differences(stored: Path, found: Path, name: str, tolerance: NumericTolerance) -> Iterator[str]:
    import polars as pl
    from polars.exceptions import PanicException, PolarsError
    from polars.testing import assert_frame_equal

    expected = pl.read_parquet(found)
    try:
        if pl.read_parquet_schema(stored) != expected.schema:
            yield f"{name}: other columns or types"
            return
        # A few bytes of Parquet may unpack to any number of rows: one too many is enough to differ.
        frame = pl.read_parquet(stored, n_rows=expected.height + 1)
    # A panic of the Rust code inside Polars is a BaseException: it must be named to be caught.
    except (PolarsError, PanicException, OSError) as error:
        raise TraceError(f"{name}: damaged: {' '.join(str(error).split())[:120]}") from None
    try:
        assert_frame_equal(
            frame,
            expected,
            check_exact=tolerance == EXACT,
            rel_tol=tolerance.relative,
            abs_tol=tolerance.absolute,
        )
    except AssertionError as error:
        yield f"{name}: {' '.join(str(error).split())[:200]}"
