"""How time and memory grow with the size of an experiment: each size in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.processes import run

SIZES: Mapping[str, tuple[int, ...]] = {
    "clients": (10_000, 100_000, 1_000_000),
    "rounds": (10, 30, 100),
    "cells": (100, 1_000, 10_000),
    "documents": (5_000, 15_000, 50_000),  # shorter lists cost hardly more than a round itself
    "features": (500, 1_500, 5_000),
}
"""The sizes of each subject, rising."""

_QUICK: Mapping[str, tuple[int, ...]] = dict.fromkeys(SIZES, (20, 40)) | {"rounds": (2, 4)}
_SMALL = {"clients": 1_000, "rounds": 3, "cells": 5, "documents": 500, "features": 50}
TEXTS: Mapping[str, tuple[str, str]] = {
    "clients": ("one round of so many clients", "client"),
    "rounds": ("rounds of 1 % of 100,000 clients, with a trace", "round"),
    "cells": ("a comparison of cells of some milliseconds, with its report", "cell"),
    "documents": ("lists of so many documents: a round, its evaluation, three attacks", "document"),
    "features": ("so many features: a round, its evaluation, three attacks", "feature"),
}
"""What is measured, and its unit."""

_ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_ROOT = Path(__file__).resolve().parents[1]


def scale(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Processor time and peak memory of a unit at each size, their growth, and four workers' schedule."""
    from benchmarks.schedule import four_workers

    figures: list[BenchmarkFigure] = []
    for subject, sizes in (_QUICK if options.quick else SIZES).items():
        small = 2 if options.quick else _SMALL[subject]
        figures += figures_of(subject, {size: _measured(subject, size, small) for size in sizes})
    return figures + four_workers(options)


def _measured(subject: str, size: int, small: int) -> tuple[float, float]:
    """Processor seconds and bytes of one size."""
    command = (sys.executable, "-m", "benchmarks.scale_worker", subject, str(size), str(small))
    told = run(*command, codes=(0,), **_ONE_THREAD, PYTHONPATH=str(_ROOT)).out.split()
    return float(told[-2]), float(told[-1])


def figures_of(subject: str, found: Mapping[int, tuple[float, float]]) -> list[BenchmarkFigure]:
    """The figures of one subject, from seconds and bytes by size, sizes rising.

    Memory that the small work before has left free is used again, so that a small size may seem to take none;
    it counts as one byte a unit, and growth is taken over the first size that takes some.
    """
    text, unit = TEXTS[subject]
    seconds = {size: spent / size for size, (spent, _) in found.items()}
    memory = {size: max(taken / size, 1.0) for size, (_, taken) in found.items()}
    figures = []
    for size in found:
        key, told = f"scale.{subject}", f"{text}: {size:,}"
        figures += [
            BenchmarkFigure(f"{key}.time_{size}", told, seconds[size] * 1e6, f"us/{unit}"),
            BenchmarkFigure(f"{key}.memory_{size}", "its peak memory", memory[size], f"bytes/{unit}"),
        ]
    first, last = min(found), max(found)
    some = next((size for size in found if memory[size] > 1.0), last)
    span = f"{last:,} / {first:,}"
    return [
        *figures,
        BenchmarkFigure(f"scale.{subject}.time_growth", f"time per {unit}, {span}",
                        seconds[last] / seconds[first], "x"),
        BenchmarkFigure(f"scale.{subject}.memory_growth", f"memory per {unit}, {last:,} / {some:,}",
                        memory[last] / memory[some], "x"),
    ]  # fmt: skip
