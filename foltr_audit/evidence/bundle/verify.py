"""Verifies a bundle: its hashes, that its results follow from its cells, and a sample of cells by re-runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.evidence.bundle.comparison_checks import (
    check_cells,
    check_grid,
    check_results,
    finished_specs,
)
from foltr_audit.evidence.bundle.differences import ACROSS_VERSIONS, EXACT, NumericTolerance
from foltr_audit.evidence.bundle.integrity import BundleCheck, check_files, check_specs, run_guarded
from foltr_audit.evidence.bundle.manifest import BundleManifest
from foltr_audit.evidence.bundle.place import DataLocator, DataPlaces, refuse_unused_path
from foltr_audit.evidence.bundle.rerun_cells import CellComparison, CellRerunner
from foltr_audit.evidence.bundle.rerun_runs import RunRerunner
from foltr_audit.evidence.bundle.run_checks import check_runs, plan_of
from foltr_audit.evidence.bundle.unpack import BundleFolder, unpack
from foltr_audit.evidence.bundle.versions import differing, versions
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.runs.folder import MODEL, SPEC
from foltr_audit.rng import Streams
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import SILENT, Progress

SAMPLE = 3
"""Number of cells that are re-run by default."""

SCHEMA = "foltr-audit/verification/1"
_NOT_REQUESTED = ("not requested: --sample 0",)

Verdict = Literal["verified", "does not hold", "incomplete"]


@dataclass(frozen=True, kw_only=True)
class RerunOptions:
    """What to re-run, and how.

    Attributes:
        sample: number of cells or Runs, drawn at random; None for all.
        seed: seed of the draw; whoever packed the bundle must not know it in advance.
        places: where the data are on this machine.
        workers: the processes that re-run the cells of a comparison.
    """

    sample: int | None = SAMPLE
    seed: int
    places: DataPlaces = field(default_factory=DataPlaces)
    workers: Workers = field(default_factory=lambda: Workers(jobs=1))

    def __post_init__(self) -> None:
        if self.sample is not None and self.sample < 0:
            raise UsageError(f"--sample: {self.sample}; expected 0 or more")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed: {self.seed}; expected 0 to 2^63 - 1")

    def draw(self, specs: Sequence[Spec]) -> list[Spec]:
        """The Specs to re-run, in their order."""
        if self.sample is None or self.sample >= len(specs):
            return list(specs)
        which = Streams(self.seed).generator("verify").permutation(len(specs))[: self.sample]
        return [specs[int(number)] for number in sorted(which)]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The outcome of verifying a bundle.

    Attributes:
        path: the file.
        sha256: its hash (hex).
        manifest: its manifest.
        checks: the checks in order.
        rerun: hashes of the Specs that were re-run.
        of: the number of Specs to draw from.
        seed: seed of the draw.
        differs: versions that differ, packed and here, by name.
        tolerance: the tolerance of numbers.
    """

    path: Path
    sha256: str
    manifest: BundleManifest
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
        table: dict[str, object] = {
            "schema": SCHEMA,
            "bundle": str(self.path),
            "sha256": self.sha256,
            **{name: getattr(self.manifest, name) for name in ("kind", "partial", "lists", "trace")},
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


def verify(path: Path, options: RerunOptions, progress: Progress = SILENT) -> Verification:
    """Verify a bundle.

    Raises:
        UsageError: the file does not exist, or the path of data is not needed.
        TraceError: it is not a bundle, or is damaged.
    """
    with unpack(path) as bundle:
        return _BundleVerifier(bundle, options, progress).verification(path)


class _BundleVerifier:
    def __init__(self, bundle: BundleFolder, options: RerunOptions, progress: Progress) -> None:
        self.bundle = bundle
        self.manifest = bundle.manifest
        self.options = options
        self.progress = progress
        self.differs = differing(self.manifest.versions, versions())
        self.tolerance = ACROSS_VERSIONS if self.differs else EXACT
        self.specs: list[Spec] = []
        self.drawn: list[Spec] = []

    def verification(self, path: Path) -> Verification:
        checks = tuple(self._checks())  # first: it draws the Specs
        return Verification(
            path=path,
            sha256=self.bundle.sha256,
            manifest=self.manifest,
            checks=checks,
            rerun=tuple(spec.hash for spec in self.drawn),
            of=len(self.specs),
            seed=self.options.seed,
            differs=self.differs,
            tolerance=self.tolerance,
        )

    def _checks(self) -> Iterator[BundleCheck]:
        """The checks in order; if one of the first three fails, the others have no meaning."""
        root, manifest = self.bundle.root, self.manifest
        comparison = manifest.kind == "comparison"
        content = check_cells if comparison else check_runs
        for name, check in (
            ("files", lambda: check_files(self.bundle)),
            ("Specs", lambda: check_specs(self.bundle)),
            ("cells" if comparison else "Runs", lambda: content(root, manifest)),
        ):
            found = run_guarded(name, check)
            yield found
            if found.state != "holds":
                return
        self.specs = finished_specs(root, manifest) if comparison else self._runs()
        refuse_unused_path(self.options.places, self.specs)
        self.drawn = self.options.draw(self.specs)
        yield from self._check_comparison() if comparison else self._check_reruns()

    def _runs(self) -> list[Spec]:
        """The Specs of the plan whose Runs are in the bundle with their model."""
        folders = {digest: name.removesuffix(SPEC) for name, digest in self.manifest.specs.items()}
        return [
            spec
            for spec in plan_of(self.bundle.root, self.manifest).specs
            if spec.hash in folders and f"{folders[spec.hash]}{MODEL}" in self.manifest.files
        ]

    def _check_comparison(self) -> Iterator[BundleCheck]:
        root, lists = self.bundle.root, self.manifest.lists
        if lists:
            yield run_guarded("results", lambda: check_results(root, self.tolerance, self.progress))
        if not self.drawn:
            if not lists:
                yield _without_lists()
            yield BundleCheck("grid", "skipped", _NOT_REQUESTED)
            yield BundleCheck("re-run", "skipped", _NOT_REQUESTED)
            return
        yield run_guarded("grid", self._grid)
        with tempfile.TemporaryDirectory(prefix="foltr-audit-") as name:
            yield run_guarded("re-run", lambda: self._rerun_cells(Path(name)), here=True)
            if not lists:
                yield run_guarded("results", lambda: self._recompute_results(Path(name)))

    def _grid(self) -> BundleCheck:
        runner = DataLocator(self.options.places).runner(self.drawn[0], None, with_undefended=False)
        return check_grid(self.bundle.root, runner, self.tolerance)

    def _rerun_cells(self, into: Path) -> BundleCheck:
        again = CellRerunner(
            self.bundle.root, lists=self.manifest.lists, places=self.options.places, tolerance=self.tolerance
        )
        return self._summarise(again.compare(self.drawn, self.options.workers, into, self.progress))

    def _recompute_results(self, into: Path) -> BundleCheck:
        """Recompute the results from re-run cells, for a bundle without lists."""
        there = ComparisonFolder(into)
        if not all(there.done(spec) for spec in self.specs):
            return _without_lists()
        for name in self.manifest.files:
            if not (into / name).exists():
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                (into / name).write_bytes((self.bundle.root / name).read_bytes())
        return check_results(into, self.tolerance, self.progress)

    def _check_reruns(self) -> Iterator[BundleCheck]:
        if not self.drawn:
            yield BundleCheck("re-run", "skipped", _NOT_REQUESTED)
            yield BundleCheck("results", "skipped", _NOT_REQUESTED)
            return
        root, manifest = self.bundle.root, self.manifest
        again = RunRerunner(root, manifest, self.options.places, self.tolerance)
        with tempfile.TemporaryDirectory(prefix="foltr-audit-") as name:
            into = Path(name)
            yield run_guarded(
                "re-run", lambda: self._summarise(again.compare(self.drawn, into, self.progress)), here=True
            )
            yield run_guarded("results", lambda: again.check_results(plan_of(root, manifest), into))

    def _summarise(self, compared: Sequence[CellComparison]) -> BundleCheck:
        what = "cells" if self.manifest.kind == "comparison" else "Runs"
        problems = [f"{one.spec.hash[:12]}: {line}" for one in compared for line in one.problems]
        missing = [f"{one.spec.hash[:12]}: {one.missing}" for one in compared if one.missing]
        if problems:
            return BundleCheck("re-run", "fails", tuple(problems + missing))
        if missing:
            return BundleCheck("re-run", "not possible", tuple(missing))
        same = sum(one.same_bytes for one in compared)
        near = "" if same == len(compared) else f", the others within {self.tolerance}"
        line = f"{len(compared)} of {len(self.specs)} {what}, {same} the same byte for byte{near}"
        return BundleCheck("re-run", "holds", (line,))


def _without_lists() -> BundleCheck:
    return BundleCheck(
        "results",
        "not possible",
        ("the judged lists are not in the bundle; --all re-runs every cell and recomputes the results",),
    )
