"""Killed writers, resumed writers, and damage that a reader must notice."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.trace import Trace, TraceDataset, TraceHeader, TraceWriter, validate
from tests.fixtures.command import files
from tests.fixtures.rounds import round_of

HEADER = TraceHeader(
    kind="update",
    dtype="float64",
    parameters=2,
    k=3,
    dataset=TraceDataset(source="letor", fold=0, fingerprint="00", normalised="none", parts=("train",)),
    has_truth=True,
    spec_hash="00",
    knowledge={"learning_rate": 0.1},
    rounds_per_part=2,
)
ROUNDS = 7


def make(number: int, shift: float = 0.0) -> tuple[RoundRecord, RoundTruth]:
    """Three messages; the second client shows one list, the third shows two."""
    values = np.arange(6.0).reshape(3, 2) + 10 * number + shift
    shown = np.array([[4, 2, -1], [0, 1, 2], [7, -1, -1]])
    record = round_of(
        values, shown, round=number, parameters=values[0], aggregate=values[2], slot=np.array([1, 2, 2]),
        step=np.array([0, 0, 1]), query=np.array([number, 5, 6]), survivors=np.array([True, True, False]),
    )  # fmt: skip
    clipped, metrics = np.array([False, True, False]), {"maxrr": number / 8}
    truth = RoundTruth(
        clients=np.array([9, 4, 1]), updates=values / 3, clicks=shown == 2, clipped=clipped, metrics=metrics
    )
    return record, truth


def write(folder: Path, *, until: int = ROUNDS, resume: bool = False, shift: float = 0.0) -> None:
    with TraceWriter(folder, HEADER, resume=resume) as writer:
        for number in range(writer.next_round, until):
            writer.write(*make(number, shift))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "trace"
    write(folder)
    assert validate(folder) == []
    return folder


@pytest.fixture
def trace(undisturbed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(undisturbed, tmp_path / "trace")


@pytest.mark.parametrize("until", [0, 1, 2, 3, 6, ROUNDS])
def test_resume_after_a_shorter_run(undisturbed: Path, tmp_path: Path, until: int) -> None:
    write(tmp_path, until=until)
    assert Trace.open(tmp_path).n_rounds == until
    writer = TraceWriter(tmp_path, HEADER, resume=True)
    assert writer.next_round == until // 2 * 2
    write(tmp_path, resume=True)
    assert files(tmp_path) == files(undisturbed)


def test_resume_replaces_uncommitted_parts(undisturbed: Path, trace: Path) -> None:
    for index in (2, 3):
        (trace / f"part-{index:05d}.json").unlink()
    cut = trace / "observed/messages-00002.npz"
    cut.write_bytes(cut.read_bytes()[:100])
    (trace / "truth/.clicks-00003.npz.aa.tmp").write_bytes(b"half")
    (trace / ".part-00002.json.bb.tmp").write_bytes(b"{")
    (trace / "observed/rounds-00009.npz").write_bytes(b"")
    assert Trace.open(trace).n_rounds == 4
    assert validate(trace) == []
    write(trace, resume=True)
    assert files(trace) == files(undisturbed)


def test_an_exception_commits_whole_parts_only(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, HEADER)
    with pytest.raises(KeyboardInterrupt):
        _interrupted(writer)
    assert Trace.open(tmp_path).n_rounds == HEADER.rounds_per_part
    assert validate(tmp_path) == []
    with pytest.raises(UsageError, match="the writer is closed"):
        writer.write(*make(3))


def _interrupted(writer: TraceWriter) -> None:
    with writer:
        for number in range(3):
            writer.write(*make(number))
        raise KeyboardInterrupt


def test_resume_refuses_another_header(trace: Path) -> None:
    before = files(trace)
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"knowledge": {"learning_rate": 0.2}}, "knowledge.learning_rate is 0.1 in the trace, 0.2 now"),
        ({"knowledge": {**HEADER.knowledge, "noise": "x"}}, "noise is absent in the trace, 'x' now"),
        ({"k": 10}, "k is 3 in the trace, 10 now"),
        ({"dataset": replace(HEADER.dataset, source="b")}, "source is 'letor' in the trace, 'b' now"),
    )
    for change, expected in changes:
        with pytest.raises(UsageError, match=f"cannot resume.*{re.escape(expected)}"):
            TraceWriter(trace, replace(HEADER, **change), resume=True)
    assert files(trace) == before


def test_resume_refuses_damage(trace: Path) -> None:
    flip(trace / "truth/messages-00001.npz")
    with pytest.raises(TraceError, match=r"messages-00001.npz: SHA-256 differs"):
        TraceWriter(trace, HEADER, resume=True)
    shutil.rmtree(trace / "truth")
    with pytest.raises(TraceError, match="its truth was removed"):
        TraceWriter(trace, HEADER, resume=True)


def test_no_second_trace_in_a_folder(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds a trace already"):
        TraceWriter(trace, HEADER)
    (trace / "trace.toml").unlink()
    with pytest.raises(UsageError, match="holds a trace already"):
        TraceWriter(trace, HEADER)
    with pytest.raises(TraceError, match=r"has parts but no trace.toml"):
        TraceWriter(trace, HEADER, resume=True)


def test_a_full_disk_is_one_line_and_loses_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    writer = TraceWriter(tmp_path, HEADER)
    for number in range(3):
        writer.write(*make(number))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(FoltrAuditError) as error:
            writer.write(*make(3))
    assert str(error.value) == f"trace: {tmp_path}: cannot be written: No space left on device"
    writer.close()
    assert Trace.open(tmp_path).n_rounds == 2
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "trace"):
        with pytest.raises(FoltrAuditError, match="cannot be written"):
            TraceWriter(folder, HEADER)
        with pytest.raises(UsageError, match="no such folder"):
            Trace.open(folder)


def flip(path: Path) -> None:
    """Alter one byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def swap(a: Path, b: Path) -> None:
    first = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(first)


def swap_parts(folder: Path, *, markers: bool) -> None:
    for path in sorted(folder.rglob("*-00000.npz")):
        swap(path, path.with_name(path.name.replace("00000", "00001")))
    if markers:
        swap(folder / "part-00000.json", folder / "part-00001.json")


def swap_and_renumber(folder: Path) -> None:
    """Swap two parts and make their markers say so: only the rounds are out of order."""
    swap_parts(folder, markers=True)
    for index, other in ((0, 1), (1, 0)):
        path = folder / f"part-{index:05d}.json"
        text = path.read_text().replace(f"-{other:05d}.", f"-{index:05d}.")
        path.write_text(text.replace(f'"index": {other}', f'"index": {index}'))


def foreign(folder: Path, *, marker: bool) -> None:
    other = folder.parent / "other"
    with TraceWriter(other, replace(HEADER, spec_hash="another")) as writer:
        for number in range(4):
            writer.write(*make(number, 0.5))
    names = [f"observed/{table}-00001.npz" for table in ("rounds", "messages", "interactions")]
    for name in names + ["part-00001.json"] * marker:
        shutil.copy(other / name, folder / name)


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return change


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, size)


def gone(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


DAMAGE: tuple[tuple[Callable[[Path], object], str], ...] = (
    (cut("observed/messages-00001.npz", 90), "messages-00001.npz: has 90 bytes"),
    (cut("observed/rounds-00000.npz", 0), "rounds-00000.npz: has 0 bytes"),
    (
        lambda folder: flip(folder / "observed/interactions-00002.npz"),
        "interactions-00002.npz: SHA-256 differs from part-00002.json; it was cut, altered or",
    ),
    (lambda folder: swap_parts(folder, markers=False), ".*it is the file observed/rounds-00001.npz"),
    (lambda folder: swap_parts(folder, markers=True), "is the marker of part 1, expected part 0"),
    (swap_and_renumber, "part-00000.json: begins with round 2, expected round 0"),
    (lambda folder: foreign(folder, marker=True), r"00001.json: belongs to trace \w{12}, expected \w{12}"),
    (lambda folder: foreign(folder, marker=False), "00001.npz: .*taken from another trace"),
    (gone("part-00001.json"), "part-00001.json: missing, though part-00002.json exists"),
    (gone("observed/messages-00000.npz"), "messages-00000.npz: missing, though part-00000.json exists"),
    (cut("part-00003.json", 40), "part-00003.json: not JSON: "),
    (edit("part-00000.json", "observed/messages-00000", "../messages-00000"), "00000.json: names the files"),
    (edit("part-00000.json", '"rows": 6', '"rows": 7'), r"truth/(messages|clicks) has \d rows, expected \d"),
    (edit("trace.toml", "rate = 0.1", "rate = 0.2"), "belongs to trace .* or trace.toml was changed"),
)


@pytest.mark.parametrize(("damage", "expected"), DAMAGE)
def test_damage_is_noticed(trace: Path, damage: Callable[[Path], object], expected: str) -> None:
    damage(trace)
    with pytest.raises(TraceError, match=f"{expected}[^\n]*$") as error:
        list(Trace.open(trace).rounds())
    assert error.value.exit_code == 3
    problems = validate(trace)
    assert any(re.search(expected, problem) for problem in problems)
    assert all(problem.startswith("trace: ") for problem in problems)


def test_truth_may_be_removed(trace: Path) -> None:
    shutil.rmtree(trace / "truth")
    opened = Trace.open(trace)
    assert not opened.has_truth
    assert validate(trace) == []
    assert len(list(opened.rounds())) == ROUNDS
    for ask in (opened.truths, opened.metrics):
        with pytest.raises(UsageError, match=r"has no truth; scoring needs"):
            ask()


def test_damaged_truth_does_not_keep_from_the_observed(trace: Path) -> None:
    swap(trace / "truth/messages-00000.npz", trace / "truth/messages-00001.npz")
    opened = Trace.open(trace)
    assert len(list(opened.rounds())) == ROUNDS
    assert len(opened.metrics()) == ROUNDS
    with pytest.raises(TraceError, match=r"it is the file truth/messages-00001"):
        list(opened.truths())
    assert len(validate(trace)) == 2
