"""Reads stored Runs, one or several in an `--out` folder, with the metrics of their rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from foltr_audit.core.ranking_metrics import ONLINE_NDCG, mean_of_rounds, online_sum
from foltr_audit.core.settings.experiment import Spec, first_difference
from foltr_audit.errors import TraceError, UsageError, suggest_name
from foltr_audit.experiments.plan import Plan, read_tables
from foltr_audit.experiments.runs.folder import PLAN, SPEC, RunFolder
from foltr_audit.trace import Trace
from foltr_audit.utils.reading import file_text

ONLINE_SUM, ONLINE_MEAN = "online_sum", "online_mean"
FINAL = "final"
"""Short name of the offline nDCG@10 of the trained model."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunReader:
    """A Run and the trace of its training rounds; the rounds are read on first use.

    Attributes:
        path: the Run folder.
        spec: its Spec.
        trace: its training rounds; None before the first one.
    """

    path: Path
    spec: Spec
    trace: Trace | None

    @classmethod
    def open(cls, path: Path) -> RunReader:
        """The Run in a folder.

        Raises:
            UsageError: no such folder, or it holds no Run or several.
            TraceError: it is damaged, or its trace was made by another Spec.
        """
        if (path / "trace.toml").exists() and not (path / SPEC).exists():
            raise UsageError(f"{path}: a trace without its Run; expected a folder that --out made")
        folder = RunFolder.open(path)
        spec = folder.spec
        trace = Trace.open(folder.training) if folder.training.is_dir() else None
        if trace is not None and trace.header.spec_hash != spec.hash:
            raise TraceError(f"{folder.training}: made by another Spec than {path / SPEC}")
        if trace is not None and trace.n_rounds > spec.train.rounds:
            raise TraceError(f"{path}: {trace.n_rounds} rounds; expected the {spec.train.rounds} of its Spec")
        return cls(path=path, spec=spec, trace=trace)

    @property
    def n_rounds(self) -> int:
        return 0 if self.trace is None else self.trace.n_rounds

    @property
    def finished(self) -> bool:
        """Whether all rounds of the Spec are recorded."""
        return self.n_rounds == self.spec.train.rounds

    def refuse_unfinished(self) -> None:
        """Refuse an unfinished Run.

        Raises:
            UsageError: rounds are missing.
        """
        if not self.finished:
            raise UsageError(
                f"{self.path}: unfinished, {self.n_rounds} of {self.spec.train.rounds} rounds; "
                "end the run with --resume"
            )

    @cached_property
    def rounds(self) -> list[dict[str, float]]:
        """The recorded metrics of each round, with its number under `round`.

        Raises:
            UsageError: the trace has lost its truth.
            TraceError: the trace is damaged.
        """
        return [] if self.trace is None else self.trace.metrics()

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Every metric of the last round, and sum and mean of the online nDCG@10; empty without a round.

        Raises:
            UsageError, TraceError: as `rounds`.
        """
        if not self.rounds:
            return {}
        found = {name: value for name, value in self.rounds[-1].items() if name != "round"}
        if all(ONLINE_NDCG in row for row in self.rounds):
            online = np.array([row[ONLINE_NDCG] for row in self.rounds])
            found |= {ONLINE_SUM: online_sum(online), ONLINE_MEAN: mean_of_rounds(online)}
        return found

    def value(self, metric: str) -> float:
        """A metric of `metrics`.

        Raises:
            UsageError: no such metric, or it was not measured.
            TraceError: the trace is damaged.
        """
        if metric not in self.metrics:
            raise UsageError(
                f"--metric: {self.path}: unknown metric {metric!r}; {suggest_name(metric, self.metrics)}"
            )
        value = self.metrics[metric]
        if not math.isfinite(value):
            raise UsageError(f"--metric: {self.path}: {metric} is {value:g}; expected a finite number")
        return value


def read_runs(path: Path) -> list[RunReader]:
    """The finished Runs of an `--out` folder, in the order of its plan.

    Raises:
        UsageError: no such folder, it holds no Run, or one is missing or unfinished.
        TraceError: a Run or the plan is damaged.
    """
    runs = _planned(path) if (path / PLAN).is_file() else [RunReader.open(path)]
    for run in runs:
        run.refuse_unfinished()
    return runs


def refuse_twice(runs: Sequence[RunReader]) -> None:
    """Refuse a Run that is named more than once, even by another path.

    Raises:
        UsageError: one is.
    """
    seen: set[Path] = set()
    for run in runs:
        place = run.path.resolve()
        if place in seen:
            raise UsageError(f"{run.path}: given twice; expected different Runs")
        seen.add(place)


def _planned(path: Path) -> list[RunReader]:
    runs = []
    for spec in read_plan(path).specs:
        inner = path / spec.hash[:12]
        if not (inner / SPEC).is_file():
            raise UsageError(
                f"{path}: unfinished, Run {inner.name} of its {PLAN} is missing; end the run with --resume"
            )
        run = RunReader.open(inner)
        difference = first_difference(run.spec.public, spec.public)
        if difference is not None:
            raise TraceError(f"{inner / SPEC}: another Spec than in {PLAN}: {difference}")
        runs.append(run)
    return runs


def read_plan(path: Path) -> Plan:
    """The plan of an `--out` folder with several Runs.

    Raises:
        TraceError: it is damaged.
    """
    where = str(path / PLAN)
    try:
        return Plan.of(read_tables(file_text(path / PLAN, UsageError), where), where)
    except UsageError as error:
        raise TraceError(f"damaged Run: {error}") from error


def spec_around(path: Path, spec_hash: str) -> Spec | None:
    """The Spec of the Run that a trace lies in; None where it lies elsewhere.

    Raises:
        TraceError: it is damaged.
    """
    for folder in tuple(path.resolve().parents)[:2]:
        if (folder / SPEC).is_file() and (spec := RunFolder(folder).spec).hash == spec_hash:
            return spec
    return None
