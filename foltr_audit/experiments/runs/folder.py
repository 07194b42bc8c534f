"""The folder of a Run: its Spec, its traces, its model and its results.

```
spec.toml            the Spec, canonical
model.npy            the trained global model, float64 (P,)
arrays.npz           metrics of the rounds, see `experiments.store`
records.jsonl        what the run is, and what it found; written last
trace/               the training rounds
fresh/CLICK-MODEL/   the messages of the attacked fresh clients, one trace per click model
results.json         what the command printed with --json
```
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from foltr_audit.core.settings.experiment import Spec, first_difference
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.experiments.plan import Plan, read_tables
from foltr_audit.experiments.versions import code_digest, code_of
from foltr_audit.recorder import atomic_files
from foltr_audit.trace import Trace, TraceHeader
from foltr_audit.trace.header import read_header
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.reading import file_text
from foltr_audit.utils.reading.arrays import read_array

SPEC, PLAN, MODEL, RESULTS = "spec.toml", "plan.toml", "model.npy", "results.json"
ARRAYS, RECORDS, ROUNDS = "arrays.npz", "records.jsonl", "rounds.parquet"
TRAINING, FRESH = "trace", "fresh"
_CODE = ", code "
"""What the writer of a trace says before the digest of its code."""

_TRACE = r"trace\.toml|part-\d+\.json|(observed|truth)/\w+-\d+\.(npz|parquet)"
_OURS = re.compile(
    r"([0-9a-f]{12}/)?(spec\.toml|plan\.toml|model\.npy|results\.json|rounds\.parquet|arrays\.npz|records\.jsonl"
    rf"|({TRAINING}|{FRESH}/[^/]+)/({_TRACE}))"
)
"""Every file that a Run, or a folder of Runs, is made of."""


def is_part(name: str) -> bool:
    """Whether a Run, or a folder of Runs, may hold a file of this relative path."""
    return _OURS.fullmatch(name) is not None


class RunFolder:
    """A folder that holds one Run; with `resume` its unfinished traces are resumed."""

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path
        self.resume = resume

    @classmethod
    def create(cls, path: Path, spec: Spec, *, resume: bool = False) -> RunFolder:
        """Make the folder of a Spec, or with `resume` continue the Run in it; it must be of the same Spec."""
        with report_write_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            difference = None
            if (path / SPEC).exists():
                difference = first_difference(RunFolder(path).spec.public, spec.public)
            if difference is not None:
                raise UsageError(f"--resume: {path} is the Run of another Spec: {difference}")
            atomic_files.write_text(path / SPEC, spec.toml)
        return cls(path, resume=resume)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The Run in an existing folder."""
        if not path.is_dir():
            raise UsageError(f"{path}: no such folder")
        if not (path / SPEC).is_file():
            inner = sorted(entry.parent.name for entry in path.glob(f"*/{SPEC}"))
            hint = f"; it holds the Runs {', '.join(inner)}: name one of them" if inner else ""
            raise UsageError(f"{path}: neither a Run folder (no {SPEC}) nor a trace (no trace.toml){hint}")
        return cls(path)

    @property
    def spec(self) -> Spec:
        """The Spec of this Run; a `TraceError` if it is damaged."""
        try:
            return Spec.from_toml(file_text(self.path / SPEC, UsageError), f"{self.path / SPEC}")
        except UsageError as error:
            raise TraceError(f"damaged Run: {error}") from error

    @property
    def training(self) -> Path:
        """Folder of the trace of the training rounds."""
        return self.path / TRAINING

    def fresh(self, click_model: str) -> Path:
        """Folder of the trace of fresh clients under a click model."""
        return self.path / FRESH / click_model.replace("/", "_")

    def fresh_traces(self) -> dict[str, Trace]:
        """The traces of fresh clients by click model, in the order of the Spec; empty if it has none."""
        protocol = self.spec.attack
        if protocol is None or protocol.target != "fresh":
            return {}
        for name in protocol.click_models:
            if not self.fresh(name).is_dir():
                raise TraceError(
                    f"{self.fresh(name)} is missing; end the run with --resume, "
                    "or attack its training rounds with --target training"
                )
        return {name: Trace.open(self.fresh(name)) for name in protocol.click_models}

    def _headers(self) -> Iterator[tuple[Path, TraceHeader]]:
        """Folder and header of each trace; what is wrong with others, the validation of a trace reports."""
        for pattern in (TRAINING, f"{FRESH}/*"):
            for file in sorted(self.path.glob(f"{pattern}/trace.toml")):
                with suppress(TraceError):
                    yield file.parent, read_header(file.parent)[0]

    def problems(self) -> list[str]:
        """Errors in words: a damaged Spec, or traces that another Spec made."""
        try:
            spec = self.spec
        except TraceError as error:
            return [str(error)]
        return [
            f"{folder}: made by another Spec than {self.path / SPEC}"
            for folder, header in self._headers()
            if header.spec_hash != spec.hash
        ]

    def signed(self, header: TraceHeader) -> TraceHeader:
        """The header of a trace of this Run, which names the code that records it."""
        return replace(header, writer=f"{header.writer}{_CODE}{code_digest(code_of(self.spec))[:12]}")

    def of_other_code(self, spec: Spec) -> bool:
        """Whether this is a Run of the Spec with a trace that other code recorded."""
        if not (self.path / SPEC).is_file() or self.spec.hash != spec.hash:
            return False
        now = code_digest(code_of(spec))[:12]
        return any(header.writer.rpartition(_CODE)[2] != now for _, header in self._headers())

    def save_model(self, parameters: Floats) -> None:
        """Write the trained global model, float64 (P,)."""
        buffer = io.BytesIO()
        np.save(buffer, parameters, allow_pickle=False)
        self.save({MODEL: buffer.getvalue()})

    def save(self, files: Mapping[str, bytes]) -> None:
        """Write files in their order, each by its name."""
        with report_write_errors(self.path):
            atomic_files.write_files(self.path, files)


def load_model(path: Path, parameters: int) -> Floats:
    """A global model from a `.npy` file or a Run folder, float64 (P,)."""
    file = path / MODEL if os.path.isdir(path) else path
    try:
        model = read_array(file, UsageError)
    except UsageError as error:
        raise UsageError(f"--init: {error}") from error
    if model.shape != (parameters,) or model.dtype.kind not in "fiu":
        raise UsageError(
            f"--init: {file}: an array of {model.dtype} and shape {model.shape}; "
            f"expected {parameters} real numbers, one per parameter"
        )
    if not np.all(np.isfinite(model)):
        raise UsageError(f"--init: {file}: holds a number that is not finite; expected finite ones")
    return model.astype(np.float64)


@contextmanager
def report_write_errors(path: Path) -> Iterator[None]:
    """Report an error of the file system in one line, as a `FoltrAuditError`."""
    try:
        yield
    except OSError as error:
        raise FoltrAuditError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Lock a folder, made if missing; the lock ends with the process, even if that is killed.

    Another folder at its place when the context ends is an error: what was written is lost, or in two places.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"--out: {path} is a file; expected a folder")
    handle = take_lock(path)
    if handle is None:
        raise UsageError(f"--out: {path} is being written by another run")
    try:
        yield
        if not (path.is_dir() and os.path.samestat(os.fstat(handle), path.stat())):
            raise FoltrAuditError(f"{path}: removed while it was written")
    finally:
        os.close(handle)


def take_lock(path: Path) -> int | None:
    """Lock a folder, made if missing, until the handle is closed; None where another process has it."""
    import fcntl  # flock, not a lock file: the kernel releases it even if the process is killed

    with report_write_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            return None
        raise FoltrAuditError(f"{path}: cannot be locked: {error.strerror or error}") from error
    return handle


def held_files(
    path: Path, is_part: Callable[[str], bool], whole: str, *, resume: bool, overwrite: bool
) -> list[Path]:
    """The files in an `--out` folder, relative to it; those of a killed writer are among them.

    A folder with files needs `resume` or `overwrite`, and may hold no foreign file: `is_part` says whether a
    file of this relative path belongs there, `whole` to what, e.g. `a Run`.
    """
    held = [file.relative_to(path) for file in sorted(path.rglob("*")) if not file.is_dir()]
    if held and not (resume or overwrite):
        raise UsageError(
            f"--out: {path} is not empty; give --resume to continue it or --overwrite to replace it"
        )
    option = "--overwrite" if overwrite else "--resume"
    for file in held:
        if not (is_part(file.as_posix()) or atomic_files.is_temporary(file.name)):
            raise UsageError(f"{option}: {path} holds {str(file)!r}, which is no part of {whole}")
    return held


def claim_folder(path: Path, *, resume: bool, overwrite: bool) -> None:
    """Check that Runs may be written into a folder, and remove what a killed writer left behind."""
    held = held_files(path, is_part, "a Run", resume=resume, overwrite=overwrite)
    for file in held:
        if file.name == SPEC:
            _ = RunFolder(path / file.parent).spec  # refuses to replace another kind of file with that name
    if overwrite:
        empty_runs(path)
    with report_write_errors(path):
        for file in held if resume else ():
            if atomic_files.is_temporary(file.name):
                (path / file).unlink()


def empty_runs(path: Path) -> None:
    """Remove all files, in an order that leaves shorter Runs and no damaged ones if it is killed."""

    def turn(file: Path) -> int:
        ends = {RECORDS: -1, "trace.toml": 2, SPEC: 3, PLAN: 4}
        return 0 if file.name.startswith("part-") else ends.get(file.name, 1)

    with report_write_errors(path):
        entries = sorted(path.rglob("*"), reverse=True)  # later parts first
        for file in sorted((entry for entry in entries if not entry.is_dir()), key=turn):
            file.unlink()
        for folder in (entry for entry in entries if entry.is_dir()):
            folder.rmdir()


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
