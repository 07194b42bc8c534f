"""Verifies a bundle: its hashes, that its results follow from its cells, and a sample of cells anew."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from foltr_audit.core.spec.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.evidence.bundle.comparison_checks import (
    check_cells,
    check_grid,
    check_results,
    finished_specs,
)
from foltr_audit.evidence.bundle.differences import ACROSS_VERSIONS, EXACT, NumericTolerance
from foltr_audit.evidence.bundle.integrity import BundleCheck, check_files, check_specs, guarded
from foltr_audit.evidence.bundle.place import DataLocator, refuse_vain_place
from foltr_audit.evidence.bundle.rerun_cells import CellComparison, CellRerunner
from foltr_audit.evidence.bundle.rerun_runs import RunRerunner
from foltr_audit.evidence.bundle.run_checks import check_runs, plan_of
from foltr_audit.evidence.bundle.unpack import BundleFolder, unpacked
from foltr_audit.evidence.bundle.versions import differing, versions
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.runs.folder import MODEL, SPEC
from foltr_audit.rng import Streams
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import SILENT, Progress

SAMPLE = 3
"""Cells that are re-run where nothing else is said."""

SCHEMA = "foltr-audit/verification/1"
_NOT_ASKED = ("not asked for: --sample 0",)

Verdict = Literal["verified", "does not hold", "incomplete"]


@dataclass(frozen=True, kw_only=True)
class RerunOptions:
    """What to re-run, and how.

    Attributes:
        sample: how many cells or Runs, drawn at random; None for all.
        seed: which ones; whoever packed the bundle must not know it beforehand.
        data: another place of the data.
        workers: who re-runs the cells of a comparison.
    """

    sample: int | None = SAMPLE
    seed: int
    data: str | None = None
    workers: Workers = field(default_factory=lambda: Workers(jobs=1))

    def __post_init__(self) -> None:
        if self.sample is not None and self.sample < 0:
            raise UsageError(f"--sample: {self.sample}; expected 0 or more")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed: {self.seed}; expected 0 to 2^63 - 1")

    def drawn(self, specs: Sequence[Spec]) -> list[Spec]:
        """The Specs to re-run, in their order."""
        if self.sample is None or self.sample >= len(specs):
            return list(specs)
        which = Streams(self.seed).generator("verify").permutation(len(specs))[: self.sample]
        return [specs[int(number)] for number in sorted(which)]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What came of verifying a bundle.

    Attributes:
        path: the file.
        sha256: of the file (hex).
        kind, partial, lists, trace: as in its manifest.
        checks: what was checked.
        rerun: hashes of the Specs that were re-run.
        of: how many there were to choose from.
        seed: that chose them.
        differs: versions that differ, packed and here, by name.
        tolerance: within which numbers had to agree.
    """

    path: Path
    sha256: str
    kind: str
    partial: bool
    lists: bool
    trace: bool
    checks: tuple[BundleCheck, ...]
    rerun: tuple[str, ...]
    of: int
    seed: int
    differs: dict[str, tuple[str | None, str | None]]
    tolerance: NumericTolerance

    @property
    def verdict(self) -> Verdict:
        """`does not hold` if any check fails; `incomplete` if one was not possible."""
        states = {check.state for check in self.checks}
        if "fails" in states:
            return "does not hold"
        return "incomplete" if "not possible" in states else "verified"

    def json(self) -> str:
        """As one JSON object."""
        table: dict[str, Any] = {
            "schema": SCHEMA,
            "bundle": str(self.path),
            "sha256": self.sha256,
            "kind": self.kind,
            "partial": self.partial,
            "lists": self.lists,
            "trace": self.trace,
            "verdict": self.verdict,
            "checks": [
                {"check": check.name, "state": check.state, "found": list(check.found)}
                for check in self.checks
            ],
            "rerun": list(self.rerun),
            "of": self.of,
            "seed": self.seed,
            "versions_differ": {
                name: {"packed": there, "here": here} for name, (there, here) in self.differs.items()
            },
            "tolerance": self.tolerance._asdict(),
        }
        return json_text(table)


def verify(path: Path, asked: RerunOptions, progress: Progress = SILENT) -> Verification:
    """Check a bundle.

    Raises:
        UsageError: no such file, or a place of data that it does not need.
        TraceError: no bundle, or a damaged one.
    """
    with unpacked(path) as bundle:
        return _BundleVerifier(bundle, asked, progress).verification(path)


class _BundleVerifier:
    def __init__(self, bundle: BundleFolder, asked: RerunOptions, progress: Progress) -> None:
        self.bundle = bundle
        self.asked = asked
        self.progress = progress
        self.differs = differing(bundle.manifest.versions, versions())
        self.tolerance = ACROSS_VERSIONS if self.differs else EXACT
        self.specs: list[Spec] = []
        self.drawn: list[Spec] = []

    def verification(self, path: Path) -> Verification:
        manifest = self.bundle.manifest
        checks = tuple(self._checks())
        return Verification(
            path=path,
            sha256=self.bundle.sha256,
            kind=manifest.kind,
            partial=manifest.partial,
            lists=manifest.lists,
            trace=manifest.trace,
            checks=checks,
            rerun=tuple(spec.hash for spec in self.drawn),
            of=len(self.specs),
            seed=self.asked.seed,
            differs=self.differs,
            tolerance=self.tolerance,
        )

    def _checks(self) -> Iterator[BundleCheck]:
        """One check after the other; after a failure of the first three nothing else has a meaning."""
        root, manifest = self.bundle.root, self.bundle.manifest
        comparison = manifest.kind == "comparison"
        content = check_cells if comparison else check_runs
        for name, check in (
            ("files", lambda: check_files(self.bundle)),
            ("Specs", lambda: check_specs(self.bundle)),
            ("cells" if comparison else "Runs", lambda: content(root, manifest)),
        ):
            found = guarded(name, check)
            yield found
            if found.state != "holds":
                return
        self.specs = finished_specs(root, manifest) if comparison else self._runs()
        refuse_vain_place(self.asked.data, self.specs)
        self.drawn = self.asked.drawn(self.specs)
        yield from self._comparison() if comparison else self._again()

    def _runs(self) -> list[Spec]:
        manifest = self.bundle.manifest
        there = set(manifest.specs.values())
        specs = [spec for spec in plan_of(self.bundle.root, manifest).specs if spec.hash in there]
        return [spec for spec in specs if self._has_model(spec)]

    def _has_model(self, spec: Spec) -> bool:
        name = next(name for name, digest in self.bundle.manifest.specs.items() if digest == spec.hash)
        return f"{name.removesuffix(SPEC)}{MODEL}" in self.bundle.manifest.files

    # --- a comparison -----------------------------------------------------------------------------

    def _comparison(self) -> Iterator[BundleCheck]:
        root, manifest = self.bundle.root, self.bundle.manifest
        if manifest.lists:
            yield guarded("results", lambda: check_results(root, self.tolerance, self.progress))
        if not self.drawn:
            if not manifest.lists:
                yield _without_lists()
            yield BundleCheck("grid", "skipped", _NOT_ASKED)
            yield BundleCheck("re-run", "skipped", _NOT_ASKED)
            return
        yield guarded("grid", self._grid)
        with tempfile.TemporaryDirectory(prefix="foltr-audit-") as name:
            yield guarded("re-run", lambda: self._cells_again(Path(name)), here=True)
            if not manifest.lists:
                yield guarded("results", lambda: self._results_again(Path(name)))

    def _grid(self) -> BundleCheck:
        study = DataLocator(self.asked.data).study(self.drawn[0], None, with_undefended=False)
        return check_grid(self.bundle.root, study, self.tolerance)

    def _cells_again(self, into: Path) -> BundleCheck:
        again = CellRerunner(
            self.bundle.root,
            lists=self.bundle.manifest.lists,
            data=self.asked.data,
            tolerance=self.tolerance,
        )
        return self._reran(again.compared(self.drawn, self.asked.workers, into, self.progress))

    def _results_again(self, into: Path) -> BundleCheck:
        """The results out of re-run cells, for a bundle that holds no lists."""
        there = ComparisonFolder(into)
        if not all(there.done(spec) for spec in self.specs):
            return _without_lists()
        for name in self.bundle.manifest.files:
            if not (into / name).exists():
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                (into / name).write_bytes((self.bundle.root / name).read_bytes())
        return check_results(into, self.tolerance, self.progress)

    # --- Runs -------------------------------------------------------------------------------------

    def _again(self) -> Iterator[BundleCheck]:
        if not self.drawn:
            yield BundleCheck("re-run", "skipped", _NOT_ASKED)
            yield BundleCheck("results", "skipped", _NOT_ASKED)
            return
        root, manifest = self.bundle.root, self.bundle.manifest
        again = RunRerunner(root, manifest, self.asked.data, self.tolerance)
        with tempfile.TemporaryDirectory(prefix="foltr-audit-") as name:
            into = Path(name)
            yield guarded("re-run", lambda: self._runs_again(again, into), here=True)
            yield guarded("results", lambda: again.check_results(plan_of(root, manifest), into))

    def _runs_again(self, again: RunRerunner, into: Path) -> BundleCheck:
        return self._reran(again.compared(self.drawn, into, self.progress))

    # --- both -------------------------------------------------------------------------------------

    def _reran(self, compared: Sequence[CellComparison]) -> BundleCheck:
        what = "cells" if self.bundle.manifest.kind == "comparison" else "Runs"
        problems = [f"{one.spec.hash[:12]}: {line}" for one in compared for line in one.problems]
        missing = [f"{one.spec.hash[:12]}: {one.missing}" for one in compared if one.missing]
        if problems:
            return BundleCheck("re-run", "fails", tuple(problems + missing))
        if missing:
            return BundleCheck("re-run", "not possible", tuple(missing))
        same = sum(one.same_bytes for one in compared)
        near = "" if same == len(compared) else f", the others within {self.tolerance}"
        told = f"{len(compared)} of {len(self.specs)} {what}, {same} the same byte for byte{near}"
        return BundleCheck("re-run", "holds", (told,))


def _without_lists() -> BundleCheck:
    return BundleCheck(
        "results",
        "not possible",
        ("the judged lists are not in the bundle; --all re-runs every cell and recomputes the results",),
    )
