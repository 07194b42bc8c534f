"""What a benchmark found, what the project wants it to be, and both as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from benchmarks.timing import TimingSpread

SCHEMA = "foltr-audit/bench/1"


@dataclass(frozen=True)
class BenchmarkFigure:
    """One measured number.

    Attributes:
        key: its name in JSON, e.g. `mq2007.engine_1`.
        text: what it is, in words.
        value: the median.
        unit: `x` for a ratio.
        low, high: lowest and highest repetition; None where there was one only.
    """

    key: str
    text: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, key: str, text: str, spread: TimingSpread, unit: str) -> BenchmarkFigure:
        """The figure of repeated measurements."""
        return cls(key, text, spread.value, unit, spread.low, spread.high)


@dataclass(frozen=True)
class FigureTarget:
    """What a figure should be at least or at most."""

    kind: Literal["at least", "at most"]
    limit: float

    def met(self, value: float) -> bool:
        return value >= self.limit if self.kind == "at least" else value <= self.limit


TARGETS: Mapping[str, FigureTarget] = {
    "mq2007.engine_over_plain": FigureTarget("at least", 50),
    "mq2007.engine_of_limit": FigureTarget("at least", 0.35),
    "mq2007.two_threads": FigureTarget("at least", 1.7),
    "mq2007.whole_over_bare": FigureTarget("at most", 1.5),
    "mq2007.trace_over_none": FigureTarget("at most", 1.4),
    "mq2007.trace_over_none_1": FigureTarget("at most", 1.4),
    "mq2007.olsr": FigureTarget("at least", 20_000),
    "mq2007.olsr_over_lstsq": FigureTarget("at least", 5),
    "mq2007.map": FigureTarget("at least", 2_000),
    "learners.foltr_es_over_plain": FigureTarget("at least", 12),
    "learners.foltr_es_of_limit": FigureTarget("at least", 0.5),
    "learners.pdgd_of_limit": FigureTarget("at least", 0.35),
    "learners.coltr_over_plain": FigureTarget("at least", 10),
    "learners.neural_over_plain": FigureTarget("at least", 3),
    "mslr.engine_over_plain": FigureTarget("at least", 12),
    "mslr.engine_of_limit": FigureTarget("at least", 0.65),
    "mslr.whole_over_bare": FigureTarget("at most", 1.5),
    "mslr.trace_over_none": FigureTarget("at most", 1.4),
    "mslr.trace_over_none_1": FigureTarget("at most", 1.4),
    "trace.bytes_per_float": FigureTarget("at most", 12),
    "trace.observed_per_float": FigureTarget("at most", 6),
    "letor.rows": FigureTarget("at least", 60_000),
    "letor.memory": FigureTarget("at most", 3),
    "flower.recorded_over_plain": FigureTarget("at most", 1.1),
    "start.help": FigureTarget("at most", 0.12),
    "start.attack_help": FigureTarget("at most", 0.35),
    "start.attack": FigureTarget("at most", 3),
    "start.compile": FigureTarget("at most", 20),
    "scale.dask.speed_up": FigureTarget("at least", 3),
    **{
        f"scale.{subject}.{measure}_growth": FigureTarget("at most", 1.5)
        for subject in ("clients", "rounds", "cells", "documents", "features")
        for measure in ("time", "memory")
    },
    "commands.audit": FigureTarget("at most", 10),
    "commands.dry_run": FigureTarget("at most", 2),
    "commands.compare": FigureTarget("at most", 120),
    **{
        f"papers.{run}.memory": FigureTarget("at most", 1024)
        for name in ("mq2007", "mslr")
        for run in (f"{name}_first", name, f"{name}_traced")
    },
}
"""Targets by the key of their figure."""


@dataclass(frozen=True)
class BenchmarkReport:
    """Everything one or several calls of the benchmarks found.

    Attributes:
        machine: what they ran on.
        options: what was asked for, as plain values.
        figures: in the order they were measured.
    """

    machine: dict[str, Any]
    options: dict[str, Any]
    figures: tuple[BenchmarkFigure, ...]

    def to_json(self) -> dict[str, Any]:
        """A plain object, with the target of each figure."""
        rows = []
        for figure in self.figures:
            target = TARGETS.get(figure.key)
            judged = {"target": asdict(target), "met": target.met(figure.value)} if target else {}
            rows.append(asdict(figure) | judged)
        return {"schema": SCHEMA, "machine": self.machine, "options": self.options, "figures": rows}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> BenchmarkReport:
        """The report that `to_json` made the object from.

        Raises:
            ValueError: another schema.
        """
        if table.get("schema") != SCHEMA:
            raise ValueError(f"schema {table.get('schema')!r}; expected {SCHEMA!r}")
        names = BenchmarkFigure.__dataclass_fields__
        figures = (BenchmarkFigure(**{name: row[name] for name in names}) for row in table["figures"])
        return cls(dict(table["machine"]), dict(table["options"]), tuple(figures))

    def with_figures_of(self, other: BenchmarkReport) -> BenchmarkReport:
        """Both reports' figures; a figure of both is taken from the other one.

        Raises:
            ValueError: they are of two machines, or one of them is a quick one.
        """
        if self.machine != other.machine:
            raise ValueError("the reports are of different machines or versions")
        if self.options.get("quick") != other.options.get("quick"):
            raise ValueError("one of the reports is a quick one")
        merged = {figure.key: figure for figure in (*self.figures, *other.figures)}
        return replace(self, figures=tuple(merged.values()))
