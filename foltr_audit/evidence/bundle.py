"""Evidence bundles: what a study found as one file that others can check and re-run in part.

A bundle is a zip file of Specs, results, findings of cells, hashes and versions. Its entries are stored in
order of name, and last `manifest.json` with their SHA-256. Nothing is compressed: no archive unpacks to more
than its own size, and the same contents give the same bytes with every version of zlib. It is read as if an
enemy had made it. The arrays of cells hold the clicks of simulated users: `without_lists` leaves them out for
data that are not public. A trace is packed without its truth, and only on request.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import stat
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple, TypedDict, cast

import numpy as np
from pydantic import Field, ValidationError

from foltr_audit.core.plugins.registry import GROUPS
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.base import SpecTable
from foltr_audit.core.settings.data import DataSpec, are_synthetic
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.train import ZEROS
from foltr_audit.data.load import load_collection
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError, first_problem
from foltr_audit.experiments.comparison.cells import ARRAYS, FACTS, read_arrays, read_facts
from foltr_audit.experiments.comparison.folder import CELLS, GRID, INDEX, ComparisonFolder
from foltr_audit.experiments.comparison.runner import run_cell
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Plan, Table
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.runs.folder import MODEL, PLAN, RESULTS, SPEC, RunFolder, report_write_errors
from foltr_audit.experiments.runs.folder import is_part as is_part_of_run
from foltr_audit.experiments.runs.reader import read_plan
from foltr_audit.recorder import atomic_files
from foltr_audit.report.attack import AttackReport
from foltr_audit.report.membership import MembershipReport
from foltr_audit.report.results.audit import AuditReport
from foltr_audit.report.results.compare import CompareReport, known_failures
from foltr_audit.report.train import ROUNDS, TrainReport
from foltr_audit.report.unlearning import UnlearningReport
from foltr_audit.rng import Streams
from foltr_audit.utils.code_version import code_version
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import file_bytes, json_table
from foltr_audit.utils.reading.arrays import read_array

SAMPLE = 3  # cells that are re-run by default
_ACROSS_VERSIONS = {"relative": 1e-6, "absolute": 1e-9}
"""Numbers differ by that much where versions or machines do: sums in another order change the last digits."""
_KINDS = (AttackReport, AuditReport, MembershipReport, TrainReport, UnlearningReport)
_REPORTS: dict[object, Any] = {kind.SCHEMA: kind for kind in _KINDS}
_FOREIGN = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, struct.error, EOFError, OSError, MemoryError, TypeError),
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, ValueError, FoltrAuditError),
)
"""Errors that an untrusted file may raise where it is read, or its values where they are used."""
Outcome = tuple[str, Sequence[str]]  # the state of a check, and its findings, a line each
Row = dict[str, str | list[str]]  # a check with both

NAME = "manifest.json"
MOST_MANIFEST_BYTES = 64 * 2**20
Kind = Literal["comparison", "run", "plan"]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class BundleFacts(TypedDict, total=False):
    """What `packed-bundle-1.json` says of a packed bundle, and `verification-1.json` of a verified one."""

    schema: str
    bundle: str
    sha256: str
    bytes: int
    files: int
    kind: Kind
    partial: bool
    lists: bool
    trace: bool
    unfinished: list[str]
    versions: dict[str, str]
    verdict: str
    checks: list[Row]
    rerun: list[str]
    of: int
    seed: int
    versions_differ: dict[str, dict[str, str | None]]
    tolerance: dict[str, float]


class BundleEntry(SpecTable):
    """One file of a bundle: its size in bytes, and its SHA-256 (hex)."""

    size: Annotated[int, Field(strict=True, ge=0, lt=2**63)]
    sha256: Digest


class BundleManifest(SpecTable):
    """The manifest of a bundle.

    Attributes:
        kind: what was packed: a comparison, one Run, or the folder of a plan's Runs.
        partial: whether the folder was unfinished.
        lists: whether it contains the judged lists, with the clicks of simulated users (comparisons).
        trace: whether it contains the observed traces (Runs); it never contains their truth.
        versions: the versions that it was packed with, see `versions`.
        specs: the hash of each Spec, by the name of its file.
        files: every file except the manifest.
    """

    schema_: Literal["foltr-audit/bundle/1"] = Field("foltr-audit/bundle/1", alias="schema")
    kind: Kind
    partial: bool = False
    lists: bool = False
    trace: bool = False
    versions: dict[str, str]
    specs: dict[str, Digest]
    files: dict[str, BundleEntry]

    @property
    def text(self) -> str:
        """The JSON form in which it is stored."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), indent=1, sort_keys=True) + "\n"

    @property
    def facts(self) -> BundleFacts:
        """What the documents about a bundle repeat."""
        return {"kind": self.kind, "partial": self.partial, "lists": self.lists, "trace": self.trace}


@dataclass
class BundleContents:
    """What of a folder is packed, and what a bundle must contain once it is unpacked.

    `files` has a text for each file that is packed without local paths; cells and Runs are named by their
    folders, which end with a slash; `unfinished` says in words what is missing.
    """

    root: Path
    kind: Kind = "run"
    files: dict[str, str | None] = field(default_factory=dict)
    specs: dict[str, Spec] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, root: Path, *, lists: bool, trace: bool) -> BundleContents:
        """The contents of a folder, with the arrays of cells or the traces of Runs; an error if damaged."""
        contents = cls(root)
        contents._add(INDEX, RESULTS)
        if INDEX in contents.files:
            contents.kind = "comparison"
            contents._add_comparison(ComparisonFolder(root), [ARRAYS] if lists else [])
        else:
            contents._add_runs()
        if trace:  # its observed side; its truth is never packed
            names = (file.relative_to(root).as_posix() for file in root.rglob("*"))
            contents._add(*(name for name in names if is_part_of_run(name) and "/truth/" not in name))
        if RESULTS not in contents.files:
            contents.unfinished.append(f"there is no {RESULTS}")
        return contents

    def _add(self, *names: str) -> None:
        for name in names:
            if (self.root / name).is_file():
                self.files.setdefault(name, None)

    def _add_spec(self, place: str, spec: Spec, finding: str, *more: str) -> None:
        self.specs[place], self.files[f"{place}{SPEC}"] = spec, spec.public.toml
        if (self.root / place / finding).is_file():
            self._add(f"{place}{finding}", *(f"{place}{name}" for name in more))
            self.finished.append(place)

    def _add_comparison(self, folder: ComparisonFolder, arrays: Sequence[str]) -> None:
        self.files[GRID] = folder.grid.public.toml
        specs = [cell.spec for cell in folder.cells()]
        # The index does not name the cells that were trained to choose a sensitivity.
        others = [RunFolder(file.parent).spec for file in sorted((self.root / CELLS).glob(f"*/{FACTS}"))]
        trainings = [spec for spec in others if spec.attack is None and spec.audit is None]
        for spec in dict.fromkeys([*specs, *trainings]):
            self._add_spec(f"{CELLS}/{spec.hash[:12]}/", spec, FACTS, *arrays)
        missing = sum(not folder.done(spec) for spec in specs) - len(known_failures(folder))
        if missing:
            self.unfinished.append(f"{missing} of {len(specs)} cells are missing")

    def _add_runs(self) -> None:
        self._add(ROUNDS)
        if (self.root / PLAN).is_file():
            plan, self.kind = read_plan(self.root), "plan"
            self.files[PLAN] = plan.public.toml
            runs = {f"{spec.hash[:12]}/": spec for spec in plan.specs}
        else:
            runs = {"": RunFolder.open(self.root).spec}
        for place, spec in runs.items():
            self._add_spec(place, spec, MODEL)
            if place not in self.finished:
                self.unfinished.append(f"Run {spec.hash[:12]} is not finished")


def pack(
    folder: Path,
    to: Path,
    *,
    with_trace: bool = False,
    without_lists: bool = False,
    partial: bool = False,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> BundleFacts:
    """Pack a folder of `compare`, `attack`, `audit` or `train`; the same folder gives the same bytes."""
    _refuse_place(folder, to, overwrite=overwrite)
    comparison = (folder / INDEX).is_file()
    if comparison and with_trace:
        raise UsageError(
            f"--with-trace: {folder} is a comparison, which stores no traces; record one cell with "
            "attack --config SPEC --out DIR and pack that"
        )
    if without_lists and not comparison:
        raise UsageError(f"--without-lists: {folder} is not a comparison; only their cells hold judged lists")
    lists = comparison and not without_lists
    contents = BundleContents.of(folder, lists=lists, trace=with_trace)
    for place in contents.finished if comparison else ():
        ComparisonFolder(folder).read(contents.specs[place])  # refuses a damaged cell
    if contents.unfinished and not partial:
        raise UsageError(
            f"{folder}: unfinished: {contents.unfinished[0]}; finish it with --resume, "
            "or give --partial to pack the finished part"
        )
    manifest = BundleManifest(
        kind=contents.kind,
        lists=lists,
        trace=with_trace,
        partial=bool(contents.unfinished),
        versions=versions(),
        specs={f"{place}{SPEC}": spec.hash for place, spec in contents.specs.items()},
        files={},
    )
    with (
        report_write_errors(to),
        atomic_files.whole_file(to) as stream,
        zipfile.ZipFile(cast("IO[bytes]", stream), "w") as archive,
        progress.task("pack", len(contents.files)) as tick,
    ):
        for name, text in sorted(contents.files.items()):
            content = (folder / name).open("rb") if text is None else io.BytesIO(text.encode())
            with content, archive.open(entry(name), "w", force_zip64=True) as into:
                manifest.files[name] = copy(content, into)
            tick()
        archive.writestr(entry(NAME), manifest.text)
    with to.open("rb") as packed:
        whole = copy(packed)
    return {
        "schema": "foltr-audit/packed-bundle/1",
        "bundle": str(to),
        "sha256": whole.sha256,
        "bytes": whole.size,
        "files": len(manifest.files),
        **manifest.facts,
        "unfinished": contents.unfinished,
        "versions": manifest.versions,
    }


def _refuse_place(folder: Path, to: Path, *, overwrite: bool) -> None:
    inside = to.resolve().is_relative_to(folder.resolve())
    problems = (
        (not folder.is_dir(), f"{folder}: no such folder"),
        ((folder / "trace.toml").is_file(), f"{folder}: a trace alone; expected the folder of --out"),
        (to.is_dir(), f"--zip: {to} is a folder; expected the name of a file"),
        (to.suffix.lower() != ".zip", f"--zip: {to}; expected a name that ends in .zip"),
        (to.exists() and not overwrite, f"--zip: {to} exists; give --overwrite to replace it"),
        (not to.parent.is_dir(), f"--zip: {to.parent}: no such folder"),
        (inside, f"--zip: {to} is inside {folder}; expected a path outside of it"),
    )
    for wrong, why in problems:
        if wrong:
            raise UsageError(why)


def entry(name: str) -> zipfile.ZipInfo:
    """The zip header of a file, which depends on nothing but its name."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the earliest time of zip files
    info.create_system = 3  # Unix; zipfile names the system that it runs on
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


def copy(content: IO[bytes], into: IO[bytes] | None = None) -> BundleEntry:
    """Copy a stream in chunks; its size and hash."""
    total, digest = 0, hashlib.sha256()
    while piece := content.read(2**20):
        digest.update(piece)
        total += len(piece)
        if into is not None:
            into.write(piece)
    return BundleEntry(size=total, sha256=digest.hexdigest())


class BundleFolder(NamedTuple):
    """A bundle in a temporary folder: the hash of its file, its manifest, and files that do not fit to it."""

    root: Path
    sha256: str
    manifest: BundleManifest
    problems: list[str]


@contextmanager
def unpack(path: Path) -> Iterator[BundleFolder]:
    """Unpack a bundle for as long as the context lasts; a `TraceError` if it is none, or damaged."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file; expected results that report --zip has packed")
    with tempfile.TemporaryDirectory(prefix="foltr-audit-") as root, path.open("rb") as stream:
        try:
            # The hash and the entries come from one open file: another file at its path has no effect.
            sha256, size = copy(stream).sha256, stream.tell()
            with zipfile.ZipFile(stream) as archive:
                bundle = BundleFolder(Path(root), sha256, *_extract(archive, size, Path(root)))
        except _FOREIGN as error:
            why = f"{NAME}: {first_problem(error, None)}" if isinstance(error, ValidationError) else error
            raise TraceError(f"{path}: damaged, or not packed by report --zip: {why}") from error
        yield bundle


def _extract(archive: zipfile.ZipFile, size: int, root: Path) -> tuple[BundleManifest, list[str]]:
    """Extract the files that the manifest names; it, and in words what does not fit to it."""
    infos, problems = _plain_entries(archive.infolist(), size), []
    manifest = BundleManifest.model_validate(json_table(archive.read(infos.pop(NAME)), NAME, TraceError))
    for name in sorted({*manifest.files, *infos}):
        if name not in infos:
            problems.append(f"{name}: missing")
        elif name not in manifest.files:
            problems.append(f"{name}: not in {NAME}")
        else:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            with (root / name).open("xb") as file, archive.open(infos[name]) as content:
                if copy(content, file) != manifest.files[name]:
                    problems.append(f"{name}: not the content in {NAME}")
    return manifest, problems


def _plain_entries(infos: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """The entries by name; a `ValueError` unless all are plain, stored files with safe names that fit."""
    for info in infos:
        if problem := _refusal(info):
            raise ValueError(f"entry {info.orig_filename[:80]!a}: {problem}")
    if sum(info.file_size for info in infos) > size:
        raise ValueError("its entries are larger than the file")
    entries = {info.filename: info for info in infos}
    # Readers differ on which of two entries with one name counts, and the manifest has one hash for both.
    if len(entries) < len(infos):
        raise ValueError("two entries have the same name")
    if NAME not in entries:
        raise ValueError(f"no {NAME} in it")
    if entries[NAME].file_size > MOST_MANIFEST_BYTES:
        raise ValueError(f"{NAME}: {entries[NAME].file_size} bytes; expected at most {MOST_MANIFEST_BYTES}")
    return entries


def _refusal(info: zipfile.ZipInfo) -> str:
    name = info.orig_filename
    # zipfile cuts a name at its first NUL byte: the entry could have another name for another reader.
    if name != info.filename or "\\" in name or not name.isprintable():
        return "a name with a character that is not allowed"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "a name that is not a plain path inside the zip"
    # The upper half of the attributes is the Unix mode: this refuses links and devices.
    if not stat.S_ISREG(info.external_attr >> 16):
        return "not a regular file"
    if info.flag_bits & 0x1:
        return "it is encrypted"
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        return "it is compressed; report --zip stores files as they are"
    return ""


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
        if spec.train.init not in (None, ZEROS):
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
        intents = _need(places.intents or intents, "intents", "--intents PATH says where the intents are")
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
    except (FoltrAuditError, OSError) as error:
        return place, str(error)
    return place, None


def verify(
    path: Path,
    *,
    sample: int | None = SAMPLE,
    seed: int,
    places: DataPlaces = DataPlaces(),  # noqa: B008 - it is immutable
    workers: Workers | None = None,
    progress: Progress = SILENT,
) -> BundleFacts:
    """Verify a bundle; of its cells or Runs a `sample` is re-run, or all if that is None.

    The verdict is `does not hold` if a check fails, and `incomplete` if one was not possible. Whoever packed
    the bundle must not know the seed of the draw in advance. Workers re-run the cells of a comparison.
    """
    with unpack(path) as bundle, tempfile.TemporaryDirectory(prefix="foltr-audit-") as again:
        verifier = _Verifier(bundle, places, workers or Workers(jobs=1), Path(again), progress)
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
        pairs = {name: (there.get(name), here.get(name)) for name in sorted({*there, *here})}
        self.differ = {name: {"packed": a, "here": b} for name, (a, b) in pairs.items() if a != b}
        self.tolerance = _ACROSS_VERSIONS if self.differ else dict.fromkeys(_ACROSS_VERSIONS, 0.0)
        self.contents = BundleContents(self.root)
        self.drawn: list[str] = []
        self.runs: dict[str, Run] = {}

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
        except _FOREIGN as error:
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
        for place in self.contents.finished if self.comparison else ():
            read_facts(self.root / place, self.contents.specs[place])
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
                state = "not possible" if failed else "different" if found else "equal"
                states.add(state)
                lines[place] = "; ".join([f"{specs[place].hash[:12]}: {state}", *found])
                tick()
        told = [lines[place] for place in self.drawn]
        if states != {"equal"}:
            return "fails" if "different" in states else "not possible", told
        how = f"all equal {'within the tolerance' if self.differ else 'byte for byte'}"
        return "holds", [*told, f"{len(told)} of {len(self.contents.finished)} {self.cells} run again, {how}"]

    def _fingerprint(self, place: str) -> str:
        spec = self.contents.specs[place]
        if self.comparison:
            return read_facts(self.root / place, spec).data.fingerprint
        folds = cast("dict[str, list[dict[str, object]]]", _table(self.root / RESULTS)["dataset"])["folds"]
        return next(str(row["fingerprint"]) for row in folds if row["fold"] == spec.data.fold)

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
        line = _first_difference(_values(self.root / name), _values(again), self.tolerance)
        return f"{name}: {line or 'other bytes'}" if line or not self.differ else ""

    def _results(self) -> Outcome:
        """Check that the results are what the report makes of the cells, or of Runs that were run again."""
        contents = self.contents
        if contents.unfinished:
            return "not possible", contents.unfinished
        stored = _table(self.root / RESULTS)
        if self.comparison:
            if not all((self.root / place / ARRAYS).is_file() for place in contents.finished):
                return "not possible", ["the judged lists are not in the zip; give --all"]
            folder = ComparisonFolder(self.root)
            report = CompareReport.of(folder, known_failures(folder), self.progress)
        elif len(self.runs) < len(contents.specs):
            return "not possible", [f"not all {len(contents.specs)} Runs were run again; give --all"]
        else:
            plan, runs = Plan(tuple(contents.specs.values())), [self.runs[place] for place in contents.specs]
            report = _REPORTS[stored["schema"]].of(plan, runs)
        # Figures of a preset come from no report.
        text = report.json({name: stored[name] for name in ("published",) if name in stored})
        (self.again / RESULTS).write_text(text + "\n", encoding="utf-8")
        problems = [self._difference(RESULTS)]
        if ROUNDS in contents.files and isinstance(report, TrainReport):
            report.save_rounds(self.again)
            problems.append(self._difference(ROUNDS))
        return _outcome([*filter(None, problems)], f"{RESULTS} is what the report makes of the {self.cells}")


def _outcome(problems: Sequence[str], otherwise: str) -> Outcome:
    return ("fails", problems) if problems else ("holds", [otherwise])


def _table(path: Path) -> dict[str, JsonValue]:
    return json_table(file_bytes(path, TraceError), path.name, TraceError)


def _values(path: Path) -> Mapping[str, object]:
    """The numbers of a file by name; none of other files: where versions differ, their bytes may too."""
    if path.name == MODEL:
        return {"parameters": read_array(path, TraceError)}
    return read_arrays(path) if path.name == ARRAYS else _table(path) if path.name in (FACTS, RESULTS) else {}


def _first_difference(stored: object, found: object, tolerance: Mapping[str, float], name: str = "") -> str:
    """The first place where two values of JSON, or arrays, differ; empty if they agree."""
    if isinstance(stored, dict) and isinstance(found, dict):
        if odd := stored.keys() ^ found.keys():
            return f"{name}: only in one of them: {', '.join(sorted(odd)):.200}"
        keys = [key for key in stored if key != "arrays_sha256"]  # whose arrays are compared themselves
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


@cache
def versions() -> dict[str, str]:
    """Versions by name, of no user or host; machines with the same versions must compute the same bytes."""
    from llvmlite.binding import get_host_cpu_name  # kernels are compiled for it

    system = (platform.system(), platform.machine(), *platform.libc_ver())
    owners = {point.dist for group in GROUPS.values() for point in entry_points(group=group) if point.dist}
    return {
        "foltr-audit": version("foltr-audit"),
        "code": code_version(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: version(name) for name in ("numpy", "numba", "scipy", "polars")},
        "platform": " ".join(part for part in system if part),
        "processor": str(get_host_cpu_name()),
        **{f"plug-ins {owner.name}": owner.version for owner in owners if owner.name != "foltr-audit"},
    }
