"""Run folders with made-up metrics and models, written in a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.spec.experiment import Spec
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runs.folder import PLAN, RunFolder
from foltr_audit.trace import TraceDataset, TraceHeader, TraceWriter
from foltr_audit.utils import atomic_files

P, K = 3, 2

Metrics = Sequence[Mapping[str, float]]


def table_of(metrics: Metrics, **fields: Any) -> dict[str, Any]:
    """The table of a Spec with a round per entry of `metrics`; `train={"learner": ...}` and the like."""
    return {**fields, "train": {"rounds": len(metrics), **fields.get("train", {})}}


def rounds_of(offline: float, online: float | Sequence[float] = 0.5) -> list[dict[str, float]]:
    """Metrics of rounds, the last one with an offline nDCG@10."""
    values = [online] if isinstance(online, float) else list(online)
    last = len(values) - 1
    return [
        {"online_ndcg@10": value, "offline_ndcg@10": offline if i == last else float("nan"), "maxrr": 0.25}
        for i, value in enumerate(values)
    ]


def write_run(
    path: Path,
    metrics: Metrics,
    spec: Spec | None = None,
    *,
    models: NDArray[np.float64] | None = None,
    fingerprint: str = "",
    played: int | None = None,
    **fields: Any,
) -> Spec:
    """A Run with the metrics of each round, and one message a round.

    `models` holds the global models, float64 (rounds + 1, P), else zeros; `played` rounds were played.
    """
    spec = spec or Spec.parse(table_of(metrics, **fields))
    models = np.zeros((len(metrics) + 1, P)) if models is None else models
    folder = RunFolder.create(path, spec)
    dataset = TraceDataset(
        source=spec.data.source,
        fold=spec.data.fold,
        fingerprint=fingerprint or f"{spec.data.source} {spec.data.fold}",
        normalised=spec.data.normalise,
        parts=("train",),
    )
    header = TraceHeader(
        kind="model",
        dtype="float32",
        parameters=P,
        k=K,
        dataset=dataset,
        has_truth=True,
        spec_hash=spec.hash,
        rounds_per_part=2,
    )
    with TraceWriter(folder.training, header) as writer:
        for number, found in enumerate(metrics[:played]):
            writer.write(_record(number, models), _truth(found))
    folder.save_model(models[-1])
    return spec


def write_plan(path: Path, runs: Sequence[tuple[dict[str, Any], Metrics]]) -> Plan:
    """An `--out` folder with several Runs, each with its Spec's table and its metrics."""
    path.mkdir(parents=True, exist_ok=True)
    plan = Plan.of([table for table, _ in runs])
    atomic_files.write_text(path / PLAN, plan.toml)
    for spec, (_, metrics) in zip(plan.specs, runs, strict=True):
        write_run(path / spec.hash[:12], metrics, spec)
    return plan


def write_system(path: Path, offline: Sequence[float], first: int = 0, **fields: Any) -> Plan:
    """An `--out` folder with the repetitions `first`, `first` + 1, ... of one system."""
    runs = []
    for i, value in enumerate(offline, start=first):
        metrics = rounds_of(float(value))
        runs.append((table_of(metrics, repetition=i, **fields), metrics))
    return write_plan(path, runs)


def _record(number: int, models: NDArray[np.float64]) -> RoundRecord:
    return RoundRecord(
        round=number,
        parameters=models[number],
        aggregate=models[number + 1],
        shares=1,
        survivors=np.ones(1, dtype=np.bool_),
        counts=np.ones(1, dtype=np.int64),
        messages=models[number + 1 : number + 2].astype(np.float32),
        slot=np.zeros(1, dtype=np.int64),
        step=np.zeros(1, dtype=np.int64),
        part=np.zeros(1, dtype=np.int64),
        query=np.zeros(1, dtype=np.int64),
        shown=np.array([[1, 0]]),
    )


def _truth(metrics: Mapping[str, float]) -> RoundTruth:
    return RoundTruth(
        clients=np.zeros(1, dtype=np.int64),
        updates=np.zeros((1, P)),
        clicks=np.array([[True, False]]),
        clipped=np.zeros(1, dtype=np.bool_),
        metrics=metrics,
    )
