"""What recording costs a Flower server with 10,000 clients a round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.timing import TimingSpread

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-flower"
_CLIENTS, _PARAMETERS = 10_000, 46


def flower_recording(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Processor time of a server that records over that of one that does not, and bytes a message.

    Nothing where `make flower` has not made the environment.
    """
    if not (ENVIRONMENT / ".installed").exists():
        print("no environment with Flower: make flower", file=sys.stderr)
        return []
    clients = 50 if options.quick else _CLIENTS
    command = [str(ENVIRONMENT / "bin" / "python"), "-m", "benchmarks.flower_server"]
    done = subprocess.run(
        [*command, str(clients), str(_PARAMETERS), str(options.turns)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'recorder'}:{ROOT}", "FLWR_TELEMETRY_ENABLED": "0"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    ratios = TimingSpread.of([recorded / plain for plain, recorded in found["pairs"]])
    extra = TimingSpread.of([(recorded - plain) / clients * 1e6 for plain, recorded in found["pairs"]])
    return [
        BenchmarkFigure.of(
            "flower.recorded_over_plain", f"Flower server, {clients} clients: recorded / not", ratios, "x"
        ),
        BenchmarkFigure.of("flower.message", "recording a message of 46 numbers", extra, "µs"),
        BenchmarkFigure("flower.bytes", "trace, bytes a message", found["bytes"] / clients, "bytes"),
    ]
