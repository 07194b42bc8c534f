"""Ten thousand to a hundred thousand clients, in memory that does not grow with the rounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from foltr_audit.trace import Trace, validate

DATA = ("--data", "synthetic:mq2007:60", "--eps", "1.2")
STATUS = Path("/proc/self/status")
MEASURE = """
import re, sys
from pathlib import Path
from foltr_audit.cli.main import main
code = main(sys.argv[1:])
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1], file=sys.stderr)
sys.exit(code)
"""

pytestmark = pytest.mark.skipif(
    not (STATUS.is_file() and "VmHWM" in STATUS.read_text()),
    reason="the system does not tell a process its peak memory",
)


def peak_bytes(*options: object) -> int:
    """Peak resident memory of a training process of its own, told by itself.

    What a parent is told of its child includes the parent's own size when it was forked.
    """
    command = [sys.executable, "-c", MEASURE, "train", *DATA, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stderr.splitlines()[-1]) * 1024


@pytest.mark.slow
@pytest.mark.parametrize("record", [(), ("--no-trace",), ("--trace-every", 3)])
def test_more_rounds_take_no_more_memory(tmp_path: Path, record: tuple[object, ...]) -> None:
    options = ("--clients", 20_000, *record)
    few = peak_bytes(*options, "--rounds", 3, "--out", tmp_path / "few")
    many = peak_bytes(*options, "--rounds", 15, "--out", tmp_path / "many")
    assert many < few + 100e6  # the messages of twelve rounds and their truth are 230 MB more
    assert Trace.open(tmp_path / "many" / "trace").n_rounds == 15


@pytest.mark.slow
@pytest.mark.parametrize("clients", [10_000, 100_000])
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
