"""Plays a shortened cell, and computes from it what the whole cell takes: time, memory and disk.

A shortened cell has few rounds, on all data, and few queries that are attacked or searched for an audit.
The time of each stage is scaled by what it is proportional to.
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
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from foltr_audit.core.records import Collection
from foltr_audit.core.spec.experiment import Spec
from foltr_audit.errors import FoltrAuditError
from foltr_audit.experiments.comparison.cell_arrays import ARRAYS, LISTS
from foltr_audit.experiments.comparison.cells import Files, pack_cell
from foltr_audit.experiments.comparison.pace import Sort, sort_of
from foltr_audit.experiments.plan import Table, apply_changes
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.arrays import Ints
from foltr_audit.utils.progress import NO_TICK, Tick

ROUNDS, QUERIES, TRIALS = 3, 24, (100, 400)
"""The most rounds, queries of a part, and trials of a shortened cell. Trials are played twice, since an audit
has costs that do not grow with them: a line through both has a slope and a start."""

_BLOCK = 4096
"""Most file systems store a file in whole multiples of so many bytes."""

_WARM: set[Sort] = set()
"""Sorts of cells that this process has played, for which its kernels are compiled."""


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
    """A progress that adds up the seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def task(self, name: str, total: int, interactions: int = 0) -> Iterator[Tick]:
        start = time.perf_counter()
        yield NO_TICK
        self.seconds[name.partition(" ")[0]] += time.perf_counter() - start


class _ProbeRun(NamedTuple):
    """A shortened cell: what it stored, its metrics per round, and seconds by stage; `rest` is no stage."""

    files: Files
    metrics: int
    seconds: defaultdict[str, float]

    def without(self, *stages: str) -> float:
        """Seconds of all other stages."""
        return sum(took for name, took in self.seconds.items() if name not in stages)


def probe(piece: tuple[int, Table]) -> CellCost:
    """Play one cell shortened, in a worker process."""
    number, table = piece
    try:
        return _measure(number, Spec.parse(table, ""))
    except (FoltrAuditError, MemoryError) as error:
        return CellCost(number, problem=str(error) or "not enough memory")


def _measure(number: int, spec: Spec) -> CellCost:
    start = time.perf_counter()
    data = Runner(with_undefended=False).setup(spec).collection
    loading = time.perf_counter() - start
    queries = _eligible(data, spec)
    sample = _sample(data, queries)
    more_queries = _count(queries) / max(1, _count(_eligible(sample, spec)))
    short = min(ROUNDS, spec.train.rounds)
    more_rounds = spec.train.rounds / short
    training = spec.attack is not None and spec.attack.target == "training"
    table = apply_changes(spec.table(), {"train.rounds": short if training else 1})
    if spec.attack is not None:
        table["attack"]["repeats"] = 1
    elif spec.audit is not None:
        table["audit"]["trials"] = min(TRIALS[0], spec.audit.trials)
    if sort_of(spec)[:-1] not in _WARM:
        _play(table, sample)  # compiles kernels, which the times below must not contain
        _WARM.add(sort_of(spec)[:-1])
    plain = {name: value for name, value in table.items() if name not in ("attack", "audit")}
    trained = _play(apply_changes(plain, {"train.rounds": short}), data)
    seconds = trained.seconds["train"] * more_rounds + trained.seconds["rest"]
    disk = {name: float(len(content)) for name, content in trained.files.items()}
    disk[ARRAYS] += 8 * trained.metrics * (spec.train.rounds - short)
    before, grown = _memory(), 0.0
    if spec.attack is not None:
        played, times = _play(table, sample), more_rounds if training else spec.attack.repeats * more_queries
        seconds += times * played.without("train", "rest")
        disk[ARRAYS] += times * _bytes_of_lists(played.files[ARRAYS])
        grown = times * max(0.0, _memory() - before)
    elif spec.audit is not None:
        seconds += _audit_seconds(table, sample, spec.audit.trials, more_queries)
    stored = sum(-(-size // _BLOCK) * _BLOCK for size in disk.values()) + _BLOCK  # and the folder itself
    return CellCost(number, seconds, loading, max(before + grown, _memory()), stored)


def _audit_seconds(table: Table, sample: Collection, trials: int, more_queries: float) -> float:
    """Seconds of a whole audit: its search grows with the queries, its games with the trials."""

    def games(played: _ProbeRun) -> float:
        return played.without("train", "search")

    first = _play(table, sample)
    few, more = (min(most, trials) for most in TRIALS)
    seconds = first.seconds["search"] * more_queries + games(first)
    if more > few:
        slope = (games(_play(apply_changes(table, {"audit.trials": more}), sample)) - games(first)) / (
            more - few
        )
        seconds += max(0.0, slope) * (trials - few)
    return seconds


def _play(table: Table, data: Collection) -> _ProbeRun:
    timer, spec = _StageTimer(), Spec.parse(table, "")
    start = time.perf_counter()
    study = Runner(timer, data, with_undefended=False)
    cell = study.run(spec)
    files = pack_cell(cell, study.setup(spec))
    rest = time.perf_counter() - start - sum(timer.seconds.values())
    timer.seconds["rest"] = rest
    return _ProbeRun(files, len(cell.trained.rounds[0]), timer.seconds)


def _eligible(data: Collection, spec: Spec) -> dict[str, Ints]:
    """Queries that can be attacked, or searched for an audit, by part."""
    protocol = spec.attack or spec.audit
    if protocol is None:
        return {}
    return {name: np.flatnonzero(data.part(name).lengths >= protocol.min_documents) for name in protocol.on}


def _count(queries: Mapping[str, Ints]) -> int:
    return sum(map(len, queries.values()))


def _sample(data: Collection, queries: Mapping[str, Ints]) -> Collection:
    """The data with few of the eligible queries, spread evenly over all of them."""
    kept: dict[str, Any] = {
        name: data.part(name).select(found[np.linspace(0, len(found) - 1, QUERIES).astype(np.int64)])
        for name, found in queries.items()
        if len(found) > QUERIES
    }
    return replace(data, **kept)


def _bytes_of_lists(packed: bytes) -> int:
    """Bytes of what is stored of attacked lists."""
    with zipfile.ZipFile(io.BytesIO(packed)) as stored:
        return sum(one.compress_size for one in stored.infolist() if one.filename.startswith(LISTS))


def _memory() -> float:
    """The most bytes that this process has held; Linux counts them in KiB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most if sys.platform == "darwin" else most * 1024)
