"""Writers and runs that die before any one of their calls that change the disk, and what comes after."""

from __future__ import annotations

import contextlib
import io
import math
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from foltr_audit.recorder import atomic_files

from foltr_audit.errors import FoltrAuditError
from foltr_audit.trace import Trace, TraceWriter, validate
from tests.fixtures.command import SMALL, files, run
from tests.trace.test_damage import HEADER, make

ROUNDS, WHOLE = 5, HEADER.rounds_per_part  # two whole parts and a short one


class Killed(BaseException):
    """The process dies here."""


class Disk:
    """Lets so many calls that change the disk through, and none after them: no clean-up runs either.

    A write is two calls, so that half of it can be there. Nothing is held back in a buffer, which a
    real process would lose: what is not yet written when it dies never is.
    """

    def __init__(self, allowed: float = math.inf) -> None:
        self.allowed = allowed
        self.calls: Counter[str] = Counter()
        self.lock = threading.Lock()  # files are flushed by several threads

    def step(self, name: str) -> None:
        with self.lock:
            if self.calls.total() >= self.allowed:
                raise Killed
            self.calls[name] += 1

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("mkdir", "replace", "unlink"):
            patch.setattr(Path, name, self._counted(name, getattr(Path, name)))
        patch.setattr(Path, "open", self._open(Path.open))
        patch.setattr(os, "fsync", lambda _: self.step("fsync"))  # a kill loses nothing that is written

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.step(name)
            return real(*arguments, **named)

        return call

    def _open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if mode in ("r", "rb"):
                return real(path, mode, *arguments, **named)
            self.step("open")
            return Stream(self, path, mode)

        return call


class Stream(io.FileIO):
    """A file whose content is written in two halves through its disk, unbuffered."""

    def __init__(self, disk: Disk, path: Path, mode: str) -> None:
        self.disk = disk
        super().__init__(path, mode)

    def write(self, data: Any, /) -> int:
        middle = len(data) // 2
        for half in (data[:middle], data[middle:]):
            self.disk.step("write")
            super().write(half)
        return len(data)

    def writelines(self, pieces: Iterable[Any], /) -> None:
        self.write(b"".join(pieces))


class Life:
    """What processes do to one folder, the last of which lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.safe = 0  # rounds in parts that some process had seen committed

    def process(self, *, resume: bool, allowed: float = math.inf) -> Disk:
        """Write the rounds that are missing, in a process of so many calls."""
        disk = Disk(allowed)
        with pytest.MonkeyPatch.context() as patch:
            disk.install(patch)
            try:
                with TraceWriter(self.folder, HEADER, resume=resume) as writer:
                    assert writer.next_round == self.rounds() // WHOLE * WHOLE
                    for number in range(writer.next_round, ROUNDS):
                        writer.write(*make(number))
                        self.safe = max(self.safe, (number + 1) // WHOLE * WHOLE)
            except Killed:
                assert disk.calls.total() == allowed
            else:
                assert disk.calls.total() <= allowed
        return disk

    def rounds(self) -> int:
        """Rounds that a reader finds now; 0 if there is no trace yet."""
        return Trace.open(self.folder).n_rounds if (self.folder / "trace.toml").exists() else 0

    def look(self, expected: dict[str, bytes]) -> None:
        """A reader finds whole parts with the right bytes, or is told that there is no trace yet."""
        if not (self.folder / "trace.toml").exists():
            with pytest.raises(FoltrAuditError, match=r"no such folder|no trace\.toml in it"):
                Trace.open(self.folder)
            assert self.safe == 0
            return
        trace = Trace.open(self.folder)
        assert validate(self.folder) == []
        assert self.safe <= trace.n_rounds
        assert trace.n_rounds % WHOLE == 0 or trace.n_rounds == ROUNDS
        for name, data in files(self.folder).items():
            assert atomic_files.is_temporary(Path(name).name) or data == expected[name]


def fault(life: Life, expected: dict[str, bytes], *allowed: int, resume: bool = False) -> str:
    """What is wrong after processes of so many calls each and one that lives; empty if nothing is."""
    try:
        for number, calls in enumerate(allowed):
            life.process(resume=resume or number > 0, allowed=calls)
            life.look(expected)
        life.process(resume=True)
    except (FoltrAuditError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    found = files(life.folder)
    wrong = sorted(name for name in found | expected if found.get(name) != expected.get(name))
    return f"other files: {', '.join(wrong)}" if wrong else ""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with TraceWriter(folder, HEADER) as writer:
        for number in range(ROUNDS):
            writer.write(*make(number))
    assert validate(folder) == []
    return files(folder)


def test_every_change_of_the_disk_is_counted(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    disk = Life(tmp_path / "trace").process(resume=False)
    assert files(tmp_path / "trace") == undisturbed
    written = len(undisturbed)
    assert disk.calls["open"] == disk.calls["replace"] == written
    parts = len(list((tmp_path / "trace").glob("part-*.json")))
    assert disk.calls["write"] == 2 * written  # the halves
    # Each file; the folder after the header, and three folders after the files of a part.
    assert disk.calls["fsync"] == written + 1 + 3 * parts
    assert disk.calls["mkdir"] >= 3  # the folder, observed, truth


def test_killed_before_any_call(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    calls = Life(tmp_path / "whole").process(resume=False).calls.total()
    faults = {n: fault(Life(tmp_path / str(n)), undisturbed, n) for n in range(calls + 1)}
    assert {n: text for n, text in faults.items() if text} == {}


@pytest.mark.slow
def test_killed_before_any_call_of_a_resumed_run(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """It finds a short last part, whose marker and files it removes, and what a dead process left."""

    def begun(name: str) -> Life:
        life = Life(tmp_path / name)
        life.process(resume=False)
        for left in (".part-00002.json.bb.tmp", "observed/.rounds-00002.npz.aa.tmp"):
            (life.folder / left).write_bytes(b"half")
        return life

    disk = begun("whole").process(resume=True)
    assert disk.calls["unlink"] == 1 + 6 + 2
    faults = {n: fault(begun(str(n)), undisturbed, n, resume=True) for n in range(disk.calls.total() + 1)}
    assert {n: text for n, text in faults.items() if text} == {}


@pytest.mark.parametrize("seed", range(3))
def test_killed_many_times(tmp_path: Path, undisturbed: dict[str, bytes], seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  no secret
    allowed = [chance.randrange(70) for _ in range(12)]
    assert fault(Life(tmp_path / "trace"), undisturbed, *allowed) == ""


@pytest.mark.slow
def test_a_run_killed_before_any_call(tmp_path: Path) -> None:
    def attack(folder: Path, *options: str, allowed: float = math.inf) -> Disk:
        disk = Disk(allowed)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
            disk.install(patch)
            done = run("attack", *SMALL, "--click-model", "perfect", "--out", folder, *options)
            assert done.code == 0, done.err
        return disk

    calls = attack(tmp_path / "whole").calls
    expected = files(tmp_path / "whole")
    # The Spec claims the folder, and is written again with the Run.
    assert calls["replace"] == len(expected) + 1
    for n in range(calls.total()):
        attack(tmp_path / str(n), allowed=n)
        attack(tmp_path / str(n), "--resume")
    found = {n: files(tmp_path / str(n)) for n in range(calls.total())}
    assert {n: sorted(found[n].keys() ^ expected) for n in found if found[n] != expected} == {}
