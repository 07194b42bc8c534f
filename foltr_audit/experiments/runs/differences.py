"""What differs between two recorded Runs: Specs, metrics, global models, and files byte for byte."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from foltr_audit.core.settings.experiment import flat
from foltr_audit.errors import TraceError
from foltr_audit.experiments.runs.folder import FRESH, MODEL, TRAINING
from foltr_audit.experiments.runs.reader import RunReader
from foltr_audit.trace import Trace
from foltr_audit.utils.reading import file_bytes
from foltr_audit.utils.rows import JsonValue, ResultRow

MODELS = ("parameters", "aggregate", "state")
"""Columns of a recorded round that hold the server's model: before the round, after it, and the further state
that its learner remembers."""


@dataclass(frozen=True, kw_only=True)
class FieldDifference(ResultRow):
    """A Spec field with its values in both Runs; None where a Run has no such field."""

    field: str
    a: JsonValue
    b: JsonValue


@dataclass(frozen=True, kw_only=True)
class MetricPair(ResultRow):
    """A metric at the end of both Runs; NaN where a Run has no such metric, or did not measure it.

    Attributes:
        difference: B - A.
        equal: whether both are the same number, or both are missing.
    """

    metric: str
    a: float
    b: float
    difference: float
    equal: bool

    @classmethod
    def of(cls, metric: str, a: float, b: float) -> MetricPair:
        """The metric of two Runs."""
        same = a == b or (math.isnan(a) and math.isnan(b))
        return cls(metric=metric, a=a, b=b, difference=b - a, equal=same)


@dataclass(frozen=True, kw_only=True)
class ModelDifference(ResultRow):
    """Where the server's models begin to differ.

    Attributes:
        round: the first round whose models differ in a byte, from 0.
        what: `parameters` before that round, `aggregate` after it, or `state` after it.
    """

    round: int
    what: str


@dataclass(frozen=True, kw_only=True)
class FileComparison(ResultRow):
    """A file of a Run, or all parts of a table of a trace.

    Attributes:
        name: its path in the Run folder, e.g. `model.npy` or `trace/truth/clicks`.
        found: `equal` byte for byte, `different`, `only in A` or `only in B`.
    """

    name: str
    found: str


@dataclass(frozen=True, kw_only=True, eq=False)
class RunDiff:
    """What differs between Run A and Run B.

    Attributes:
        a, b: the Runs, which need not be finished.
        fields: Spec fields that differ.
        metrics: every metric of the last round, and sum and mean of the online nDCG@10.
        models: where the models begin to differ; None where all common rounds have the same models.
        files: all files but Spec and results.
    """

    a: RunReader
    b: RunReader
    fields: list[FieldDifference]
    metrics: list[MetricPair]
    models: ModelDifference | None
    files: list[FileComparison]

    @classmethod
    def of(cls, a: RunReader, b: RunReader) -> RunDiff:
        """Compare two Runs.

        A trace without its truth has no metrics.

        Raises:
            TraceError: a damaged Run.
        """
        digests_a, digests_b = _digests(a), _digests(b)
        metrics_a, metrics_b = _metrics(a), _metrics(b)
        return cls(
            a=a,
            b=b,
            fields=_fields(a, b),
            metrics=[
                MetricPair.of(name, metrics_a.get(name, math.nan), metrics_b.get(name, math.nan))
                for name in {**metrics_a, **metrics_b}
            ],
            models=_models(a.trace, b.trace),
            files=[
                FileComparison(name=name, found=_compare(digests_a.get(name), digests_b.get(name)))
                for name in {**digests_a, **digests_b}
            ],
        )

    @property
    def differs(self) -> bool:
        """Whether anything differs."""
        return (
            bool(self.fields or self.models)
            or any(not pair.equal for pair in self.metrics)
            or any(file.found != "equal" for file in self.files)
        )

    @property
    def common_rounds(self) -> int:
        """Number of rounds that both Runs have."""
        return min(self.a.n_rounds, self.b.n_rounds)


def _metrics(run: RunReader) -> dict[str, float]:
    return run.metrics if run.trace is None or run.trace.has_truth else {}


def _fields(a: RunReader, b: RunReader) -> list[FieldDifference]:
    fields_a, fields_b = flat(a.spec.table()), flat(b.spec.table())
    return [
        FieldDifference(field=name, a=fields_a.get(name), b=fields_b.get(name))
        for name in {**fields_a, **fields_b}
        if fields_a.get(name) != fields_b.get(name)
    ]


def _models(a: Trace | None, b: Trace | None) -> ModelDifference | None:
    if a is None or b is None:
        return None
    for number, (models_a, models_b) in enumerate(zip(_models_of(a), _models_of(b), strict=False)):
        for what in MODELS:
            if models_a.get(what) != models_b.get(what):
                return ModelDifference(round=number, what=what)
    return None


def _models_of(trace: Trace) -> Iterator[dict[str, bytes]]:
    """The models of each round as bytes; memory holds one part at a time."""
    for part in trace.parts:
        columns = trace.columns(part, "observed/rounds")
        for i in range(part.n_rounds):
            yield {name: columns[name][i].tobytes() for name in MODELS if name in columns}


def _digests(run: RunReader) -> dict[str, tuple[str, ...]]:
    """SHA-256 (hex) of each file by name; of a table of a trace those of its parts, which are verified."""
    found: dict[str, tuple[str, ...]] = {}
    if (run.path / MODEL).is_file():
        found[MODEL] = (hashlib.sha256(file_bytes(run.path / MODEL, TraceError)).hexdigest(),)
    traces = [] if run.trace is None else [(TRAINING, run.trace)]
    for folder in sorted(path for path in (run.path / FRESH).glob("*") if path.is_dir()):
        trace = Trace.open(folder)
        if trace.header.spec_hash != run.spec.hash:
            raise TraceError(f"{folder}: made by another Spec than the Run")
        traces.append((f"{FRESH}/{folder.name}", trace))
    for name, trace in traces:
        trace.check_files()
        found[f"{name}/trace.toml"] = (trace.trace_id,)
        for part in trace.parts:
            for table in trace.tables(part):
                key = f"{name}/{table}"
                found[key] = (*found.get(key, ()), part.files[table].sha256)
    return found


def _compare(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> str:
    if a is None:
        return "only in B"
    if b is None:
        return "only in A"
    return "equal" if a == b else "different"
