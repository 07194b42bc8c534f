"""Every way in which LETOR text can be wrong: one line that names the file and the line."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.core.records import Dataset
from foltr_audit.data import letor
from foltr_audit.data.letor import read_letor, write_letor
from foltr_audit.errors import DataError
from tests.fixtures.reference import dataset
from tests.golden_files import GOLDEN, played

GOOD = b"1 qid:7 1:0.5 2:1 #docid = a\n"


def refusal(path: Path, groups: Path | None = None) -> str:
    with pytest.raises(DataError) as caught:
        read_letor(path, groups=groups)
    message = str(caught.value)
    assert message.isprintable(), "one line without control characters"
    assert message.startswith("letor: ")
    return message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\x1b[2J qid:7 1:1", "label '\\x1b[2J' is not a number; expected 0 to 31"),
        (b"1 qid:7 1:\0", "a NUL byte; expected a text file, plain or gzip"),
        (b"1 qid:7 1:2 # caf\xe9", "bytes that are not UTF-8; expected a text file, plain or gzip"),
    ],
)
@pytest.mark.parametrize("batch", [1, 2 << 20], ids=["line-by-line", "at-once"])
def test_malformed_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int, line: bytes, message: str
) -> None:
    monkeypatch.setattr(letor, "_BATCH_BYTES", batch)
    path = tmp_path / "train.txt"
    before = b"0 qid:6 1:1\n\n# comment\r\n" + GOOD * 2
    path.write_bytes(before + line + b"\n" + GOOD)
    assert refusal(path) == f"letor: train.txt:6: {message}"
    path.write_bytes(gzip.compress(before + line))
    assert refusal(path) == f"letor: train.txt:6: {message}"


def test_line_by_line_is_refused_what_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letor, "_BATCH_BYTES", 1)
    monkeypatch.chdir(tmp_path)
    stored = (GOLDEN / "letor.console").read_text(encoding="utf-8")
    assert played(stored) == stored


@pytest.mark.parametrize("batch", [1, 2 << 20], ids=["line-by-line", "at-once"])
@pytest.mark.parametrize("second", [b"bad qid:7 1:1\n", b"1 qid:7 1:x\n", b"1 1:1\n"])
@pytest.mark.parametrize("first", [b"-1 qid:7 1:1\n", b"1 qid:7 1:1 1:1\n", b"1 qid: 1:1\n"])
def test_the_first_bad_line_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes, second: bytes, batch: int
) -> None:
    monkeypatch.setattr(letor, "_BATCH_BYTES", batch)
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD * 3 + first + GOOD + second)
    assert refusal(path).startswith("letor: train.txt:4: ")


def test_errors_name_the_fold(tmp_path: Path) -> None:
    path = tmp_path / "Fold3" / "train.txt"
    path.parent.mkdir()
    path.write_bytes(GOOD + b"x qid:7 1:1\n")
    assert refusal(path).startswith("letor: Fold3/train.txt:2: label 'x'")


def test_gzip_that_is_cut_short_or_changed(tmp_path: Path) -> None:
    packed = gzip.compress(GOOD * 1000)
    path = tmp_path / "train.txt.gz"
    changed = bytearray(packed)
    changed[-6] ^= 1  # the checksum
    garbled = packed[:20] + bytes(10) + packed[30:]
    for damaged in (packed[:-20], packed[:5], bytes(changed), garbled, packed + b"more"):
        path.write_bytes(damaged)
        assert refusal(path).startswith("letor: train.txt.gz: damaged gzip data (")


def test_files_that_are_none(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.txt") == f"letor: {tmp_path / 'none.txt'}: no such file"
    assert refusal(tmp_path) == f"letor: {tmp_path}: a folder, where a file is expected"
    (tmp_path / "train.txt").write_bytes(GOOD)
    below = tmp_path / "train.txt" / "part"
    assert refusal(below) == f"letor: {below}: cannot be read: Not a directory"
    (tmp_path / "loop").symlink_to("loop")
    assert "loop: cannot be read: " in refusal(tmp_path / "loop")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbidden)  # file modes do not stop root
    path = tmp_path / "train.txt"
    assert refusal(path) == f"letor: {path}: cannot be read: Permission denied"


def test_a_matrix_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("foltr_audit.data.letor.np.zeros", exhausted)
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD)
    assert refusal(path) == "letor: train.txt: 1 rows of 2 features do not fit into memory"


def small() -> Dataset:
    return replace(dataset([[1, 2], [3, 4]], [0, 1], [1, 1]), document_ids=("", "d"))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_letor(small(), tmp_path / "out.txt")
    before = (tmp_path / "out.txt").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("foltr_audit.recorder.atomic_files.os.fsync", full)
    with pytest.raises(DataError, match=r"out\.txt: cannot be written: No space left on device"):
        write_letor(replace(small(), labels=np.array([3, 3])), tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_writing_into_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be written: No such file or directory"):
        write_letor(small(), tmp_path / "none" / "out.txt")
