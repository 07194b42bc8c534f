"""Ctrl-C and kill -9 lose at most the open part, and `--resume` ends with the same bytes."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from foltr_audit.recorder import atomic_files

from foltr_audit.trace import Trace
from tests.fixtures.command import SMALL, files, run, spawn

WORLD = "--data synthetic:mq2007:60 --eps 1.2 --clients 600 --rounds 100 --interactions 2"
OPTIONS = f"{WORLD} --click-model perfect --click-model navigational --json".split()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of an undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    assert run("attack", *OPTIONS, "--out", folder / "a").code == 0  # compiles kernels if it must
    assert len(list(folder.glob("a/trace/part-*.json"))) > 2
    return files(folder / "a")


@pytest.fixture(scope="module")
def seconds(undisturbed: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long a process takes for them."""
    folder = tmp_path_factory.mktemp("process")
    begin = time.monotonic()
    assert spawn("attack", *OPTIONS, "--out", folder / "b").code == 0
    taken = time.monotonic() - begin
    assert files(folder / "b") == undisturbed
    return taken


def _begin(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "foltr_audit", "attack", *OPTIONS, "--out", str(folder), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _wait_for_part(process: subprocess.Popen[str], folder: Path) -> None:
    until = time.monotonic() + 60
    while not list(folder.glob("trace/part-*.json")) and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.002)


def test_ctrl_c_is_one_line_that_says_how_to_go_on(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    folder = tmp_path / "run"
    process = _begin(folder)
    _wait_for_part(process, folder)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if process.returncode != 0:  # else it was quicker than the signal
        assert process.returncode == 130
        assert out == ""
        assert len(err.splitlines()) == 1
        assert "--resume" in err
    assert run("attack", *OPTIONS, "--out", folder, "--resume").code == 0
    assert files(folder) == undisturbed


def _stage(folder: Path) -> str:
    """How far a run has come, by its files."""
    last_first = {"results.json": "done", "model.npy": "trained", "trace/part-*.json": "training"}
    for name, stage in {**last_first, "spec.toml": "begun"}.items():
        if list(folder.glob(name)):
            return stage
    return "nothing"


def _whole_parts(folder: Path) -> dict[Path, int]:
    """The markers of all whole parts, and when they were written; what is there must be readable."""
    found = {}
    for header in sorted(folder.rglob("trace.toml")):
        trace = Trace.open(header.parent)
        trace.check_files()
        for part in trace.parts:
            if part.n_rounds == trace.header.rounds_per_part:
                marker = trace.folder / f"part-{part.index:05d}.json"
                found[marker] = marker.stat().st_mtime_ns
    return found


def _kill_again_and_again(
    folder: Path, whole: dict[str, bytes], seconds: float, kills: int, seed: int
) -> Counter[str]:
    """Kill the runs of a folder at random moments within some seconds, and count by how far they had come.

    A run that ends before its moment has come must be whole; the folder is then begun anew.
    """
    chance, stages = random.Random(seed), Counter[str]()  # noqa: S311  no secret
    options: list[str] = []
    parts: dict[Path, int] = {}
    while stages.total() < kills:
        begin = time.monotonic()
        process = _begin(folder, *options)
        try:
            process.wait(chance.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            process.kill()
        _, err = process.communicate(timeout=60)
        for name, data in files(folder).items():
            assert atomic_files.is_temporary(Path(name).name) or data == whole[name]
        found = _whole_parts(folder)
        assert parts.items() <= found.items()  # no whole part is lost or made again
        if process.returncode == -signal.SIGKILL:
            stages[_stage(folder)] += 1
            options, parts = ["--resume"], found
            if chance.random() < 0.5:  # else all kills but the first meet a run that is nearly done
                shutil.rmtree(folder, ignore_errors=True)
                options, parts = [], {}
        else:
            assert process.returncode == 0, err
            assert files(folder) == whole
            seconds = min(seconds, time.monotonic() - begin) if not options else seconds
            shutil.rmtree(folder)
            options, parts = [], {}
    assert run("attack", *OPTIONS, "--out", folder, "--resume").code == 0
    assert files(folder) == whole
    return stages


@pytest.mark.slow
def test_kills_at_random_moments_lose_nothing_committed(
    tmp_path: Path, undisturbed: dict[str, bytes], seconds: float
) -> None:
    stages = _kill_again_and_again(tmp_path / "run", undisturbed, seconds, kills=6, seed=1)
    assert len(stages) > 1


@pytest.mark.slow
def test_many_more_kills(tmp_path: Path, undisturbed: dict[str, bytes], seconds: float) -> None:
    stages = _kill_again_and_again(tmp_path / "run", undisturbed, seconds, kills=80, seed=2)
    assert {"begun", "training", "trained"} <= stages.keys()


def test_resume_of_a_missing_or_empty_folder_begins(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, more in (("empty", ["--resume"]), ("missing", ["--resume"]), ("whole", [])):
        assert run("attack", *SMALL, "--out", tmp_path / name, *more).code == 0
    assert files(tmp_path / "empty") == files(tmp_path / "missing") == files(tmp_path / "whole")


def test_resume_removes_what_a_kill_left(tmp_path: Path) -> None:
    """A file that was being written has a temporary one beside it."""
    assert run("attack", *SMALL, "--out", tmp_path).code == 0
    whole = files(tmp_path)
    written = [path for path in tmp_path.rglob("*.*") if path.is_file()]
    for path in written:
        path.with_name(f".{path.name}.0123456789abcdef.tmp").write_bytes(b"half")
    assert run("attack", *SMALL, "--out", tmp_path, "--resume").code == 0
    assert files(tmp_path) == whole


def _interrupt_after(removals: int, patch: pytest.MonkeyPatch) -> None:
    """Let so many files be removed, and none after them."""
    real, left = Path.unlink, iter(range(removals))

    def unlink(path: Path) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        real(path)

    patch.setattr(Path, "unlink", unlink)


def test_killed_while_overwriting_leaves_a_run_that_resumes(tmp_path: Path) -> None:
    """However many files are gone by then: the Run is resumed, or refused as one of another Spec."""
    options = (*SMALL, "--click-model", "perfect")
    assert run("attack", *options, "--out", tmp_path / "whole").code == 0
    whole = files(tmp_path / "whole")
    for removed in range(len(whole)):
        folder = tmp_path / str(removed)
        shutil.copytree(tmp_path / "whole", folder)
        with pytest.MonkeyPatch.context() as patch:
            _interrupt_after(removed, patch)
            assert run("attack", *options, "--out", folder, "--overwrite").code == 130
        assert len(files(folder)) == len(whole) - removed
        other = run("attack", *options, "--seed", 9, "--out", folder, "--resume")
        assert other.code == 2
        assert "seed is 1 there and 9 here" in other.err
        assert run("attack", *options, "--out", folder, "--resume").code == 0
        assert files(folder) == whole
