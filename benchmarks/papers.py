"""The runs of Wang et al. 2021 as whole processes, evaluated every round, with time and peak memory.

Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
section 4.2: 1,000 clients a round; eps 1.2 is its strictest privacy level.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.processes import foltr_audit
from foltr_audit.data.load import FOLDER_VARIABLE

RUNS = {"mq2007": ("synthetic:mq2007", 4, 1000), "mslr": ("synthetic:mslr-web10k", 2, 200)}
"""Data, interactions of a client and rounds of each run."""

_QUICK = {"mq2007": ("synthetic:mq2007:30", 4, 3)}


def papers(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Both runs: their first round with an empty data cache, the whole run, and that with a trace."""
    runs, clients = (_QUICK, 20) if options.quick else (RUNS, 1000)
    figures = []
    for name, (source, interactions, rounds) in runs.items():
        command = [
            *("train", "--data", source, "--clients", str(clients), "--interactions", str(interactions)),
            *("--eps", "1.2", "--rounds"),
        ]
        with tempfile.TemporaryDirectory() as folder:
            run = partial(_figures, cache=Path(folder) / "cache")
            figures += run(f"papers.{name}_first", [*command, "1"], "the data are made")
            figures += run(f"papers.{name}", [*command, str(rounds)], "the data are cached")
            traced = [*command, str(rounds), "--out", str(Path(folder) / "run")]
            figures += run(f"papers.{name}_traced", traced, "with a trace")
    return figures


def _figures(key: str, command: list[str], note: str, cache: Path) -> list[BenchmarkFigure]:
    ended = foltr_audit(*command, "--json", codes=(0,), **{FOLDER_VARIABLE: str(cache)})
    words = command[: command.index("--out")] if "--out" in command else command
    figures = [
        BenchmarkFigure(f"{key}.seconds", f"foltr-audit {' '.join(words)}; {note}", ended.seconds, "s"),
        BenchmarkFigure(f"{key}.memory", "peak memory of it", ended.peak / 2**20, "MiB"),
    ]
    rate = json.loads(ended.out)["interactions_per_second"]
    if rate is not None:  # of the rounds after the first one, which may have compiled kernels
        figures.append(BenchmarkFigure(f"{key}.rate", "its rounds alone", float(rate), "interactions/s"))
    return figures
