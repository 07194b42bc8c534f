"""Parts that another thread puts on the disk: the same bytes, and errors that come back."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from foltr_audit.recorder import part_files

from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.trace import Trace, TraceWriter, validate
from foltr_audit.trace import writer as trace_writer
from tests.fixtures.command import files
from tests.trace.test_damage import HEADER, ROUNDS, make, write


def test_the_bytes_are_the_same(tmp_path: Path) -> None:
    write(tmp_path / "here")
    for until, resume in ((3, False), (ROUNDS, True)):
        with TraceWriter(tmp_path / "behind", HEADER, resume=resume, behind=True) as writer:
            for number in range(writer.next_round, until):
                writer.write(*make(number))
    assert files(tmp_path / "behind") == files(tmp_path / "here")
    assert validate(tmp_path / "behind") == []


def test_rounds_are_taken_while_a_part_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk waits for a round of the next part; without `behind` nobody would take one."""
    taken = threading.Event()

    def slow(folder: Path, files: dict[str, list[bytes | memoryview]]) -> None:
        assert taken.wait(60)
        part_files.commit_part(folder, files)

    monkeypatch.setattr(trace_writer, "commit_part", slow)
    with TraceWriter(tmp_path, HEADER, behind=True) as writer:
        for number in range(HEADER.rounds_per_part + 1):
            writer.write(*make(number))
        taken.set()
    assert Trace.open(tmp_path).n_rounds == HEADER.rounds_per_part + 1


@pytest.mark.parametrize("parts", [1, 2])
def test_a_full_disk_is_told_with_the_next_part_or_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    writer = TraceWriter(tmp_path, HEADER, behind=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        last = parts * HEADER.rounds_per_part - 1
        for number in range(last):
            writer.write(*make(number))
        with pytest.raises(FoltrAuditError, match="cannot be written: No space left on device"):
            _finish(writer, last)
    with pytest.raises(UsageError, match="the writer is closed"):
        writer.write(*make(last + 1))
    writer.close()
    assert Trace.open(tmp_path).n_rounds == 0
    assert not list(tmp_path.rglob("*.tmp"))


def _finish(writer: TraceWriter, last: int) -> None:
    writer.write(*make(last))
    writer.close()


def _interrupted(folder: Path) -> None:
    with TraceWriter(folder, HEADER, behind=True) as writer:
        for number in range(3):
            writer.write(*make(number))
        raise KeyError


def test_after_an_exception_whole_parts_stay(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        _interrupted(tmp_path)
    assert Trace.open(tmp_path).n_rounds == HEADER.rounds_per_part
    assert validate(tmp_path) == []
