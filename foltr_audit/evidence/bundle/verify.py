"""Verifies a bundle: its hashes, that its results follow from its cells, and a sample of cells by re-runs."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np

from foltr_audit.core.records import Collection
from foltr_audit.core.settings.data import DataSpec, are_synthetic
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.train import ZEROS
from foltr_audit.data.load import load_collection
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.evidence.bundle.archive import BundleFolder, ManifestFacts, copy, unpack, versions
from foltr_audit.experiments.comparison.cell_arrays import ARRAYS, read_arrays
from foltr_audit.experiments.comparison.facts import FACTS, read_facts
from foltr_audit.experiments.comparison.folder import CELLS, ComparisonFolder
from foltr_audit.experiments.comparison.runner import run_cell
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Plan, Table
from foltr_audit.experiments.runner import Runner, RunResult
from foltr_audit.experiments.runs.folder import MODEL, RESULTS, SPEC, RunFolder
from foltr_audit.experiments.runs.reader import read_plan
from foltr_audit.report.results.attack import AttackReport
from foltr_audit.report.results.audit import AuditReport
from foltr_audit.report.results.compare import CompareReport, known_failures
from foltr_audit.report.results.train import ROUNDS, TrainReport
from foltr_audit.rng import Streams
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import file_bytes, json_table
from foltr_audit.utils.reading.arrays import read_array

SAMPLE = 3
"""Number of cells that are re-run by default."""
_MOST_SPEC_BYTES = 2**20
_ACROSS_VERSIONS = {"relative": 1e-6, "absolute": 1e-9}
"""Numbers differ by that much where versions or machines do: sums in another order change the last digits."""
_REPORTS: dict[object, Any] = {kind.SCHEMA: kind for kind in (AttackReport, AuditReport, TrainReport)}
_FROM_PRESET = ("published",)
"""Fields of results that come from a preset, not from a report."""
_FOREIGN = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError),
    FoltrAuditError,
)
"""Errors that arbitrary values in an untrusted file may raise where they are used."""

State = Literal["holds", "fails", "not possible", "skipped"]
Outcome = tuple[State, Sequence[str]]
"""What came of a check, and its findings, a line each; `not possible` if something is missing."""


class CheckRow(TypedDict):
    """A check in a verification."""

    check: str
    state: State
    found: list[str]


class Verification(ManifestFacts):
    """What verifying a bundle found, as `verification-1.json` describes it.

    Of `of` cells or Runs those in `rerun` were drawn with `seed`. A verdict is `does not hold` if any check
    fails, and `incomplete` if one was not possible.
    """

    schema: str
    bundle: str
    sha256: str
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

    def load(self, spec: Spec, fingerprint: str) -> Collection:
        """The data of a Spec, which must have the fingerprint.

        Raises:
            FoltrAuditError: they are not on this machine, or are other data.
        """
        if spec.train.init not in (None, ZEROS):
            _need(str(spec.train.init), "init", "run verify in the folder that holds the first model")
        collection = _load(self, spec.data, spec.seed)
        if collection.fingerprint != fingerprint:
            raise FoltrAuditError(
                f"{self.data or spec.data.source}: not the data of the bundle: "
                f"fingerprint {collection.fingerprint[:12]}, expected {fingerprint[:12]}"
            )
        return collection


@lru_cache(maxsize=1)
def _load(places: DataPlaces, packed: DataSpec, seed: int) -> Collection:
    """The data that a Spec names; the last ones stay in memory, for the next cell of this process."""
    source, intents = packed.source, packed.intents
    if not packed.is_synthetic:
        source = _need(places.data or source, "data", "--data PATH says where the data are")
    if intents is not None and not are_synthetic(intents):
        intents = _need(places.intents or intents, "intents", "--intents PATH says where the intents are")
    collection = load_collection(packed.model_copy(update={"source": source, "intents": intents}), seed)
    return replace(collection, source=packed.source, intents_from=packed.intents)


def _need(path: str, what: str, advice: str) -> str:
    """The path, if it is a folder or plain file: a foreign Spec must not make us read a device."""
    try:
        if Path(path).is_dir() or Path(path).is_file():
            return path
    except (OSError, ValueError):
        pass
    raise FoltrAuditError(f"{what} {path!a}: not on this machine; {advice}")


class UnfinishedError(FoltrAuditError):
    """The bundle, or its re-run, lacks something that a check needs."""


class RerunTask(NamedTuple):
    """What is run again, as its number among those; a cell if there is no progress to show."""

    number: int
    spec: Table
    fingerprint: str
    places: DataPlaces
    into: Path
    progress: Progress | None


def run_again(task: RerunTask) -> tuple[int, RunResult | str | None]:
    """Run a cell or a Run into a folder; the result of a Run, or why it cannot be run."""
    spec = Spec.parse(task.spec, "")
    try:
        collection = task.places.load(spec, task.fingerprint)
        folder = RunFolder.create(task.into, spec)
        if task.progress is not None:
            return task.number, Runner(task.progress, collection).run(spec, folder)
        for name, content in run_cell(spec, Runner(SILENT, collection, with_undefended=False)).items():
            (task.into / name).write_bytes(content)
    except (FoltrAuditError, OSError) as error:
        return task.number, str(error)
    return task.number, None


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
        checks = list(verifier.checks(sample, seed))
    states = {check["state"] for check in checks}
    possible: Literal["verified", "incomplete"] = "incomplete" if "not possible" in states else "verified"
    return {
        "schema": "foltr-audit/verification/1",
        "bundle": str(path),
        "sha256": bundle.sha256,
        **bundle.manifest.facts,
        "verdict": "does not hold" if "fails" in states else possible,
        "checks": checks,
        "rerun": [spec.hash for spec in verifier.drawn],
        "of": len(verifier.finished),
        "seed": seed,
        "versions_differ": verifier.differ,
        "tolerance": verifier.tolerance,
    }


def draw(specs: Sequence[Spec], sample: int | None, seed: int) -> list[Spec]:
    """The Specs to re-run, in their order."""
    which = Streams(seed).generator("verify").permutation(len(specs))[:sample]
    return [specs[int(number)] for number in sorted(which)]


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
        self.tolerance = _ACROSS_VERSIONS if self.differ else dict.fromkeys(_ACROSS_VERSIONS, 0.0)
        self.specs: dict[str, Spec] = {}  # by the folder in the bundle, with a slash at its end
        self.finished: list[Spec] = []
        self.drawn: list[Spec] = []
        self.runs: dict[Spec, RunResult] = {}

    def checks(self, sample: int | None, seed: int) -> Iterator[CheckRow]:
        """The checks in order; if one of the first three fails, the others have no meaning."""
        for name, check in (("files", self._files), ("Specs", self._specs), (self.cells, self._cells)):
            row = _row(name, check)
            yield row
            if row["state"] != "holds":
                return
        self.places.refuse_unused(self.finished)
        self.drawn = draw(self.finished, sample, seed)
        for name, check in (("re-run", self._rerun), ("results", self._results)):
            if self.drawn or (self.comparison and name == "results"):
                yield _row(name, check)
            else:
                yield {"check": name, "state": "skipped", "found": ["not requested: --sample 0"]}

    def _files(self) -> Outcome:
        files = self.manifest.files
        size = sum(file.size for file in files.values())
        good = f"{len(files)} files, {size:,} bytes: every SHA-256 is right, no file is missing or extra"
        return _outcome(self.bundle.problems, good)

    def _specs(self) -> Outcome:
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
        return _outcome(problems, f"{len(named)} Specs, each hashes to its name")

    def _cells(self) -> Outcome:
        """Check that every cell or Run that the bundle lists is there, with its own results."""
        if self.comparison:
            folder = ComparisonFolder(self.root)
            wanted = {self._place(cell.spec) for cell in folder.cells()}
            wanted -= {self._place(failure.spec) for failure in known_failures(folder)}
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
        return _outcome(problems, f"{len(done)} complete {self.cells} of their Specs")

    def _plan(self) -> Plan:
        return read_plan(self.root) if self.manifest.kind == "plan" else Plan((RunFolder(self.root).spec,))

    def _place(self, spec: Spec) -> str:
        """The folder of a cell or Run in the bundle, and below `again`."""
        if self.manifest.kind == "run":
            return ""
        return f"{CELLS}/{spec.hash[:12]}/" if self.comparison else f"{spec.hash[:12]}/"

    def _rerun(self) -> Outcome:
        into = [self.again / self._place(spec) for spec in self.drawn]
        progress = None if self.comparison else self.progress
        tasks = [
            RerunTask(number, spec.table(), self._fingerprint(spec), self.places, into[number], progress)
            for number, spec in enumerate(self.drawn)
        ]
        results = self.workers.results(run_again, tasks) if self.comparison else map(run_again, tasks)
        lines, states = [""] * len(tasks), set()
        with (self.progress if self.comparison else SILENT).task("re-run", len(tasks)) as tick:
            for number, result in results:
                spec = self.drawn[number]
                if isinstance(result, RunResult):
                    self.runs[spec] = result
                found = [f"cannot be run: {result}"] if isinstance(result, str) else self._differences(spec)
                state = "not possible" if isinstance(result, str) else "different" if found else "equal"
                states.add(state)
                lines[number] = "; ".join([f"{spec.hash[:12]}: {state}", *found])
                tick()
        if states == {"equal"}:
            how = "within the tolerance" if self.differ else "byte for byte"
            equal = f"{len(lines)} of {len(self.finished)} {self.cells} run again, all equal {how}"
            return "holds", [*lines, equal]
        return "fails" if "different" in states else "not possible", lines

    def _fingerprint(self, spec: Spec) -> str:
        """The fingerprint of the data on which a cell or Run was made."""
        if self.comparison:
            return read_facts(self.root / self._place(spec), spec).data.fingerprint
        folds = self._stored()["dataset"]["folds"]
        return next(str(row["fingerprint"]) for row in folds if row["fold"] == spec.data.fold)

    def _differences(self, spec: Spec) -> list[str]:
        """The packed files of a cell or Run that differ from those of its re-run, and where."""
        place = self._place(spec)
        names = [name for name in self.manifest.files if name.startswith(place)]
        lines = [self._difference(name) for name in names if name not in (RESULTS, ROUNDS)]
        if self.comparison and not self.manifest.lists:  # the results need arrays
            shutil.copytree(self.again / place, self.root / place, dirs_exist_ok=True)
        return [line.removeprefix(place) for line in lines if line]

    def _difference(self, name: str) -> str:
        """Where a packed file differs from the one that was made again; empty if they agree."""
        if not (self.again / name).is_file():
            return f"{name}: missing in the re-run"
        with (self.again / name).open("rb") as content:
            if copy(content) == self.manifest.files[name]:
                return ""
        line = _first_difference(_values(self.root / name), _values(self.again / name), self.tolerance)
        return f"{name}: {line or 'other bytes'}" if line or not self.differ else ""

    def _stored(self) -> dict[str, Any]:
        if RESULTS not in self.manifest.files:
            raise UnfinishedError(f"there is no {RESULTS}: the bundle was packed unfinished")
        return json_table(file_bytes(self.root / RESULTS, TraceError), RESULTS, TraceError)

    def _results(self) -> Outcome:
        """Check that the results are what the report makes of the cells, or of Runs that were run again."""
        stored, folder = self._stored(), ComparisonFolder(self.root)
        if self.comparison:
            failures = known_failures(folder)
            specs = {cell.spec for cell in folder.cells()} - {failure.spec for failure in failures}
            missing = sum(not (folder.cell(spec) / ARRAYS).is_file() for spec in specs)
            if missing:
                advice = "" if self.manifest.lists else ": the judged lists are not in the bundle; give --all"
                raise UnfinishedError(f"{missing} cells are missing{advice}")
            report = CompareReport.of(folder, failures, self.progress)
        else:
            plan = self._plan()
            if len(self.runs) < len(plan.specs):
                raise UnfinishedError(f"not all {len(plan.specs)} Runs were run again; give --all")
            report = _REPORTS[stored["schema"]].of(plan, [self.runs[spec] for spec in plan.specs])
        text = report.json({name: stored[name] for name in _FROM_PRESET if name in stored})
        (self.again / RESULTS).write_text(text + "\n", encoding="utf-8")
        problems = [self._difference(RESULTS)]
        if ROUNDS in self.manifest.files and isinstance(report, TrainReport):
            report.save_rounds(self.again)
            problems.append(self._difference(ROUNDS))
        problems = [line for line in problems if line]
        return _outcome(problems, f"{RESULTS} is what the report makes of the {self.cells}")


def _row(name: str, check: Callable[[], Outcome]) -> CheckRow:
    """Run a check, and turn errors of untrusted values into its outcome.

    In a re-run, an error of ours means that this machine cannot do it, not that the bundle is wrong.
    """
    try:
        with warnings.catch_warnings():
            if name != "re-run":
                warnings.simplefilter("ignore")  # caused by values that no cell of ours contains
            state, lines = check()
    except _FOREIGN as error:
        own = isinstance(error, FoltrAuditError)
        here = isinstance(error, UnfinishedError | MemoryError) or (own and name == "re-run")
        state = "not possible" if here else "fails"
        lines = [("" if own else f"{type(error).__name__}: ") + " ".join(str(error).split())[:400]]
    # Lines quote untrusted names, and a terminal would obey control characters in them.
    plain = ["".join(letter if letter.isprintable() else "?" for letter in line) for line in lines]
    return {"check": name, "state": state, "found": plain}


def _outcome(problems: Sequence[str], otherwise: str) -> Outcome:
    """Of a check that fails if there are problems; `otherwise` is its finding if there are none."""
    return ("fails", problems) if problems else ("holds", [otherwise])


def _values(path: Path) -> dict[str, Any]:
    """The numbers of a file by name; none of other files: where versions differ, their bytes may too."""
    if path.name == MODEL:
        return {"parameters": read_array(path, TraceError)}
    if path.name == ARRAYS:
        return dict(read_arrays(path))
    if path.name not in (FACTS, RESULTS):
        return {}
    return json_table(file_bytes(path, TraceError), path.name, TraceError) | {"arrays_sha256": ""}


def _first_difference(stored: Any, found: Any, tolerance: Mapping[str, float], name: str = "") -> str:
    """The first place where two values of JSON, or arrays, differ; empty if they agree."""
    if isinstance(stored, dict) and isinstance(found, dict):
        if odd := stored.keys() ^ found.keys():
            return f"{name}: only in one of them: {', '.join(sorted(odd)):.200}"
        inner = [(f"{name}.{key}".lstrip("."), stored[key], found[key]) for key in stored]
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        inner = [(f"{name}[{number}]", *pair) for number, pair in enumerate(zip(stored, found, strict=True))]
    else:
        a, b = np.asarray(stored), np.asarray(found)
        kinds = {a.dtype.kind, b.dtype.kind}
        close = "f" in kinds and kinds <= set("fiu")
        if a.shape == b.shape and (close or len(kinds) == 1):
            near = {"rtol": tolerance["relative"], "atol": tolerance["absolute"], "equal_nan": True}
            same = np.isclose(b, a, **near) if close else a == b
            if np.all(same):
                return ""
        return f"{name}: {stored!s:.60}, found {found!s:.60}"
    return next((line for key, a, b in inner if (line := _first_difference(a, b, tolerance, key))), "")
