"""Speed of the trace writer alone, and the size of what it writes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from benchmarks.figures import BenchmarkFigure
from benchmarks.options import BenchmarkOptions
from benchmarks.scratch_folder import ScratchFolder
from benchmarks.shapes import mq2007
from benchmarks.timing import TimingTask, interleave
from foltr_audit.experiments.stages import first_model
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.trace import TraceWriter

_ROUNDS = 20
_FILES = {
    "bytes_per_float": ("size of the whole trace, truth included", "**/*"),
    "observed_per_float": ("size of the observed part", "observed/*"),
    "messages_per_float": ("size of the messages", "observed/messages*"),
}


def tracing(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    """Megabytes of messages a second, and bytes on disk for each float32 that was sent."""
    shape = mq2007(options)
    setup = shape.whole(shape.collection())
    header = trace_header(setup, setup.spec.train.click_model, shape.clients)
    played = islice(Federation(setup).rounds(first_model(setup)), 2 if options.quick else _ROUNDS)
    rounds = [round_.recorded() for round_ in played]
    floats = sum(record.messages.size for record, _ in rounds)

    def write(folder: Path) -> None:
        with TraceWriter(folder, header) as writer:
            for record, truth in rounds:
                writer.write(record, truth)

    traces = ScratchFolder()

    def work(n: int) -> None:
        for _ in range(n):
            write(traces.fresh() / "trace")

    task = TimingTask("write", work, floats * 4 / 1e6, tidy=traces.clear)
    rates = interleave([task], options.turns, options.least)
    path = traces.fresh() / "trace"
    write(path)
    sizes = {name: _size(path, pattern) / floats for name, (_, pattern) in _FILES.items()}
    written = rates.rate("write")
    return [
        BenchmarkFigure.of(
            "trace.messages", "trace writer: float32 messages with their truth", written, "MB/s"
        ),
        *(
            BenchmarkFigure(f"trace.{name}", text, sizes[name], "bytes/float32")
            for name, (text, _) in _FILES.items()
        ),
    ]


def _size(path: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in path.glob(pattern) if file.is_file())
