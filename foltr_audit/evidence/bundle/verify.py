"""Verifies a bundle: its hashes, that its results follow from its cells, and a sample of cells by re-runs."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, cast

import numpy as np

from foltr_audit.core.records import Collection
from foltr_audit.core.settings.data import DataSpec, are_synthetic
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.train import ZEROS
from foltr_audit.data.load import load_collection
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.evidence.bundle.archive import BundleFolder, Kind, unpack
from foltr_audit.evidence.bundle.versions import versions
from foltr_audit.experiments.comparison.cells import ARRAYS, FACTS, Files, read_arrays, read_facts
from foltr_audit.experiments.comparison.folder import CELLS, GRID, INDEX, ComparisonFolder
from foltr_audit.experiments.comparison.runner import run_cell
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Plan, Table
from foltr_audit.experiments.runner import Runner, RunResult
from foltr_audit.experiments.runs.folder import MODEL, RESULTS, SPEC, RunFolder
from foltr_audit.experiments.runs.reader import read_plan
from foltr_audit.report.results.attack import AttackReport
from foltr_audit.report.results.audit import AuditReport
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.train import ROUNDS, TrainReport
from foltr_audit.rng import Streams
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import file_bytes, file_text, json_table
from foltr_audit.utils.reading.arrays import read_array
from foltr_audit.utils.rows import JsonValue

SCHEMA = "foltr-audit/verification/1"
SAMPLE = 3
"""Number of cells that are re-run by default."""
_MOST_SPEC_BYTES = 2**20
_MOST_NAMED = 5
_REPORTS: dict[object, Any] = {kind.SCHEMA: kind for kind in (AttackReport, AuditReport, TrainReport)}
_FROM_PRESET = ("published",)
"""Fields of results that come from a preset, not from a report."""
_FOREIGN = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError),
    FoltrAuditError,
)
"""Errors that arbitrary values in an untrusted file may raise where they are used."""

Outcome = Sequence[str] | FoltrAuditError
"""The differences of a cell or Run, or why it could not be run again."""


State = Literal["holds", "fails", "not possible", "skipped"]


class CheckUnavailableError(FoltrAuditError):
    """A check needs something that this machine does not have."""


class NumericTolerance(NamedTuple):
    """Numbers agree if they differ by at most `absolute` plus `relative` times the stored one."""

    relative: float
    absolute: float


EXACT = NumericTolerance(0.0, 0.0)
ACROSS_VERSIONS = NumericTolerance(1e-6, 1e-9)
"""Where versions or machines differ: sums in another order change the last digits only."""


class BundleCheck(NamedTuple):
    """The outcome of one check and its findings, a line each; `not possible` if something is missing."""

    check: str
    state: State
    found: Sequence[str]

    @classmethod
    def of(cls, name: str, problems: Sequence[str], otherwise: str) -> BundleCheck:
        """A check that fails if there are problems; `otherwise` is its finding if there are none."""
        return cls(name, "fails" if problems else "holds", problems or [otherwise])

    def row(self) -> CheckRow:
        """As a row, without control characters: findings quote untrusted names, and a terminal would obey."""
        lines = ["".join(letter if letter.isprintable() else "?" for letter in line) for line in self.found]
        return {"check": self.check, "state": self.state, "found": lines}


class CheckRow(TypedDict):
    """A check in a verification."""

    check: str
    state: State
    found: list[str]


class Verification(TypedDict):
    """What verifying a bundle found, as `verification-1.json` describes it.

    Of `of` cells or Runs those in `rerun` were drawn with `seed`. A verdict is `does not hold` if any check
    fails, and `incomplete` if one was not possible.
    """

    schema: str
    bundle: str
    sha256: str
    kind: Kind
    partial: bool
    lists: bool
    trace: bool
    verdict: Literal["verified", "does not hold", "incomplete"]
    checks: list[CheckRow]
    rerun: list[str]
    of: int
    seed: int
    versions_differ: dict[str, dict[str, str | None]]
    tolerance: dict[str, float]


class DataPlaces(NamedTuple):
    """Where this machine has the data and their intents; without a path, their name in the working folder."""

    data: str | None = None
    intents: str | None = None

    def refuse_unused(self, specs: Sequence[Spec]) -> None:
        """Refuse a path that no Spec reads.

        Raises:
            UsageError: all data are synthetic, or no intents are read.
        """
        if self.data is not None and all(spec.data.is_synthetic for spec in specs):
            raise UsageError(f"--data: {self.data}: the data of this bundle are synthetic; expected no path")
        if self.intents is not None and all(are_synthetic(one.data.intents or "synthetic") for one in specs):
            raise UsageError(f"--intents: {self.intents}: this bundle reads no intents; expected no path")

    def runner(
        self, spec: Spec, fingerprint: str, progress: Progress = SILENT, *, with_undefended: bool
    ) -> Runner:
        """A runner on the data of a Spec, which must have the fingerprint.

        Raises:
            CheckUnavailableError: the data are not on this machine, or are other data.
        """
        if spec.train.init not in (None, ZEROS):
            _need(str(spec.train.init), "init", "run verify in the folder that holds the first model")
        collection = _load(self, spec.data, spec.seed)
        if collection.fingerprint != fingerprint:
            raise CheckUnavailableError(
                f"{self.data or spec.data.source}: not the data of the bundle: "
                f"fingerprint {collection.fingerprint[:12]}, expected {fingerprint[:12]}"
            )
        return Runner(progress, collection, with_undefended=with_undefended)


@lru_cache(maxsize=1)
def _load(places: DataPlaces, packed: DataSpec, seed: int) -> Collection:
    """The data that a Spec names; the last ones stay in memory, for the next cell of this process."""
    source, intents = packed.source, packed.intents
    if not packed.is_synthetic:
        source = places.data or source
        _need(source, "data", "--data PATH says where the data are")
    if intents is not None and not are_synthetic(intents):
        intents = places.intents or intents
        _need(intents, "intents", "--intents PATH says where the intents are")
    try:
        collection = load_collection(packed.model_copy(update={"source": source, "intents": intents}), seed)
    except (FoltrAuditError, OSError) as error:
        raise CheckUnavailableError(f"the data cannot be read: {error}") from error
    return replace(collection, source=packed.source, intents_from=packed.intents)


def _need(path: str, what: str, advice: str) -> None:
    """Refuse a path that is no folder or plain file: a foreign Spec must not make us read a device."""
    try:
        there = Path(path).is_dir() or Path(path).is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        raise CheckUnavailableError(f"{what} {path!a}: not on this machine; {advice}")


def verify(
    path: Path,
    *,
    sample: int | None = SAMPLE,
    seed: int,
    places: DataPlaces = DataPlaces(),  # noqa: B008 - it is immutable
    workers: Workers | None = None,
    progress: Progress = SILENT,
) -> Verification:
    """Verify a bundle.

    Args:
        path: the bundle.
        sample: number of cells or Runs to re-run, drawn at random; None for all.
        seed: seed of the draw; whoever packed the bundle must not know it in advance.
        places: where the data are on this machine.
        workers: the processes that re-run the cells of a comparison; default: this one.
        progress: shows the re-runs.

    Raises:
        UsageError: the file does not exist, or the path of data is not needed.
        TraceError: it is not a bundle, or is damaged.
    """
    with unpack(path) as bundle, tempfile.TemporaryDirectory(prefix="foltr-audit-") as again:
        verifier = _Verifier(bundle, places, workers or Workers(jobs=1), Path(again), progress)
        checks = [check.row() for check in verifier.checks(sample, seed)]
    states = {check["state"] for check in checks}
    possible: Literal["verified", "incomplete"] = "incomplete" if "not possible" in states else "verified"
    return {
        "schema": SCHEMA,
        "bundle": str(path),
        "sha256": bundle.sha256,
        "kind": bundle.manifest.kind,
        "partial": bundle.manifest.partial,
        "lists": bundle.manifest.lists,
        "trace": bundle.manifest.trace,
        "verdict": "does not hold" if "fails" in states else possible,
        "checks": checks,
        "rerun": [spec.hash for spec in verifier.drawn],
        "of": len(verifier.finished),
        "seed": seed,
        "versions_differ": verifier.differ,
        "tolerance": verifier.tolerance._asdict(),
    }


def draw(specs: Sequence[Spec], sample: int | None, seed: int) -> list[Spec]:
    """The Specs to re-run, in their order."""
    which = Streams(seed).generator("verify").permutation(len(specs))[:sample]
    return [specs[int(number)] for number in sorted(which)]


def _guarded(name: str, check: Callable[[], BundleCheck], *, here: bool = False) -> BundleCheck:
    """Run a check, and turn errors of untrusted values into its outcome.

    With `here`, an error of ours means that this machine cannot do the check, not that the bundle is wrong.
    """
    try:
        with warnings.catch_warnings():
            if not here:
                warnings.simplefilter("ignore")  # caused by values that no cell of ours contains
            return check()
    except _FOREIGN as error:
        own = isinstance(error, FoltrAuditError)
        unavailable = isinstance(error, CheckUnavailableError | MemoryError) or (here and own)
        line = ("" if own else f"{type(error).__name__}: ") + " ".join(str(error).split())[:400]
        return BundleCheck(name, "not possible" if unavailable else "fails", [line])


class _Verifier:
    """Verifies one bundle; of its `finished` Specs those in `drawn` are run again, into `again`."""

    def __init__(
        self, bundle: BundleFolder, places: DataPlaces, workers: Workers, again: Path, progress: Progress
    ) -> None:
        self.bundle, self.root, self.manifest = bundle, bundle.root, bundle.manifest
        self.places, self.workers, self.again, self.progress = places, workers, again, progress
        self.comparison = self.manifest.kind == "comparison"
        self.cells = "cells" if self.comparison else "Runs"
        there, here = self.manifest.versions, versions()
        self.differ = {
            name: {"packed": there.get(name), "here": here.get(name)}
            for name in sorted({*there, *here})
            if there.get(name) != here.get(name)
        }
        self.tolerance = ACROSS_VERSIONS if self.differ else EXACT
        self.specs: dict[str, Spec] = {}  # by the folder in the bundle, with a slash at its end
        self.finished: list[Spec] = []
        self.drawn: list[Spec] = []
        self.runs: dict[Spec, RunResult] = {}

    def checks(self, sample: int | None, seed: int) -> Iterator[BundleCheck]:
        """The checks in order; if one of the first three fails, the others have no meaning."""
        for name, check in (("files", self._files), ("Specs", self._specs), (self.cells, self._cells)):
            outcome = _guarded(name, check)
            yield outcome
            if outcome.state != "holds":
                return
        self.places.refuse_unused(self.finished)
        self.drawn = draw(self.finished, sample, seed)
        if self.drawn:
            yield _guarded("re-run", self._rerun, here=True)
        else:
            yield BundleCheck("re-run", "skipped", ["not requested: --sample 0"])
        if self.comparison or self.drawn:
            yield _guarded("results", self._results)
        else:
            yield BundleCheck("results", "skipped", ["not requested: --sample 0"])

    def _files(self) -> BundleCheck:
        files = self.manifest.files
        size = sum(file.size for file in files.values())
        good = f"{len(files)} files, {size:,} bytes: every SHA-256 is right, no file is missing or extra"
        return BundleCheck.of("files", self.bundle.problems, good)

    def _specs(self) -> BundleCheck:
        """Check that each Spec is canonical, hashes to the name of its folder, and is in the manifest."""
        named = {name for name in self.manifest.files if name.rpartition("/")[2] == SPEC}
        problems = [f"{name}: no Spec of this bundle" for name in sorted(self.manifest.specs.keys() ^ named)]
        for name in sorted(self.manifest.specs.keys() & named):
            text = file_bytes(self.root / name, TraceError, _MOST_SPEC_BYTES)
            place = name.removesuffix(SPEC)
            spec = self.specs[place] = Spec.from_toml(text.decode("utf-8"), name)
            if {spec.hash, hashlib.sha256(text).hexdigest()} != {self.manifest.specs[name]}:
                problems.append(f"{name}: not a canonical Spec with the hash in the manifest")
            elif place and place.split("/")[-2] != spec.hash[:12]:
                problems.append(f"{name}: hashes to {spec.hash[:12]}, not to the name of its folder")
        return BundleCheck.of("Specs", problems, f"{len(named)} Specs, each hashes to its name")

    def _cells(self) -> BundleCheck:
        """Check that every cell or Run that the bundle lists is there, with its own results."""
        folder = ComparisonFolder(self.root)
        if self.comparison:
            wanted = {f"{CELLS}/{cell.spec.hash[:12]}/" for cell in folder.cells()}
            done = {place for place, spec in self.specs.items() if folder.done(spec)}
            for place in done:
                read_facts(self.root / place, self.specs[place])
        else:
            wanted = {self._place(spec) for spec in self._plan().specs}
            done = {place for place in self.specs if f"{place}{MODEL}" in self.manifest.files}
        self.finished = [self.specs[place] for place in sorted(done)]
        problems = [] if self.manifest.partial else [f"{place}: missing" for place in sorted(wanted - done)]
        if not self.comparison:
            problems += [f"{place}: not in the plan" for place in sorted(self.specs.keys() - wanted)]
        return BundleCheck.of(self.cells, problems, f"{len(done)} complete {self.cells} of their Specs")

    def _plan(self) -> Plan:
        return read_plan(self.root) if self.manifest.kind == "plan" else Plan((RunFolder(self.root).spec,))

    def _place(self, spec: Spec) -> str:
        return f"{spec.hash[:12]}/" if self.manifest.kind == "plan" else ""

    def _rerun(self) -> BundleCheck:
        outcomes = self._cells_again() if self.comparison else [self._run_again(spec) for spec in self.drawn]
        lines, states = [], set()
        for spec, outcome in zip(self.drawn, outcomes, strict=True):
            unavailable = isinstance(outcome, CheckUnavailableError)
            state = "not possible" if unavailable else "different" if outcome else "equal"
            states.add(state)
            text = [f"cannot be run: {outcome}"] if isinstance(outcome, FoltrAuditError) else outcome
            lines.append("; ".join([f"{spec.hash[:12]}: {state}", *text]))
        if states == {"equal"}:
            how = "byte for byte" if self.tolerance == EXACT else "within the tolerance"
            equal = f"{len(lines)} of {len(self.finished)} {self.cells} run again, all equal {how}"
            return BundleCheck("re-run", "holds", [*lines, equal])
        return BundleCheck("re-run", "fails" if "different" in states else "not possible", lines)

    def _cells_again(self) -> list[Outcome]:
        stored, again = ComparisonFolder(self.root), ComparisonFolder(self.again)
        names = [FACTS, ARRAYS] if self.manifest.lists else [FACTS]
        tasks = [
            CellTask(number, spec.table(), read_facts(stored.cell(spec), spec).data.fingerprint, self.places)
            for number, spec in enumerate(self.drawn)
        ]
        outcomes: dict[int, Outcome] = {}
        with self.progress.task("re-run", len(tasks)) as tick:
            for number, files in self.workers.results(run_again, tasks):
                spec = self.drawn[number]
                if isinstance(files, FoltrAuditError):
                    outcomes[number] = files
                else:
                    again.write(spec, files)
                    pair = stored.cell(spec), again.cell(spec)
                    outcomes[number] = _file_differences(*pair, names, self.tolerance)
                tick()
        return [outcomes[number] for number in range(len(tasks))]

    def _run_again(self, spec: Spec) -> Outcome:
        place, into = self._place(spec), self.again / spec.hash[:12]
        names = [name.removeprefix(place) for name in self.manifest.files if name.startswith(place)]
        try:
            folds = cast("dict[str, list[dict[str, object]]]", self._stored()["dataset"])["folds"]
            fingerprint = next(str(row["fingerprint"]) for row in folds if row["fold"] == spec.data.fold)
            runner = self.places.runner(spec, fingerprint, self.progress, with_undefended=True)
            self.runs[spec] = runner.run(spec, RunFolder.create(into, spec))
        except FoltrAuditError as error:
            return error
        names = [name for name in names if name not in (RESULTS, ROUNDS)]
        return _file_differences(self.root / place, into, names, self.tolerance)

    def _stored(self) -> dict[str, JsonValue]:
        if RESULTS not in self.manifest.files:
            raise CheckUnavailableError(f"there is no {RESULTS}: the bundle was packed unfinished")
        return json_table(file_bytes(self.root / RESULTS, TraceError), RESULTS, TraceError)

    def _results(self) -> BundleCheck:
        """Check that the results are what the report makes of the cells, or of Runs that were run again."""
        stored = self._stored()
        if self.comparison:
            report = CompareReport.of(self._whole_comparison(), [], self.progress)
        else:
            plan = self._plan()
            if len(self.runs) < len(plan.specs):
                raise CheckUnavailableError(f"not all {len(plan.specs)} Runs were run again; give --all")
            report = _REPORTS[stored["schema"]].of(plan, [self.runs[spec] for spec in plan.specs])
        computed = json.loads(report.json())
        computed |= {name: stored[name] for name in _FROM_PRESET if name in stored}
        problems = _differences(_flat(stored), _flat(computed), self.tolerance)
        exact = self.tolerance == EXACT
        if (
            exact
            and not problems
            and file_text(self.root / RESULTS, TraceError) != json_text(computed) + "\n"
        ):
            problems = ["the same values in other bytes"]
        if exact and ROUNDS in self.manifest.files and isinstance(report, TrainReport):
            report.save_rounds(self.again)
            if (self.again / ROUNDS).read_bytes() != (self.root / ROUNDS).read_bytes():
                problems.append(f"{ROUNDS}: other bytes")
        good = f"{RESULTS} is what the report makes of the {self.cells}"
        return BundleCheck.of("results", _first([f"{RESULTS}: {line}" for line in problems]), good)

    def _whole_comparison(self) -> ComparisonFolder:
        """The comparison with the arrays of its cells: packed, or else run again."""
        packed, again = ComparisonFolder(self.root), ComparisonFolder(self.again)
        folder = packed if self.manifest.lists else again
        missing = sum(not folder.done(cell.spec) for cell in packed.cells())
        if missing:
            advice = "" if self.manifest.lists else ": the judged lists are not in the bundle; give --all"
            raise CheckUnavailableError(f"{missing} cells are missing{advice}")
        for name in (GRID, INDEX, *self.manifest.specs) if not self.manifest.lists else ():
            (self.again / name).write_bytes((self.root / name).read_bytes())
        return folder


class CellTask(NamedTuple):
    """A cell to run again: its number, its Spec as a plain table, the fingerprint and place of its data."""

    number: int
    spec: Table
    fingerprint: str
    places: DataPlaces


def run_again(task: CellTask) -> tuple[int, Files | FoltrAuditError]:
    """Run one cell in a worker process: its number, and its files or why there are none."""
    spec = Spec.parse(task.spec, "")
    try:
        runner = task.places.runner(spec, task.fingerprint, with_undefended=False)
        return task.number, run_cell(spec, runner)
    except CheckUnavailableError as error:
        return task.number, error
    except FoltrAuditError as error:  # of a class that need not travel between processes
        return task.number, FoltrAuditError(str(error))


def _file_differences(
    stored: Path, found: Path, names: Sequence[str], tolerance: NumericTolerance
) -> list[str]:
    """The differences of the files with these names in two folders, one line each."""
    lines = []
    for name in names:
        if not (found / name).is_file():
            lines.append(f"{name}: missing in the re-run")
        elif (stored / name).read_bytes() != (found / name).read_bytes():
            different = _differences(_values(stored / name), _values(found / name), tolerance)
            if not different and tolerance == EXACT:
                different = ["other bytes"]
            lines += [f"{name}: {line}" for line in different]
    return _first(lines)


def _values(path: Path) -> dict[str, object]:
    """The numbers of a cell or a model by name; none of other files: where versions differ, they may too."""
    if path.name == MODEL:
        return {"model": read_array(path, TraceError)}
    if path.name == ARRAYS:
        return dict(read_arrays(path))
    facts = _flat(json.loads(path.read_bytes())) if path.name == FACTS else {}
    return {name: value for name, value in facts.items() if name != "arrays_sha256"}


def _flat(value: object, name: str = "") -> dict[str, object]:
    """Every value inside a JSON value, by its path."""
    if isinstance(value, list) and value:
        inner = {f"{name}[{number}]": one for number, one in enumerate(value)}
    elif isinstance(value, dict) and value:
        inner = {f"{name}.{key}" if name else str(key): one for key, one in value.items()}
    else:
        return {name: value}
    return {path: leaf for key, one in inner.items() for path, leaf in _flat(one, key).items()}


def _differences(
    stored: Mapping[str, object], found: Mapping[str, object], tolerance: NumericTolerance
) -> list[str]:
    """The differences of arrays and plain values with the same names, one line each."""
    lines = [f"{name}: only stored" for name in stored if name not in found]
    lines += [f"{name}: only found" for name in found if name not in stored]
    for name in [name for name in stored if name in found]:
        a, b = np.asarray(stored[name]), np.asarray(found[name])
        kinds = {a.dtype.kind, b.dtype.kind}
        if a.shape != b.shape or (len(kinds) > 1 and not kinds <= set("fiuU")):
            lines.append(f"{name}: {a.dtype} {list(a.shape)}, found {b.dtype} {list(b.shape)}")
            continue
        close = kinds <= set("fiu") and "f" in kinds
        same = np.asarray(np.isclose(b, a, *tolerance, equal_nan=True) if close else a == b)
        if not same.all():
            first = np.unravel_index(int(np.argmin(same)), a.shape)
            many = f"{int((~same).sum())} of {a.size} values differ, the first: " if a.ndim else ""
            lines.append(f"{name}: {many}{a[first].item()!a:.60}, found {b[first].item()!a:.60}")
    return lines


def _first(lines: Sequence[str]) -> list[str]:
    """The first few lines, and the number of the others."""
    more = len(lines) - _MOST_NAMED
    return [*lines[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]
