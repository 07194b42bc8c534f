"""What differs between two Runs, as JSON and on a terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.experiments.runs.differences import (
    FieldDifference,
    FileComparison,
    MetricPair,
    ModelDifference,
    RunDiff,
)
from foltr_audit.experiments.runs.reader import RunReader
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.tables.table import Column, make_table
from foltr_audit.utils.rows import JsonValue, ResultRow

if TYPE_CHECKING:
    from rich.console import Console

_WHERE = {
    "parameters": "the models before the round",
    "aggregate": "the models after the round",
    "state": "what the servers remember after the round besides the model",
}


@dataclass(frozen=True, kw_only=True)
class RunFacts(ResultRow):
    """One of the two Runs.

    Attributes:
        path: its folder.
        spec_hash: hash of its Spec.
        rounds: how many of the `rounds_of_spec` it has.
    """

    path: str
    spec_hash: str
    rounds: int
    rounds_of_spec: int
    finished: bool

    @classmethod
    def of(cls, run: RunReader) -> RunFacts:
        """The facts of a Run."""
        return cls(
            path=str(run.path),
            spec_hash=run.spec.hash,
            rounds=run.n_rounds,
            rounds_of_spec=run.spec.train.rounds,
            finished=run.finished,
        )


@dataclass(frozen=True, kw_only=True)
class DiffReport(PlainReport):
    """What differs between two Runs.

    Attributes:
        differs: whether anything does.
        a, b: the Runs.
        spec: Spec fields that differ.
        metrics: every metric of the last round.
        common_rounds: number of rounds that both have.
        first_different_model: where the models begin to differ.
        files: all files but Spec and results.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/diff/1"

    differs: bool
    a: RunFacts
    b: RunFacts
    spec: tuple[FieldDifference, ...]
    metrics: tuple[MetricPair, ...]
    common_rounds: int
    first_different_model: ModelDifference | None
    files: tuple[FileComparison, ...]

    @classmethod
    def of(cls, diff: RunDiff) -> DiffReport:
        """The report on what differs."""
        return cls(
            differs=diff.differs,
            a=RunFacts.of(diff.a),
            b=RunFacts.of(diff.b),
            spec=tuple(diff.fields),
            metrics=tuple(diff.metrics),
            common_rounds=diff.common_rounds,
            first_different_model=diff.models,
            files=tuple(diff.files),
        )


def print_diff(diff: RunDiff, console: Console) -> None:
    """The Runs, and what differs between them in Spec, results, models and files."""
    for name, run in (("A", diff.a), ("B", diff.b)):
        rounds = f"{run.n_rounds} of {run.spec.train.rounds} rounds{'' if run.finished else ', unfinished'}"
        console.print(f"{name}: {escape(str(run.path))} ({rounds})", highlight=False, soft_wrap=True)
    console.print()
    if diff.fields:
        print_table(make_table("Spec", _SPEC, diff.fields, caption="-: no such field"), console)
    else:
        console.print("The Specs are equal.")
    console.print()
    if diff.metrics:
        caption = "of the last round; online_sum and online_mean: of all rounds"
        print_table(make_table("metrics", _METRICS, diff.metrics, caption=caption), console)
        console.print()
    console.print(models_line(diff), highlight=False)
    if diff.files:
        console.print()
        caption = "byte for byte, all parts of a table together"
        print_table(make_table("files", _FILES, diff.files, caption=caption), console)


def models_line(diff: RunDiff) -> str:
    """Where the global models part, as a sentence."""
    if diff.models is not None:
        return f"The Runs part in round {diff.models.round}: {_WHERE[diff.models.what]} differ."
    if not diff.common_rounds:
        return "There is no round that both Runs have."
    return f"The global models of {diff.common_rounds} rounds are equal byte for byte."


def _value(value: JsonValue) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "[]"
    return "-" if value is None else str(value)


def _number(value: float, sign: str = "") -> str:
    return "-" if math.isnan(value) else f"{value:{sign}.6g}"


_SPEC: list[Column[FieldDifference]] = [
    Column("field", lambda one: one.field, "line"),
    Column("A", lambda one: _value(one.a), "fold"),
    Column("B", lambda one: _value(one.b), "fold"),
]
_METRICS: list[Column[MetricPair]] = [
    Column("metric", lambda one: one.metric, "name"),
    Column("A", lambda one: _number(one.a)),
    Column("B", lambda one: _number(one.b)),
    Column("B - A", lambda one: "equal" if one.equal else _number(one.difference, sign="+")),
]
_FILES: list[Column[FileComparison]] = [
    Column("file", lambda one: one.name, "fold"),
    Column("", lambda one: one.found, "name"),
]
