"""Whole processes: what a command line takes from start to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.timing import TimingSpread

_LAUNCHER = Path(__file__).with_name("launcher.py")


@dataclass(frozen=True)
class CommandResult:
    """A command that has ended well.

    Attributes:
        seconds: from start to end.
        processor: seconds of all cores.
        peak: highest resident memory, bytes.
        out: what it printed on stdout.
    """

    seconds: float
    processor: float
    peak: int
    out: str


def run(*command: str, codes: tuple[int, ...] = (0,), **environment: str) -> CommandResult:
    """Run a command in a process of its own, with more environment variables.

    Raises:
        RuntimeError: its exit code is none of `codes`.
    """
    launch = [sys.executable, "-I", "-S", str(_LAUNCHER), *command]
    around = {**os.environ, **environment}
    row = json.loads(subprocess.run(launch, capture_output=True, text=True, check=True, env=around).stdout)
    if row["code"] not in codes:
        raise RuntimeError(f"{' '.join(command)} ended with {row['code']}: {row['err'].strip()}")
    return CommandResult(seconds=row["seconds"], processor=row["processor"], peak=row["peak"], out=row["out"])


def foltr_audit(*arguments: str, codes: tuple[int, ...] = (0,), **environment: str) -> CommandResult:
    """Run foltr-audit as installed with this Python, or else as a module."""
    script = Path(sys.executable).with_name("foltr-audit")
    program = [str(script)] if script.is_file() else [sys.executable, "-m", "foltr_audit"]
    return run(*program, *arguments, codes=codes, **environment)


def start_up(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Processor time of help pages, of the main job, and of compiling kernels in its first run.

    The latter two are told as ratios to that of importing numba, since processors differ. Processor time,
    because other work on the machine changes it little.
    """
    job = ["attack", "--method", "olsr", "--eps", "1.2"]
    if options.quick:
        job += ["--data", "synthetic:mq2007:30", "--clients", "10", "--rounds", "1"]
    helps = {"help": ["--help"], "attack_help": ["attack", "--help"]}
    commands = {**helps, "attack": job}
    taken: dict[str, list[float]] = {name: [] for name in (*commands, "numba")}
    if not options.quick:
        for arguments in commands.values():
            foltr_audit(*arguments)
    for _ in range(options.processes):
        for name, arguments in commands.items():
            taken[name].append(foltr_audit(*arguments).processor)
        taken["numba"].append(run(sys.executable, "-c", "import numba").processor)
    with TemporaryDirectory() as empty:
        first = foltr_audit(*job, NUMBA_CACHE_DIR=empty).processor
    spreads = {name: TimingSpread.of(values) for name, values in taken.items()}
    numba, text = spreads["numba"].value, f"foltr-audit {' '.join(job)}"
    ratios = TimingSpread.of([one / two for one, two in zip(taken["attack"], taken["numba"], strict=True)])
    compiled = (first - spreads["attack"].value) / numba
    return [
        *(
            BenchmarkFigure.of(
                f"start.{name}", f"foltr-audit {' '.join(of)}, processor time", spreads[name], "s"
            )
            for name, of in helps.items()
        ),
        BenchmarkFigure.of("start.numba", "python -c 'import numba', processor time", spreads["numba"], "s"),
        BenchmarkFigure.of("start.attack", f"{text}, processor time over that", ratios, "x"),
        BenchmarkFigure(
            "start.compile", "what its kernels take to compile in a first run, over that too", compiled, "x"
        ),
    ]


def whole_commands(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Seconds of the default comparison, of its dry run and of the default audit, on all cores.

    The comparison runs once: it is long, and its 210 cells are its repetitions.
    """
    small = ["--data", "synthetic:mq2007:30", "--clients", "10", "--rounds", "1"] if options.quick else []
    few = ["--runs", "1", "--eps", "1.2", "--click-model", "perfect"] if options.quick else []
    trials = ["--trials", "200"] if options.quick else []
    audit = ["audit", "--eps", "1.2", *small, *trials]
    dry = ["compare", "--dry-run", *small, *few]
    if not options.quick:
        foltr_audit("audit", "--eps", "1.2", "--trials", "100", codes=(0, 1))  # kernels are compiled here
    taken: dict[str, list[float]] = {"audit": [], "dry_run": []}
    for _ in range(min(3, options.processes)):
        taken["audit"].append(foltr_audit(*audit, codes=(0, 1)).seconds)  # 1: the claim is refuted
        taken["dry_run"].append(foltr_audit(*dry).seconds)
    taken["compare"] = [foltr_audit("compare", *small, *few, *trials).seconds]
    texts = {"audit": "audit --eps 1.2", "dry_run": "compare --dry-run", "compare": "compare, 210 cells"}
    return [
        BenchmarkFigure.of(f"commands.{name}", f"foltr-audit {text}", TimingSpread.of(taken[name]), "s")
        for name, text in texts.items()
    ]
