"""Plays a cell shortened, and says what it takes in full: time, memory and disk.

Rounds are played on all data, and there are few of them. Attacks, and the search of an audit, are played on a
few queries. Each stage is scaled by what it is proportional to.
"""

from __future__ import annotations

import io
import resource
import sys
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from foltr_audit.core.records import Collection
from foltr_audit.core.spec.attack import AttackSpec
from foltr_audit.core.spec.audit import AuditSpec
from foltr_audit.core.spec.experiment import Spec
from foltr_audit.errors import FoltrAuditError
from foltr_audit.experiments.comparison.cell_arrays import ARRAYS, LISTS
from foltr_audit.experiments.comparison.cells import Files, files_of
from foltr_audit.experiments.comparison.pace import Sort, sort_of
from foltr_audit.experiments.plan import Table, changed
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.progress import NO_TICK, Tick

ROUNDS, QUERIES, TRIALS = 3, 24, (100, 400)
"""Rounds, queries of a part, and trials (of two plays, for a line through both) that are played at most."""

_BLOCK = 4096
"""Bytes that a file takes in whole multiples of, on most file systems."""

_WARM: set[Sort] = set()
"""What this process has played before, and so has loaded."""


class CellCost(NamedTuple):
    """What a cell takes, by its shortened form.

    Attributes:
        number: which of the cells it is.
        seconds: of one worker.
        loading: seconds to load its data, once per worker.
        memory: bytes of a worker at most.
        disk: bytes that are stored of it.
        problem: why it cannot be run; the numbers are then 0.
    """

    number: int
    seconds: float = 0.0
    loading: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    problem: str = ""


class _StageTimer:
    """A progress that notes how long each stage took."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def task(self, name: str, total: int, interactions: int = 0) -> Iterator[Tick]:
        del total, interactions
        start = time.perf_counter()
        yield NO_TICK
        self.seconds[name.partition(" ")[0]] += time.perf_counter() - start


@dataclass(frozen=True)
class _ProbeRun:
    """A shortened cell: what it stored, its metrics per round, and seconds by stage; `rest` is no stage."""

    files: Files
    metrics: int
    seconds: Mapping[str, float]


def probe(piece: tuple[int, Table]) -> CellCost:
    """Play one cell shortened, in a worker process."""
    number, table = piece
    spec = Spec.parse(table, "")
    try:
        return _probed(number, spec)
    except (FoltrAuditError, MemoryError) as error:
        return CellCost(number, problem=str(error) or "not enough memory")


def _probed(number: int, spec: Spec) -> CellCost:
    start = time.perf_counter()
    data = Runner(with_undefended=False).setup(spec).collection
    loading = time.perf_counter() - start
    sample = _sample(data, spec)
    short = min(ROUNDS, spec.train.rounds)
    of_rounds = spec.attack is not None and spec.attack.target == "training"
    first = changed(spec.table(), {"train.rounds": short if of_rounds else 1})
    if spec.attack is not None:
        first = changed(first, {"attack.repeats": 1})
    if spec.audit is not None:
        first = changed(first, {"audit.trials": min(TRIALS[0], spec.audit.trials)})
    if sort_of(spec)[:-1] not in _WARM:
        _play(first, sample)  # loads what is compiled
        _WARM.add(sort_of(spec)[:-1])
    plain = {name: value for name, value in first.items() if name not in ("attack", "audit")}
    trained = _play(changed(plain, {"train.rounds": short}), data)
    seconds = trained.seconds["train"] * spec.train.rounds / short + trained.seconds["rest"]
    disk = {name: float(len(content)) for name, content in trained.files.items()}
    disk[ARRAYS] += 8 * trained.metrics * (spec.train.rounds - short)
    before = _memory()
    grown = 0.0
    if spec.attack is not None:
        played, times = _play(first, sample), _times(spec, spec.attack, data, sample)
        seconds += times * sum(took for name, took in played.seconds.items() if name not in ("train", "rest"))
        disk[ARRAYS] += times * _of_lists(played.files[ARRAYS])
        grown = times * max(0.0, _memory() - before)
    elif spec.audit is not None:
        seconds += _audited(spec, spec.audit, first, data, sample)
    stored = sum(-(-size // _BLOCK) * _BLOCK for size in disk.values()) + _BLOCK
    return CellCost(number, seconds, loading, max(before + grown, _memory()), stored)


def _audited(spec: Spec, protocol: AuditSpec, first: Table, data: Collection, sample: Collection) -> float:
    """Seconds of an audit in full: its search grows with the queries, its games with the trials."""
    few = _play(first, sample)
    search = few.seconds["search"] * _queries(data, spec) / max(1, _queries(sample, spec))
    least, more = (min(trials, protocol.trials) for trials in TRIALS)
    games = _games(few)
    if more > least:
        slope = (_games(_play(changed(first, {"audit.trials": more}), sample)) - games) / (more - least)
        games += max(0.0, slope) * (protocol.trials - least)
    return search + games


def _games(played: _ProbeRun) -> float:
    return sum(took for name, took in played.seconds.items() if name not in ("train", "search"))


def _times(spec: Spec, protocol: AttackSpec, data: Collection, sample: Collection) -> float:
    """How many times as much is attacked in full."""
    if protocol.target == "training":
        return spec.train.rounds / min(ROUNDS, spec.train.rounds)
    return protocol.repeats * _queries(data, spec) / max(1, _queries(sample, spec))


def _of_lists(packed: bytes) -> int:
    """Bytes of what is stored of attacked lists."""
    with zipfile.ZipFile(io.BytesIO(packed)) as stored:
        return sum(one.compress_size for one in stored.infolist() if one.filename.startswith(LISTS))


def _play(table: Table, data: Collection) -> _ProbeRun:
    watch = _StageTimer()
    study, spec = Runner(watch, data, with_undefended=False), Spec.parse(table, "")
    start = time.perf_counter()
    cell = study.run(spec)
    files = files_of(cell, study.setup(spec))
    whole = time.perf_counter() - start
    seconds = defaultdict(float, watch.seconds)
    seconds["rest"] = whole - sum(watch.seconds.values())
    return _ProbeRun(files, len(cell.trained.rounds[0]), seconds)


def _least(spec: Spec) -> tuple[tuple[str, ...], int]:
    """Parts whose queries are attacked or searched, and documents that these must have."""
    protocol = spec.attack or spec.audit
    return ((), 0) if protocol is None else (protocol.on, protocol.min_documents)


def _queries(data: Collection, spec: Spec) -> int:
    parts, least = _least(spec)
    return sum(int((data.part(name).lengths >= least).sum()) for name in parts)


def _sample(data: Collection, spec: Spec) -> Collection:
    """The data with few queries to attack, spread over all that can be."""
    parts, least = _least(spec)
    kept: dict[str, Any] = {}
    for name in parts:
        part = data.part(name)
        fitting = np.flatnonzero(part.lengths >= least)
        if fitting.size > QUERIES:
            places = np.linspace(0, fitting.size - 1, QUERIES).astype(np.int64)
            kept[name] = part.select(fitting[places])
    return replace(data, **kept)


def _memory() -> float:
    """Bytes that this process has held at most."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most if sys.platform == "darwin" else most * 1024)
