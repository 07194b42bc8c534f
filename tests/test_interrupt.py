"""Ctrl-C and kill -9 lose at most the open part, and `--resume` ends with the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command import files, run

OPTIONS = ("--data", "synthetic:mq2007:60", "--clients", "500", "--rounds", "120", "--eps", "1.2")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert run("attack", *OPTIONS, "--out", folder).code == 0
    return files(folder)


def _begin(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "foltr_audit", "attack", *OPTIONS, "--out", str(folder)]
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


@pytest.mark.parametrize("attempt", range(3))
def test_kill_at_a_random_moment_loses_nothing_committed(
    tmp_path: Path, undisturbed: dict[str, bytes], attempt: int
) -> None:
    folder = tmp_path / "run"
    process = _begin(folder)
    _wait_for_part(process, folder)
    time.sleep(random.Random(attempt).uniform(0, 0.5))  # noqa: S311  no secret
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert run("attack", *OPTIONS, "--out", folder, "--resume").code == 0
    assert files(folder) == undisturbed
