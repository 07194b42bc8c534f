"""Verification of bundles: every hash, what follows from what, and some cells or Runs by a re-run."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records import Collection
from foltr_audit.core.results import DataRecord, RunRecord
from foltr_audit.core.settings.data import DataSpec, are_synthetic
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.train import ZEROS, start_norm
from foltr_audit.data.intents import qrels_file
from foltr_audit.data.load import load_collection
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.evidence.bundle import FOREIGN, NAME, BundleContents, BundleFolder, Facts, copy, unpack
from foltr_audit.experiments.comparison.runner import run_cell
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Table
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.runs.folder import ARRAYS, MODEL, RECORDS, RESULTS, ROUNDS, SPEC, RunFolder
from foltr_audit.experiments.store import read_arrays, read_records, records_of
from foltr_audit.experiments.versions import code_of, versions
from foltr_audit.rng import Streams
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import file_bytes, is_whole, json_table
from foltr_audit.utils.reading.arrays import read_array

SAMPLE = 3  # cells that are re-run by default
_ACROSS_VERSIONS = {"relative": 1e-6, "absolute": 1e-9}
"""Numbers differ by that much where versions or machines do: sums in another order change the last digits."""

Outcome = tuple[str, Sequence[str]]  # the state of a check, and its findings, a line each
Row = dict[str, str | list[str]]  # a check with both
Remake = Callable[[Path, Sequence[Run], Path, Progress], None]
"""Writes the results of an unpacked folder again: of its cells, or of its Runs, which were run again."""


class DataPlaces(NamedTuple):
    """Where this machine has the data and their intents; without a path, their name in the working folder."""

    data: str | None = None
    intents: str | None = None

    def refuse_unused(self, specs: Sequence[Spec]) -> None:
        if self.data is not None and all(spec.data.is_synthetic for spec in specs):
            raise UsageError(
                f"--data: {self.data}: the data of these results are synthetic; expected no path"
            )
        if self.intents is not None and all(are_synthetic(one.data.intents or "synthetic") for one in specs):
            raise UsageError(f"--intents: {self.intents}: these results read no intents; expected no path")

    def load(self, spec: Spec, fingerprint: str) -> Collection:
        """The data of a Spec; a `FoltrAuditError` if they are not here, or have another fingerprint."""
        if spec.train.init not in (None, ZEROS) and start_norm(spec.train.init) is None:
            _need(str(spec.train.init), "init", "run check in the folder that holds the first model")
        collection = _load(self, spec.data, spec.seed)
        if collection.fingerprint != fingerprint:
            raise FoltrAuditError(
                f"{self.data or spec.data.source}: not the data of these results: "
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
        intents = places.intents or intents
        file = qrels_file(intents)
        path = intents if file is None else str(file[0])
        _need(path, "intents", "--intents PATH says where the intents are")
    collection = load_collection(packed.model_copy(update={"source": source, "intents": intents}), seed)
    return replace(collection, source=packed.source, intents_from=packed.intents)


def _need(path: str, what: str, advice: str) -> str:
    """The path, if it is a folder or plain file: a foreign Spec must not make us read a device."""
    if not (os.path.isdir(path) or os.path.isfile(path)):
        raise FoltrAuditError(f"{what} {path!a}: not on this machine; {advice}")
    return path


def run_again(
    places: DataPlaces, progress: Progress | None, task: tuple[str, Table, str, Path]
) -> tuple[str, Run | str | None]:
    """Run a Spec into a folder: the result, or why it cannot be run; without progress as a cell."""
    place, table, fingerprint, folder = task
    try:
        spec = Spec.parse(table, "")
        collection = places.load(spec, fingerprint)
        if progress is not None:
            return place, Runner(progress, collection).run(spec, RunFolder.create(folder, spec))
        folder.mkdir(parents=True)
        for name, content in run_cell(spec, Runner(SILENT, collection, with_undefended=False)).items():
            (folder / name).write_bytes(content)
    except FoltrAuditError as error:
        return place, str(error)
    except OSError as error:
        return place, f"{error.filename or folder}: {error.strerror or error}"
    return place, None


def verify(
    path: Path,
    *,
    sample: int | None = SAMPLE,
    seed: int,
    remake: Remake,
    places: DataPlaces = DataPlaces(),  # noqa: B008 - it is immutable
    workers: Workers | None = None,
    progress: Progress = SILENT,
) -> Facts:
    """Verify a bundle; of its cells or Runs a `sample` is re-run, or all if that is None.

    The verdict is `does not hold` if a check fails, and `incomplete` if one was not possible. Whoever packed
    the bundle must not know the seed of the draw in advance. Workers re-run the cells of a comparison, and
    `remake` makes the results again.
    """
    with unpack(path) as bundle, tempfile.TemporaryDirectory(prefix="foltr-audit-") as again:
        verifier = _Verifier(bundle, places, remake, workers or Workers(jobs=1), Path(again), progress)
        checks = list(verifier.checks(sample, seed))
    states = {check["state"] for check in checks}
    possible = "incomplete" if "not possible" in states else "verified"
    return {
        "schema": "foltr-audit/verification/1",
        "bundle": str(path),
        "sha256": bundle.sha256,
        **bundle.manifest.facts,
        "verdict": "does not hold" if "fails" in states else possible,
        "checks": checks,
        "rerun": [verifier.contents.specs[place].hash for place in verifier.drawn],
        "of": len(verifier.contents.finished),
        "seed": seed,
        "versions_differ": verifier.differ,
        "tolerance": verifier.tolerance,
    }


@dataclass
class _Verifier:
    """Verifies one bundle; of its `finished` Specs those in `drawn` are run again, into `again`."""

    bundle: BundleFolder
    places: DataPlaces
    remake: Remake
    workers: Workers
    again: Path
    progress: Progress

    def __post_init__(self) -> None:
        self.root, self.manifest = self.bundle.root, self.bundle.manifest
        self.comparison = self.manifest.kind == "comparison"
        self.cells = "cells" if self.comparison else "Runs"
        there, here = self.manifest.versions, versions()
        self.differ: dict[str, dict[str, str | None]] = {}
        self.tolerance = dict.fromkeys(_ACROSS_VERSIONS, 0.0)
        self._differ({name: (there.get(name), here.get(name)) for name in sorted({*there, *here})})
        self.contents = BundleContents(self.root)
        self.drawn: list[str] = []
        self.other_code: set[str] = set()
        self.runs: dict[str, Run] = {}

    def _differ(self, pairs: Mapping[str, tuple[str | None, str | None]]) -> None:
        """Take note of versions there and here; where some differ, numbers have to agree nearly."""
        self.differ |= {name: {"packed": a, "here": b} for name, (a, b) in pairs.items() if a != b}
        self.tolerance = _ACROSS_VERSIONS if self.differ else self.tolerance

    def checks(self, sample: int | None, seed: int) -> Iterator[Row]:
        """The checks in order; if one of the first three fails, the others have no meaning."""
        sizes = [file.size for file in self.manifest.files.values()]
        good = "every SHA-256 is right, no file is missing or extra"
        files = partial(_outcome, self.bundle.problems, f"{len(sizes)} files, {sum(sizes):,} bytes: {good}")
        for name, check in (("files", files), ("Specs", self._specs), (self.cells, self._cells)):
            row = self._row(name, check)
            yield row
            if row["state"] != "holds":
                return
        finished = self.contents.finished
        self.places.refuse_unused([self.contents.specs[place] for place in finished])
        which = Streams(seed).generator("verify").permutation(len(finished))[:sample]
        self.drawn = [finished[int(number)] for number in sorted(which)]
        for name, check in (("re-run", self._rerun), ("results", self._results)):
            if self.drawn or (self.comparison and name == "results"):
                yield self._row(name, check)
            else:
                yield {"check": name, "state": "skipped", "found": ["not requested: --sample 0"]}

    def _row(self, name: str, check: Callable[[], Outcome]) -> Row:
        """Run a check, and turn errors into its outcome; ours in a re-run mean that it is not possible."""
        try:
            with warnings.catch_warnings():
                if name != "re-run":
                    warnings.simplefilter("ignore")  # caused by values that no cell of ours contains
                state, lines = check()
        except FOREIGN as error:
            own = isinstance(error, FoltrAuditError)
            here = isinstance(error, MemoryError | OSError) or (own and name == "re-run")
            state = "not possible" if here else "fails"
            lines = [("" if own else f"{type(error).__name__}: ") + " ".join(str(error).split())[:400]]
        # Lines quote untrusted names, and a terminal would obey control characters in them.
        lines = ["".join(letter if letter.isprintable() else "?" for letter in line) for line in lines]
        return {"check": name, "state": state, "found": [line.replace(f"{self.root}/", "") for line in lines]}

    def _specs(self) -> Outcome:
        """Check that the bundle holds what its Specs, grid and plan say, and these in canonical form."""
        contents = BundleContents.of(self.root, lists=self.manifest.lists, trace=self.manifest.trace)
        contents.finished.sort()
        self.contents, kind = contents, self.manifest.kind
        hashes = {f"{place}{SPEC}": spec.hash for place, spec in contents.specs.items()}
        odd = {name for name, _ in hashes.items() ^ self.manifest.specs.items()}
        problems = [f"{name}: not the hash of its Spec" for name in sorted(odd)]
        texts = {name: text.encode() for name, text in contents.files.items() if text is not None}
        problems += [
            f"{name}: not canonical" for name in texts if (self.root / name).read_bytes() != texts[name]
        ]
        foreign = sorted(self.manifest.files.keys() - contents.files.keys())
        problems += [f"{name}: not a file of this kind of bundle: a {kind}" for name in foreign]
        problems += [] if contents.kind == kind else [f"{NAME}: a {kind}; expected a {contents.kind}"]
        return _outcome(problems, f"{len(contents.specs)} Specs, each hashes to its name")

    def _cells(self) -> Outcome:
        """Check that every cell or Run that the bundle lists is there, with its own results."""
        for place in self.contents.finished:
            spec = self.contents.specs[place]
            _, records = read_records(self.root / place / RECORDS, spec)
            there, here = records_of(RunRecord, records)[0].code, code_of(spec)
            self.other_code |= {place} if there != here else set()
            self._differ({f"code of {name}": (there.get(name), here.get(name)) for name in {**there, **here}})
        problems = [] if self.manifest.partial else self.contents.unfinished
        return _outcome(problems, f"{len(self.contents.finished)} complete {self.cells} of their Specs")

    def _rerun(self) -> Outcome:
        specs, lines, states = self.contents.specs, {}, set()
        tasks = [(at, specs[at].table(), self._fingerprint(at), self.again / at) for at in self.drawn]
        again = partial(run_again, self.places, None if self.comparison else self.progress)
        results = self.workers.results(again, tasks) if self.comparison else map(again, tasks)
        with (self.progress if self.comparison else SILENT).task("re-run", len(tasks)) as tick:
            for place, result in results:
                failed = isinstance(result, str)
                self.runs |= {place: result} if isinstance(result, Run) else {}
                found = [f"cannot be run: {result}"] if failed else self._differences(place)
                different = f"different{', and made by other code' * (place in self.other_code)}"
                state = "not possible" if failed else different if found else "equal"
                states.add(state)
                lines[place] = "; ".join([f"{specs[place].hash[:12]}: {state}", *found])
                tick()
        told = [lines[place] for place in self.drawn]
        if states != {"equal"}:
            return "fails" if "different" in states else "not possible", told
        how = f"all equal {'within the tolerance' if self.differ else 'byte for byte'}"
        return "holds", [*told, f"{len(told)} of {len(self.contents.finished)} {self.cells} run again, {how}"]

    def _fingerprint(self, place: str) -> str:
        _, records = read_records(self.root / place / RECORDS, self.contents.specs[place])
        return records_of(DataRecord, records)[0].fingerprint

    def _differences(self, place: str) -> list[str]:
        """The packed files of a cell or Run that differ from those of its re-run, and where."""
        names = [name for name in self.manifest.files if name.startswith(place)]
        lines = [self._difference(name) for name in names if name not in (RESULTS, ROUNDS)]
        if self.comparison and not self.manifest.lists:  # the results need arrays
            shutil.copytree(self.again / place, self.root / place, dirs_exist_ok=True)
        return [line.removeprefix(place) for line in lines if line]

    def _difference(self, name: str) -> str:
        """Where a packed file differs from the one that was made again; empty if they agree."""
        again = self.again / name
        if not again.is_file():
            return f"{name}: missing in the re-run"
        with again.open("rb") as content:
            if copy(content) == self.manifest.files[name]:
                return ""
        # The lists in a bundle are what its results follow from. In a re-run scores that tie may fall the
        # other way, which moves what is found of n lists by at most one list.
        near = {**self.tolerance, "list": float(bool(self.differ) and not self.manifest.lists)}
        line = _first_difference(_values(self.root / name), _values(again), near)
        return f"{name}: {line or 'other bytes'}" if line or not self.differ else ""

    def _results(self) -> Outcome:
        """Check that the results are what the report makes of the cells, or of Runs that were run again."""
        contents = self.contents
        if contents.unfinished:
            return "not possible", contents.unfinished
        if self.comparison and not all((self.root / at / ARRAYS).is_file() for at in contents.finished):
            return "not possible", ["the judged lists are not in the zip; give --all"]
        if not self.comparison and len(self.runs) < len(contents.specs):
            return "not possible", [f"not all {len(contents.specs)} Runs were run again; give --all"]
        runs = [self.runs[at] for at in contents.specs if at in self.runs]
        self.remake(self.root, runs, self.again, self.progress)
        problems = [self._difference(name) for name in (RESULTS, ROUNDS) if name in contents.files]
        if any(problems) and self.other_code and not self.manifest.lists:  # they follow from the re-run
            return "not possible", [*filter(None, problems), f"the {self.cells} were made by other code"]
        return _outcome([*filter(None, problems)], f"{RESULTS} is what the report makes of the {self.cells}")


def _outcome(problems: Sequence[str], otherwise: str) -> Outcome:
    return ("fails", problems) if problems else ("holds", [otherwise])


def _values(path: Path) -> Mapping[str, object]:
    """The numbers of a file by name; none of other files: where versions differ, their bytes may too."""
    if path.name == MODEL:
        return {"parameters": read_array(path, TraceError)}
    if path.name not in (RECORDS, RESULTS):
        return read_arrays(path) if path.name == ARRAYS else {}
    content = file_bytes(path, TraceError)
    if path.name == RECORDS:
        lines = enumerate(content.splitlines(), start=1)
        tables = {f"line {number}": json_table(line, path.name, TraceError) for number, line in lines}
        for run in (table for table in tables.values() if table.get("kind") == "run"):
            run.pop("code", None)  # one of the versions
        return tables
    return json_table(content, path.name, TraceError)


def _first_difference(stored: object, found: object, tolerance: Mapping[str, float], name: str = "") -> str:
    """The first place where two values of JSON, or arrays, differ; empty if they agree."""
    if isinstance(stored, dict) and isinstance(found, dict):
        if odd := stored.keys() ^ found.keys():
            return f"{name}: only in one of them: {', '.join(sorted(odd)):.200}"
        keys = [key for key in stored if key != "arrays"]  # whose arrays are compared themselves
        if tolerance["list"] and is_whole(lists := found.get("lists"), 1):
            tolerance = {**tolerance, "absolute": tolerance["list"] / lists}
        inner = [(f"{name}.{key}".lstrip("."), stored[key], found[key]) for key in keys]
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        inner = [(f"{name}[{number}]", *pair) for number, pair in enumerate(zip(stored, found, strict=True))]
    else:
        a, b = np.asarray(stored), np.asarray(found)
        kinds = {a.dtype.kind, b.dtype.kind}
        close = "f" in kinds and kinds <= set("fiu")
        if a.shape == b.shape and (close or len(kinds) == 1):
            near = tolerance["relative"], tolerance["absolute"]
            if np.all(np.isclose(b, a, *near, equal_nan=True) if close else a == b):
                return ""
        return f"{name}: {stored!s:.60}, found {found!s:.60}"
    return next((line for key, a, b in inner if (line := _first_difference(a, b, tolerance, key))), "")
