"""What differs between two Runs, as JSON and on a terminal."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from foltr_audit.experiments.runs.differences import RunDiff
from foltr_audit.experiments.runs.reader import RunReader
from foltr_audit.report.results.base import Row
from foltr_audit.report.tables.layout import Column, rows_table
from foltr_audit.utils.formatting import json_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SCHEMA = "foltr-audit/diff/1"
_WHERE = {
    "parameters": "the models before the round",
    "aggregate": "the models after the round",
    "state": "what the servers remember after the round besides the model",
}


def diff_json(diff: RunDiff) -> str:
    """Everything as one JSON object; null where a Run has no such field or metric."""
    return json_text(
        {
            "schema": SCHEMA,
            "differs": diff.differs,
            "a": _run(diff.a),
            "b": _run(diff.b),
            "spec": [asdict(one) for one in diff.fields],
            "metrics": [
                {**asdict(one), "difference": one.difference, "equal": one.equal} for one in diff.metrics
            ],
            "common_rounds": diff.common_rounds,
            "first_different_model": None if diff.models is None else asdict(diff.models),
            "files": [asdict(one) for one in diff.files],
        }
    )


def print_diff(diff: RunDiff, console: Console) -> None:
    """The Runs, and what differs between them in Spec, results, models and files."""
    for name, run in (("A", diff.a), ("B", diff.b)):
        rounds = f"{run.n_rounds} of {run.spec.train.rounds} rounds{'' if run.finished else ', unfinished'}"
        console.print(f"{name}: {escape(str(run.path))} ({rounds})", highlight=False, soft_wrap=True)
    console.print()
    console.print(_spec_table(diff) if diff.fields else "The Specs are equal.")
    console.print()
    if diff.metrics:
        console.print(_metrics_table(diff))
        console.print()
    console.print(models_line(diff), highlight=False)
    if diff.files:
        console.print()
        console.print(_files_table(diff))


def models_line(diff: RunDiff) -> str:
    """Where the global models part, as a sentence."""
    if diff.models is not None:
        return f"The Runs part in round {diff.models.round}: {_WHERE[diff.models.what]} differ."
    if not diff.common_rounds:
        return "There is no round that both Runs have."
    return f"The global models of {diff.common_rounds} rounds are equal byte for byte."


def _run(run: RunReader) -> Row:
    return {
        "path": str(run.path),
        "spec_hash": run.spec.hash,
        "rounds": run.n_rounds,
        "rounds_of_spec": run.spec.train.rounds,
        "finished": run.finished,
    }


def _spec_table(diff: RunDiff) -> Table:
    columns = [
        Column("field", lambda one: escape(one.field), "line"),
        Column("A", lambda one: escape(_value(one.a)), "fold"),
        Column("B", lambda one: escape(_value(one.b)), "fold"),
    ]
    return rows_table("Spec", "-: no such field", columns, diff.fields)


def _metrics_table(diff: RunDiff) -> Table:
    columns = [
        Column("metric", lambda one: escape(one.metric), "name"),
        Column("A", lambda one: _number(one.a)),
        Column("B", lambda one: _number(one.b)),
        Column("B - A", lambda one: "equal" if one.equal else _number(one.difference, sign="+")),
    ]
    caption = "of the last round; online_sum and online_mean: of all rounds"
    return rows_table("metrics", caption, columns, diff.metrics)


def _files_table(diff: RunDiff) -> Table:
    columns = [
        Column("file", lambda one: escape(one.name), "fold"),
        Column("", lambda one: one.found, "name"),
    ]
    return rows_table("files", "byte for byte, all parts of a table together", columns, diff.files)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "[]"
    return "-" if value is None else str(value)


def _number(value: float, sign: str = "") -> str:
    return "-" if math.isnan(value) else f"{value:{sign}.6g}"
