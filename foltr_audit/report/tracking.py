"""Reports in runs of MLflow and Weights & Biases, whose modules the user gives: neither is imported here."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from foltr_audit.core.settings.experiment import flat, hash_of_table
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.grid import SPEC_SCHEMA
from foltr_audit.utils.formatting import JsonValue

FlatRow = Mapping[str, JsonValue]

_STEP = "round"
_LABELS = frozenset({_STEP, "run", "candidate"})
"""Numbers that name a row, and are no metrics."""
_LONGEST_ROW_NAME = 180  # MLflow takes 250 characters, with the kind of report and the column
_LONGEST_VALUE = 6000  # of a parameter of MLflow
_REFUSED = re.compile(r"[^\w.-]+")


def log_report(tracker: Any, text: str, rows: Sequence[FlatRow], named_by: Sequence[str], page: str) -> None:
    """Log a report, given as its JSON, its main rows, the columns that always name them, and its page.

    The hash of the report comes first. Both trackers refuse to change it, so nothing of a second report of
    the same kind gets into a run.
    """
    document = json.loads(text)
    kind: str = document["schema"].split("/")[1]
    config = document.get("config", {})
    settings = {"report_hash": hashlib.sha256(text.encode()).hexdigest(), **config}
    if config.get("schema") == SPEC_SCHEMA and "cells" not in config:  # else several Specs share it
        settings["spec_hash"] = hash_of_table(config)
    steps = _by_step(kind, rows, named_by)
    how: dict[str, str] = {}
    if all(hasattr(tracker, name) for name in ("log_params", "log_metrics", "set_tags", "log_artifact")):
        tracker.log_params({f"{kind}/{name}": _text(value) for name, value in flat(settings).items()})
        for step, values in steps.items():
            finite = {name: value for name, value in values.items() if math.isfinite(value)}
            tracker.log_metrics(finite, step=step or 0)
            # As a metric, an infinite number becomes 1.8e308 in the databases of MLflow.
            tracker.set_tags({name: str(value) for name, value in values.items() if name not in finite})
    elif all(hasattr(tracker, name) for name in ("config", "log", "log_artifact")):
        # Notebooks may change values, unless they are told not to.
        tracker.config.update({kind: settings}, allow_val_change=False)
        for step, values in steps.items():
            tracker.log(values if step is None else {f"{kind}/{_STEP}": step, **values})
        how["type"] = "report"
    else:
        given = getattr(tracker, "__name__", type(tracker).__name__)
        raise UsageError(f"log: {given}; expected the module mlflow, the module wandb, or a run of wandb")
    with TemporaryDirectory() as folder:
        place = Path(folder) / kind
        place.mkdir()
        (place / f"{kind}.html").write_text(page, encoding="utf-8")
        (place / f"{kind}.json").write_text(text, encoding="utf-8")
        tracker.log_artifact(str(place), **how)


def allowed_name(text: str) -> str:
    """A name of letters, digits, `_`, `.` and `-`, which both trackers take.

    >>> allowed_name("ndcg@10"), allowed_name("clip:norm=1.5+sign")
    ('ndcg_at_10', 'clip_norm_1.5_sign')
    """
    return _REFUSED.sub("_", text.replace("@", "_at_")).strip("_.") or "_"


def _by_step(kind: str, rows: Sequence[FlatRow], named_by: Sequence[str]) -> dict[Any, dict[str, float]]:
    """The numbers of rows by round, None without one; each has the names of its report, row and column."""
    steps: dict[Any, dict[str, float]] = {}
    for row, name in zip(rows, row_names(rows, named_by), strict=True):
        values = steps.setdefault(row.get(_STEP), {})
        for column, value in row.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and column not in _LABELS:
                values["/".join(filter(None, (kind, name, allowed_name(column))))] = float(value)
    return steps


def row_names(rows: Sequence[FlatRow], named_by: Sequence[str]) -> list[str]:
    """A name for each row, which no other row of the same round has.

    It is made of the columns that always name rows, and of the first others that tell apart rows of one name.
    Rows with equal columns, or with long names, are numbered.
    """
    names = [[_part(column, row.get(column)) for column in named_by] for row in rows]
    rounds = [row.get(_STEP) for row in rows]
    for column in dict.fromkeys(column for row in rows for column in row if column not in (_STEP, *named_by)):
        parts = [_part(column, row.get(column)) for row in rows]
        alike: dict[object, set[str]] = {}
        for round_, name, part in zip(rounds, names, parts, strict=True):
            alike.setdefault((round_, *name), set()).add(part)
        if len(alike) == len(rows):
            break
        if any(len(several) > 1 for several in alike.values()):
            names = [[*name, part] for name, part in zip(names, parts, strict=True)]
    joined = ["/".join(filter(None, name))[:_LONGEST_ROW_NAME] for name in names]
    if len(set(zip(rounds, joined, strict=True))) < len(rows):
        return [f"{name}_{number}" if name else str(number) for number, name in enumerate(joined, start=1)]
    return joined


def _part(column: str, value: JsonValue) -> str:
    if isinstance(value, str):
        return allowed_name(value)
    return f"{allowed_name(column)}_{value:g}" if isinstance(value, int | float) else ""


def _text(value: JsonValue) -> str:
    return (value if isinstance(value, str) else json.dumps(value))[:_LONGEST_VALUE]
