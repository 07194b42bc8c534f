"""A comparison on four workers: its measured cells, put on workers as Dask does."""

from __future__ import annotations

import heapq
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.runner import run_cells, work
from foltr_audit.experiments.comparison.workers import Workers

WORKERS = 4
_FEW = 2  # cells of a run that is nearly all start


def makespan(durations: Sequence[float], workers: int, overhead: float) -> float:
    """When all pieces are done and stored: each goes to the first free worker, in order (list scheduling).

    The process that hands pieces out and stores results does one at a time: `overhead` seconds for each.

    Source: Graham 1966, "Bounds for certain multiprocessing anomalies", for list scheduling.

    >>> makespan([3.0, 1.0, 2.0], 2, 0.0), makespan([1.0, 1.0], 2, 0.5)
    (3.0, 2.0)
    """
    free = [0.0] * workers
    ends = []
    for duration in durations:
        end = heapq.heappop(free) + duration
        heapq.heappush(free, end)
        ends.append(end)
    stored = 0.0
    for end in sorted(ends):
        stored = max(stored, end) + overhead
    return stored


class MeasuredStudy(NamedTuple):
    """Cells of a study.

    Attributes:
        durations: processor seconds of each cell alone.
        overhead: processor seconds a cell of the process that hands cells to Dask workers and stores results.
    """

    durations: tuple[float, ...]
    overhead: float

    def speed_up(self, workers: int) -> float:
        """How many times faster so many workers are than one."""
        return makespan(self.durations, 1, self.overhead) / makespan(self.durations, workers, self.overhead)


def study(options: BenchmarkOptions) -> list[Spec]:
    """Cells that train and attack; they differ in defense and repetition."""
    table = {
        "data": {"source": "synthetic:mq2007:30" if options.quick else "synthetic:mq2007:200"},
        "population": {"clients": 10 if options.quick else 200},
        "train": {"rounds": 1 if options.quick else 20},
        "trace": {"every": 0},
        "attack": {"methods": ["olsr", "map"]},
    }
    chains = (["none"], ["clip:norm=1.5", "laplace:eps=1.2,sensitivity=3"])
    runs = range(2 if options.quick else 8)
    return [
        Spec.parse({**table, "defense": chain, "repetition": run}, "") for run in runs for chain in chains
    ]


def measure(cells: Sequence[Spec]) -> MeasuredStudy:
    """Run the cells alone and on two Dask workers of this machine.

    Raises:
        ImportError: Dask is not installed.
        RuntimeError: a cell failed, or the two ways do not store the same bytes.
    """
    import distributed  # noqa: F401

    for cell in cells[:_FEW]:  # one of each chain: compiles
        work((0, cell.table()))
    durations = []
    for number, cell in enumerate(cells):
        start = time.process_time()
        work((number, cell.table()))
        durations.append(time.process_time() - start)
    with tempfile.TemporaryDirectory() as path:
        here, few, there = (_folder(Path(path) / name) for name in ("here", "few", "there"))
        failed = run_cells(cells, here, Workers(jobs=1))
        spent = []  # by this process: its children are the workers
        for some, folder in ((cells[:_FEW], few), (cells, there)):
            start = time.process_time()
            failed += run_cells(some, folder, Workers(backend="dask", jobs=2))
            spent.append(time.process_time() - start)
        # The difference: starting a cluster takes the same for few cells and for all.
        overhead = max(0.0, spent[1] - spent[0]) / (len(cells) - _FEW)
        if failed:
            raise RuntimeError(failed[0].why)
        if stored_bytes(here.path) != stored_bytes(there.path):
            raise RuntimeError("two Dask workers stored other bytes than one process")
    return MeasuredStudy(tuple(durations), overhead)


def _folder(path: Path) -> ComparisonFolder:
    return ComparisonFolder.create(path, resume=False, overwrite=False)


def stored_bytes(path: Path) -> dict[str, bytes]:
    """The content of every file below a folder."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def four_workers(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """The speed of four workers, simulated from measured cells; nothing without Dask."""
    try:
        found = measure(study(options))
    except ImportError:
        return []
    mean = sum(found.durations) / len(found.durations)
    return [
        BenchmarkFigure("scale.dask.cell", f"a cell of a study of {len(found.durations)}, alone", mean, "s"),
        BenchmarkFigure("scale.dask.overhead", "handing a cell to Dask workers, and storing it",
                        found.overhead, "s"),
        BenchmarkFigure("scale.dask.speed_up", "four Dask workers / one, by simulated list scheduling",
                        found.speed_up(WORKERS), "x"),
    ]  # fmt: skip
