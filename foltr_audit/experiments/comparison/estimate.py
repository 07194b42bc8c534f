"""What a comparison will take, roughly: from costs measured once, and from the pace of finished cells."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from foltr_audit.core.plugins.base import name_in
from foltr_audit.core.records import Collection
from foltr_audit.experiments.comparison.expansion import CellPlan
from foltr_audit.experiments.comparison.facts import FACTS
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import Kind
from foltr_audit.experiments.comparison.runner import MOST_SHARED
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.runner import Runner
from foltr_audit.simulation.setup import Setup

COSTS = Path(__file__).with_name("costs.toml")
"""Seconds and bytes of each piece of work on one machine; `python -m benchmarks.costs` measures them."""

_LEAST_FINISHED = 4
"""Finished cells that are needed before their pace counts."""


@dataclass(frozen=True, kw_only=True)
class KindCostEstimate:
    """What the cells of one kind take.

    Attributes:
        kind: `attack`, `audit` or `select`.
        cells: how many the grid has.
        done: how many of them are stored.
        seconds: of the others, by one worker.
        disk: bytes of the others, once stored.
    """

    kind: Kind
    cells: int
    done: int
    seconds: float
    disk: float

    @property
    def to_run(self) -> int:
        """How many are not stored yet."""
        return self.cells - self.done


@dataclass(frozen=True, kw_only=True)
class CostEstimate:
    """What a comparison takes.

    Attributes:
        kinds: its cells by kind.
        workers: how many run at once.
        seconds: until all is done.
        memory: bytes of one worker.
        rests_on: what this was estimated from, in words.
    """

    kinds: tuple[KindCostEstimate, ...]
    workers: int
    seconds: float
    memory: float
    rests_on: str

    @property
    def memory_in_all(self) -> float:
        """Bytes of all workers together."""
        return self.workers * self.memory

    @property
    def disk(self) -> float:
        """Bytes that are stored."""
        return sum(kind.disk for kind in self.kinds)


@dataclass(frozen=True)
class _Costs:
    """The stored table; the keys of COSTS."""

    machine: str
    worker_bytes: float
    cell_seconds: float
    interaction_seconds: float
    evaluation_seconds: float
    message_seconds: float
    attack_seconds: dict[str, float]
    search_seconds: float
    trial_seconds: float
    list_bytes: float

    def seconds(self, setup: Setup) -> float:
        """Of one cell."""
        spec, size = setup.spec, setup.ranker.n_parameters
        work = (
            spec.train.rounds
            * spec.population.cohort_size
            * setup.clients.interactions
            * setup.learner.slowness
        )
        found = self.cell_seconds + work * size * self.interaction_seconds
        evaluated = spec.train.rounds / spec.train.evaluate_every
        found += evaluated * setup.collection.test.labels.size * size * self.evaluation_seconds
        if spec.attack is not None:
            usual = fmean(self.attack_seconds.values())
            names = [name_in(text) for text in spec.attacks]
            by_attack = [self.attack_seconds.get(name, usual) for name in names]
            found += _messages(setup) * (self.message_seconds + sum(by_attack))
        if spec.audit is not None:
            asked = spec.audit
            games = len(asked.views) * len(asked.units) * len(asked.canaries) * len(asked.models)
            queries = _queries(setup.collection, asked.on, asked.min_documents)
            found += games * (queries * self.search_seconds + asked.trials * self.trial_seconds)
        return found

    def disk(self, setup: Setup) -> float:
        """Bytes of one cell."""
        lists = _messages(setup) * len(setup.spec.attacks) if setup.spec.attack else 0
        return 16_384 + 100 * setup.spec.train.rounds + lists * self.list_bytes


def _queries(data: Collection, parts: Sequence[str], least: int) -> int:
    return sum(int((data.part(name).lengths >= least).sum()) for name in parts)


def _messages(setup: Setup) -> int:
    """Attacked messages of a cell."""
    attack = setup.spec.attack
    if attack is None:
        return 0
    if attack.target == "training":
        return setup.spec.train.rounds * setup.spec.population.cohort_size
    models = max(1, len(attack.click_models or ()))
    return models * attack.repeats * _queries(setup.collection, attack.on, attack.min_documents)


@cache
def _costs() -> _Costs:
    return _Costs(**tomllib.loads(COSTS.read_text(encoding="utf-8")))


def estimate(
    cells: Sequence[CellPlan], folder: ComparisonFolder | None, workers: Workers, study: Runner
) -> CostEstimate:
    """Estimate roughly what the cells that are not stored yet will take; nothing is run.

    Where cells are finished, all seconds are scaled so that those of the finished cells are right.

    Raises:
        UsageError: the data cannot be read, or the backend's scheduler does not answer.
    """
    finished: list[CellPlan] = []
    todo: list[CellPlan] = []
    for cell in cells:
        (finished if folder is not None and folder.done(cell.spec) else todo).append(cell)
    at_once = min(len(todo), workers.at_once()) if todo else 0
    seconds = {cell: _costs().seconds(study.setup(cell.spec)) for cell in cells}
    rests_on = f"an order of magnitude, on an idle machine: from costs measured on {_costs().machine}"
    gap = _seconds_between(folder, finished) if folder is not None else None
    if gap and todo:
        pace = gap * at_once / fmean(seconds[cell] for cell in finished)
        seconds = {cell: pace * value for cell, value in seconds.items()}
        rests_on = f"rough: from the pace of {len(finished)} finished cells, as with {at_once} workers"
    left = [seconds[cell] for cell in todo]
    return CostEstimate(
        kinds=tuple(_kinds(cells, todo, seconds, study)),
        workers=at_once,
        # No schedule ends before its longest cell does.
        seconds=max(sum(left) / at_once, *left) if left else 0.0,
        memory=max((_memory(study.setup(cell.spec)) for cell in todo), default=0.0),
        rests_on=rests_on,
    )


def _memory(setup: Setup) -> float:
    data = setup.collection
    features = sum(data.part(name).features.nbytes for name in data.PARTS)
    return _costs().worker_bytes + MOST_SHARED + 2.0 * features


def _seconds_between(folder: ComparisonFolder, finished: Sequence[CellPlan]) -> float | None:
    """Seconds from one finished cell to the next; the longest tenth, pauses among them, is left out."""
    if len(finished) < _LEAST_FINISHED:
        return None
    times = sorted((folder.cell(cell.spec) / FACTS).stat().st_mtime for cell in finished)
    gaps = sorted(later - earlier for earlier, later in pairwise(times))
    return fmean(gaps[: len(gaps) * 9 // 10])


def _kinds(
    cells: Sequence[CellPlan], todo: Sequence[CellPlan], seconds: dict[CellPlan, float], study: Runner
) -> Iterator[KindCostEstimate]:
    for kind, count in Counter(cell.kind for cell in cells).items():
        left = [cell for cell in todo if cell.kind == kind]
        yield KindCostEstimate(
            kind=kind,
            cells=count,
            done=count - len(left),
            seconds=sum(seconds[cell] for cell in left),
            disk=sum(_costs().disk(study.setup(cell.spec)) for cell in left),
        )
