"""Many small cells, whose processes are killed, interrupted and started side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.cli.main import INTERRUPTED
from foltr_audit.experiments.comparison.workers import Workers
from tests.fixtures.cell_grids import begun, run_all, start, stored, tiny_cells
from tests.fixtures.command import files

CELLS = 12


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process without workers makes of the cells."""
    path = tmp_path_factory.mktemp("alone") / "folder"
    assert run_all(path, tiny_cells(CELLS), Workers(jobs=1)) == []
    assert len(stored(path)) == CELLS
    return path


def kill_when(
    process: subprocess.Popen[str], path: Path, finished: int, number: int = signal.SIGKILL
) -> None:
    """Send a signal to a process group once so many cells are finished, or when it has ended."""
    while process.poll() is None and len(stored(path)) < finished:
        time.sleep(0.01)
    if process.poll() is None:
        os.killpg(process.pid, number)


def counted(path: Path) -> Counter[str]:
    """How often each cell was stored."""
    return Counter((path.parent / f"{path.name}.count").read_text().split())


def test_a_killed_comparison_goes_on_and_its_bytes_are_those_of_one_process(
    alone: Path, tmp_path: Path
) -> None:
    path = tmp_path / "folder"
    with start(path, CELLS, jobs=2) as process:
        kill_when(process, path, finished=3)
    assert len(stored(path)) >= 3
    assert run_all(path, tiny_cells(CELLS), Workers(jobs=1)) == []
    assert files(path) == files(alone)


def test_two_processes_share_the_cells_and_run_each_once(alone: Path, tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with start(path, CELLS, jobs=1) as one, start(path, CELLS, jobs=1) as other:
        pass
    assert (one.returncode, other.returncode) == (0, 0)
    assert counted(path) == Counter(stored(alone))
    assert files(path) == files(alone)


def test_ctrl_c_ends_it_without_a_word_and_keeps_what_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with start(path, 300, jobs=2) as process:
        kill_when(process, path, finished=2, number=signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert said == ""
    assert 2 <= len(stored(path)) < 300
    noted = counted(path)
    assert set(noted) <= set(stored(path))
    assert len(stored(path)) - len(noted) <= 1, "one may be stored and not yet noted"
    assert set(noted.values()) <= {1}


@pytest.mark.slow
def test_a_thousand_cells_survive_kills_at_random_moments(tmp_path: Path) -> None:
    count = 1000
    cells, dice = tiny_cells(count), np.random.default_rng(7)
    path = tmp_path / "killed"
    for _ in range(8):
        with start(path, count, jobs=2) as process:
            time.sleep(dice.uniform(0.5, 6.0))
            if dice.random() < 0.5:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()  # its workers see to their own end
    with start(path, count, jobs=2) as process:
        pass
    assert process.returncode == 0
    assert len(stored(path)) == count
    ways = {"one": Workers(jobs=1), "two": Workers(jobs=2), "dask": Workers(backend="dask", jobs=2)}
    for name, workers in ways.items():
        if name == "dask":
            pytest.importorskip("distributed")
        assert run_all(tmp_path / name, cells, workers) == []
        assert files(tmp_path / name) == files(path), name
    assert begun(path, cells).cells() == cells
