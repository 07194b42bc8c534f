"""A thousand to a hundred thousand clients, in memory that does not grow with the rounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foltr_audit.trace import Trace, validate

DATA = ("--data", "synthetic:mq2007:60", "--eps", "1.2")


def peak_bytes(*options: object) -> int:
    """Peak resident memory of a training process of its own."""
    command = [sys.executable, "-m", "foltr_audit", "train", *DATA, *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.parametrize("record", [(), ("--no-trace",), ("--trace-every", 3)])
def test_more_rounds_take_no_more_memory(tmp_path: Path, record: tuple[object, ...]) -> None:
    options = ("--clients", 20_000, *record)
    few = peak_bytes(*options, "--rounds", 3, "--out", tmp_path / "few")
    many = peak_bytes(*options, "--rounds", 15, "--out", tmp_path / "many")
    assert many < few + 100e6  # the messages of twelve rounds and their truth are 230 MB more
    assert Trace.open(tmp_path / "many" / "trace").n_rounds == 15


@pytest.mark.parametrize("clients", [1_000, 10_000, 100_000])
def test_so_many_clients(tmp_path: Path, clients: int) -> None:
    peak = peak_bytes("--clients", clients, "--rounds", 1, "--out", tmp_path / "run")
    assert peak < 1024**3
    trace = Trace.open(tmp_path / "run" / "trace")
    assert (trace.n_messages, trace.n_interactions) == (clients, 4 * clients)
    assert validate(tmp_path / "run" / "trace") == []


def test_a_small_cohort_of_a_large_population(tmp_path: Path) -> None:
    peak = peak_bytes("--clients", 1_000_000, "--cohort", 500, "--rounds", 2, "--out", tmp_path / "run")
    assert peak < 0.5 * 1024**3
    for truth in Trace.open(tmp_path / "run" / "trace").truths():
        assert truth.clients.size == 500
        assert truth.clients.max() > 500_000
