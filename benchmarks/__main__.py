"""Measures, prints a table, and writes JSON: `python -m benchmarks`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import machine, tables
from benchmarks.figures import BenchmarkFigure, BenchmarkReport
from benchmarks.options import BenchmarkOptions

Subject = Callable[[BenchmarkOptions], list[BenchmarkFigure]]


def _mq2007(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks import engine, shapes

    return engine.engine(shapes.mq2007(options), options)


def _mslr(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks import engine, shapes

    return engine.engine(shapes.mslr(options), options)


def _learners(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.learners import learners

    return learners(options)


def _attack(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.attacking import attacking

    return attacking(options)


def _reading(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.reading import reading

    return reading(options)


def _trace(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.tracing import tracing

    return tracing(options)


def _start(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.processes import start_up

    return start_up(options)


def _commands(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.processes import whole_commands

    return whole_commands(options)


def _order(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.fixed_order import fixed_order

    return fixed_order(options)


def _libraries(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.libraries import libraries

    return libraries(options)


def _papers(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.papers import papers

    return papers(options)


def _flower(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.flower_recording import flower_recording

    return flower_recording(options)


def _scale(options: BenchmarkOptions) -> list[BenchmarkFigure]:
    from benchmarks.scale import scale

    return scale(options)


SUBJECTS: dict[str, Subject] = {
    "mq2007": _mq2007,
    "mslr": _mslr,
    "learners": _learners,
    "attack": _attack,
    "reading": _reading,
    "trace": _trace,
    "start": _start,
    "commands": _commands,
    "order": _order,
    "libraries": _libraries,
    "flower": _flower,
    "scale": _scale,
    "papers": _papers,
}
_WIDTH = 140  # of the table where stdout is no terminal
DEFAULT = [name for name in SUBJECTS if name != "papers"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows only that everything runs")
    parser.add_argument("--full", action="store_true", help="the MSLR shape with all its 10,000 queries")
    parser.add_argument("--only", action="append", choices=SUBJECTS, help="measure this; repeatable")
    parser.add_argument("--repetitions", type=int, default=7, metavar="N", help="of each measurement")
    parser.add_argument("--read", nargs="+", type=Path, metavar="FILE", help="measure nothing: read JSON")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw growth curves, e.g. growth.svg")
    return parser


def measure(options: BenchmarkOptions, subjects: Sequence[str]) -> BenchmarkReport:
    """Measure some subjects, one after the other."""
    figures: list[BenchmarkFigure] = []
    for name in subjects:
        print(f"measuring {name} ...", file=sys.stderr)
        figures += SUBJECTS[name](options)
    return BenchmarkReport(machine.describe(), asdict(options), tuple(figures))


def read(paths: Sequence[Path]) -> BenchmarkReport:
    """The reports of some files as one.

    Raises:
        ValueError: a file that is no report, or reports that do not belong together.
    """
    reports = [BenchmarkReport.from_json(json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    whole = reports[0]
    for report in reports[1:]:
        whole = whole.with_figures_of(report)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    from rich.console import Console

    parser = _parser()
    given = parser.parse_args(arguments)
    if given.repetitions < 1:
        parser.error(f"--repetitions: {given.repetitions}; expected 1 or more")
    options = BenchmarkOptions(quick=given.quick, full=given.full, repetitions=given.repetitions)
    try:
        report = read(given.read) if given.read else measure(options, given.only or DEFAULT)
    except (OSError, ValueError) as error:
        if not given.read:
            raise
        parser.error(f"--read: {error}")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
    if given.markdown:
        given.markdown.write_text(tables.markdown(report), encoding="utf-8")
    if given.picture:
        from benchmarks.growth_picture import draw_growth

        try:
            draw_growth(given.picture, report.figures)
        except ValueError as error:
            parser.error(f"--picture: {error}")
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    console.print(tables.terminal(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
