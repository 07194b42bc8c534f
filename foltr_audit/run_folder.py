"""The folder of a Run: its Spec, its traces, its model and its results.

```
spec.toml            the Spec, canonical
model.npy            the trained global model, float64 (P,)
trace/               the training rounds
fresh/CLICK-MODEL/   the messages of the attacked fresh clients, one trace per click model
results.json         what the command printed with --json
```
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foltr_audit import atomic
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.spec import Spec, first_difference
from foltr_audit.trace import Trace

SPEC, MODEL, RESULTS, LOCK = "spec.toml", "model.npy", "results.json", ".lock"
TRAINING, FRESH = "trace", "fresh"


class RunFolder:
    """A folder that holds one Run.

    Attributes:
        path: the folder.
        resume: whether traces that were begun are gone on with.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path
        self.resume = resume

    @classmethod
    def create(cls, path: Path, spec: Spec, *, resume: bool = False) -> RunFolder:
        """Make the folder of a Spec, or with `resume` go on with what is there.

        Raises:
            UsageError: `resume` meets a Run of another Spec.
            FoltrAuditError: the folder cannot be written.
        """
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            if (path / SPEC).exists():
                _same_spec(path, spec)
            atomic.write_text(path / SPEC, spec.toml)
        return cls(path, resume=resume)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The Run in an existing folder.

        Raises:
            UsageError: no such folder.
            TraceError: it holds no Run.
        """
        if not path.is_dir():
            raise UsageError(f"{path}: no such folder")
        if not (path / SPEC).is_file():
            inner = sorted(entry.parent.name for entry in path.glob(f"*/{SPEC}"))
            hint = f"; it holds the Runs {', '.join(inner)}: name one of them" if inner else ""
            raise TraceError(f"{path}: no Run folder (no {SPEC}){hint}")
        return cls(path)

    @property
    def spec(self) -> Spec:
        """The Spec of this Run.

        Raises:
            TraceError: it is damaged.
        """
        try:
            return Spec.from_toml((self.path / SPEC).read_text(encoding="utf-8"), f"{self.path / SPEC}")
        except (UsageError, UnicodeDecodeError) as error:
            raise TraceError(f"damaged Run: {error}") from error

    @property
    def training(self) -> Path:
        """Folder of the trace of the training rounds."""
        return self.path / TRAINING

    def fresh(self, click_model: str) -> Path:
        """Folder of the trace of fresh clients under a click model."""
        return self.path / FRESH / click_model

    def fresh_traces(self) -> dict[str, Trace]:
        """The recorded traces of fresh clients by click model, sorted."""
        folders = sorted((self.path / FRESH).glob("*/trace.toml"))
        return {folder.parent.name: Trace.open(folder.parent) for folder in folders}

    def save_model(self, parameters: NDArray[np.float64]) -> None:
        """Write the trained global model, float64 (P,)."""
        buffer = io.BytesIO()
        np.save(buffer, parameters, allow_pickle=False)
        with writing(self.path):
            atomic.write_bytes(self.path / MODEL, buffer.getvalue())


def load_model(path: Path, parameters: int) -> NDArray[np.float64]:
    """A global model from a `.npy` file or a Run folder, float64 (P,).

    Raises:
        UsageError: the file is missing, no plain array, of another length, or not finite.
    """
    file = path / MODEL if path.is_dir() else path
    try:
        model = np.load(file, allow_pickle=False)
    except FileNotFoundError as error:
        raise UsageError(f"--init: {file}: no such file") from error
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"--init: {file}: no .npy file with a plain array of numbers") from error
    if not isinstance(model, np.ndarray) or model.shape != (parameters,) or model.dtype.kind not in "fiu":
        shape = getattr(model, "shape", "?")
        raise UsageError(f"--init: {file}: shape {shape}; expected {parameters} numbers, one a feature")
    if not np.all(np.isfinite(model)):
        raise UsageError(f"--init: {file}: holds a number that is not finite")
    return model.astype(np.float64)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failing disk into one clear line.

    Raises:
        FoltrAuditError: the folder cannot be written, or the disk is full.
    """
    try:
        yield
    except OSError as error:
        raise FoltrAuditError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a folder for one process; the lock goes with the process, however it ends.

    Raises:
        UsageError: another process holds it.
    """
    import fcntl

    if path.exists() and not path.is_dir():
        raise UsageError(f"--out: {path} is a file; expected a folder")
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"--out: {path} is being written by another run") from error
        yield
    finally:
        os.close(handle)


def claim_folder(path: Path, *, resume: bool, overwrite: bool, plan: str) -> None:
    """See to it that Runs may be written into a folder; `plan` is the name of a plan's own file.

    Raises:
        UsageError: it is not empty and neither `resume` nor `overwrite` is given, or it holds
            something else than Runs.
        FoltrAuditError: it cannot be written.
    """
    held = {entry.name for entry in path.iterdir()} - {LOCK}
    if not held:
        return
    if not (resume or overwrite):
        raise UsageError(
            f"--out: {path} is not empty; give --resume to go on with it or --overwrite to replace it"
        )
    known = {SPEC, MODEL, RESULTS, TRAINING, FRESH, plan}
    strange = sorted(name for name in held - known if not (path / name / SPEC).is_file())
    if strange:
        option = "--overwrite" if overwrite else "--resume"
        raise UsageError(f"{option}: {path} holds {strange[0]!r}, which is no part of a Run")
    if overwrite:
        with writing(path):
            _empty(path, held)


def _empty(path: Path, names: set[str]) -> None:
    for name in names:
        target = path / name
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink()


def _same_spec(path: Path, spec: Spec) -> None:
    difference = first_difference(RunFolder(path).spec, spec)
    if difference is not None:
        raise UsageError(f"--resume: {path} is the Run of another Spec: {difference}")
