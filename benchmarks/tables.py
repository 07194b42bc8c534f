"""The figures with their targets, on a terminal and as Markdown; and the lines of other tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import TARGETS, BenchmarkFigure, BenchmarkReport

if TYPE_CHECKING:
    from rich.table import Table

_SUBJECTS = {
    "mq2007": "MQ2007 shape (1,000 clients x 4)",
    "mslr": "MSLR shape (1,000 clients x 2)",
    "learners": "Learners at the MQ2007 shape (1,000 clients x 4)",
    "letor": "Reading LETOR text",
    "trace": "Trace",
    "flower": "Recording a Flower server",
    "start": "Start-up, whole processes",
    "commands": "Commands with their defaults, whole processes",
    "order": "The same bits on every processor",
    "libraries": "Written by hand, compared with a library",
    "scale": "Growth with size, one thread",
    "papers": "Runs of Wang et al. 2021, whole processes",
}
PICTURE = "docs/static/growth.svg"
"""The growth curves beside the table."""
_HEADS = ("", "median", "unit", "lowest .. highest", "target", "")
COMMANDS = """```
make bench          # all but the runs of the papers
make bench-papers   # the runs of the papers
make bench-table    # this file from the JSON of both
```"""


def number(value: float) -> str:
    """A number with three or four digits that mean something.

    >>> number(123456.0), number(51.234), number(0.3456)
    ('123,456', '51.2', '0.346')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _row(figure: BenchmarkFigure, report: BenchmarkReport) -> tuple[str, ...]:
    spread = ""
    if figure.low is not None and figure.high is not None:
        spread = f"{number(figure.low)} .. {number(figure.high)}"
    target = None if report.options.get("quick") else TARGETS.get(figure.key)
    told = verdict = ""
    if target is not None:
        told = f"{'>=' if target.kind == 'at least' else '<='} {number(target.limit)}"
        verdict = "met" if target.met(figure.value) else "missed"
    return figure.text, number(figure.value), figure.unit, spread, told, verdict


def _by_subject(report: BenchmarkReport) -> dict[str, list[BenchmarkFigure]]:
    found: dict[str, list[BenchmarkFigure]] = {name: [] for name in _SUBJECTS}
    for figure in report.figures:
        found[figure.key.partition(".")[0]].append(figure)
    return {name: figures for name, figures in found.items() if figures}


def _machine(report: BenchmarkReport) -> str:
    told = dict(report.machine)
    head = f"{told.pop('cpu')}, {told.pop('cores')} cores, {told.pop('memory_gib')} GiB, {told.pop('system')}"
    return f"{head}; {', '.join(f'{name} {value}' for name, value in told.items())}"


def _note(report: BenchmarkReport) -> str:
    if report.options.get("quick"):
        return "Quick mode: tiny sizes, the figures mean nothing."
    full = "all 10,000" if report.options.get("full") else "2,000"
    return (
        f"Synthetic data; the MSLR shape has {full} queries. Medians of interleaved repetitions; "
        "ratios are taken pair by pair."
    )


def terminal(report: BenchmarkReport) -> Table:
    from rich.table import Table

    table = Table(title=f"{_machine(report)}\n{_note(report)}", title_justify="left")
    for head in _HEADS:
        table.add_column(head, justify="right" if head in ("median", "lowest .. highest") else "left")
    for name, figures in _by_subject(report).items():
        table.add_section()
        table.add_row(f"[bold]{_SUBJECTS[name]}[/bold]")
        for figure in figures:
            row = _row(figure, report)
            table.add_row(*row, style="red" if row[-1] == "missed" else None)
    return table


def markdown(report: BenchmarkReport) -> str:
    """The text of BENCHMARKS.md."""
    lines = ["# Benchmarks", "", _machine(report) + ".", "", _note(report), "", COMMANDS]
    for name, figures in _by_subject(report).items():
        lines += ["", f"## {_SUBJECTS[name]}"]
        if name == "scale":
            lines += ["", f"![Time and memory of a unit at each size]({PICTURE})"]
        lines += ["", f"| {' | '.join(_HEADS)} |", "| --- | ---: | --- | ---: | --- | --- |"]
        lines += [f"| {' | '.join(_row(figure, report))} |" for figure in figures]
    return "\n".join(lines) + "\n"


def print_lines(lines: Iterable[str], path: Path | None) -> None:
    """Print the lines of a table as they come: to stdout, or to stderr and in the end into a file."""
    found = []
    for line in lines:
        found.append(line)
        print(line, file=sys.stderr if path else sys.stdout, flush=True)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(found) + "\n", encoding="utf-8")
