"""Reading LETOR text: rows per second compared with scikit-learn's reader, and memory."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks import processes
from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.timing import TimingSpread, TimingTask, WorkRates, interleave
from foltr_audit.data.letor import read_letor, write_letor
from foltr_audit.data.synthetic import synthesise

_QUERIES = 1300  # about 100,000 rows in the training part
_FEW = 16  # queries that scikit-learn reads: about 2,000 rows; its time grows faster than the rows
_READER = Path(__file__).with_name("reader_memory.py")


def reading(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Rates and memory for MSLR-like rows of 136 features."""
    data = synthesise("mslr-web10k", queries=15 if options.quick else _QUERIES).train
    few = data.select(range(3 if options.quick else _FEW))
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.txt", Path(folder) / "small.txt"
        write_letor(data, large)
        write_letor(few, small)
        megabytes = large.stat().st_size / 1e6
        rates = _rates(large, small, data.n_documents, few.n_documents, options)
        growth = _growth(small, large, options)
    rows, few_rows = rates.rate("large"), f"{few.n_documents:,} rows"
    return [
        BenchmarkFigure.of(
            "letor.rows", f"LETOR reader, {data.n_documents:,} rows of 136 features", rows, "rows/s"
        ),
        BenchmarkFigure.of("letor.few_rows", f"LETOR reader, {few_rows}", rates.rate("small"), "rows/s"),
        BenchmarkFigure.of(
            "letor.scikit_learn", f"scikit-learn, {few_rows}", rates.rate("scikit_learn"), "rows/s"
        ),
        BenchmarkFigure.of(
            "letor.over_scikit_learn",
            f"reader / scikit-learn, {few_rows}",
            rates.ratio("small", "scikit_learn"),
            "x",
        ),
        BenchmarkFigure("letor.text", "text read", megabytes * rows.value / data.n_documents, "MB/s"),
        BenchmarkFigure.of("letor.memory", "peak memory / parsed features", growth, "x"),
    ]


def _rates(large: Path, small: Path, rows: int, few: int, options: BenchmarkOptions) -> WorkRates:
    from sklearn.datasets import load_svmlight_file

    def ours(path: Path, n: int) -> None:
        for _ in range(n):
            read_letor(path)

    def theirs(n: int) -> None:
        for _ in range(n):
            load_svmlight_file(small, query_id=True)

    contestants = [
        TimingTask("large", lambda n: ours(large, n), rows),
        TimingTask("small", lambda n: ours(small, n), few),
        TimingTask("scikit_learn", theirs, few),
    ]
    return interleave(contestants, min(3, options.turns), options.least)


def _growth(small: Path, large: Path, options: BenchmarkOptions) -> TimingSpread:
    """Peak memory over the parsed features, each time in a fresh process."""
    ratios = []
    for _ in range(min(3, options.processes)):
        ended = processes.run(sys.executable, "-P", str(_READER), str(small), str(large))
        grown, parsed = (int(number) for number in ended.out.split())
        ratios.append(grown / parsed)
    return TimingSpread.of(ratios)
