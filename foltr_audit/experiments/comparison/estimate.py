"""What a comparison will take: time, memory and disk, from a shortened cell of each sort."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from time import monotonic

from foltr_audit.experiments.comparison.expansion import CellPlan
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import Kind
from foltr_audit.experiments.comparison.pace import Sort, sort_of
from foltr_audit.experiments.comparison.probe import QUERIES, ROUNDS, TRIALS, CellCost, probe
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Table
from foltr_audit.utils.progress import SILENT, Progress

_ENOUGH = 60.0
"""Seconds of shortened cells after which no more are started."""

_START = 2.0
"""Seconds that worker processes take to start and to load compiled kernels."""


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
        memory: bytes of one worker at most.
        rests_on: what this was measured on, in words.
        problems: cells that cannot be run, in words.
    """

    kinds: tuple[KindCostEstimate, ...]
    workers: int
    seconds: float
    memory: float
    rests_on: tuple[str, ...]
    problems: tuple[str, ...] = ()

    @property
    def memory_in_all(self) -> float:
        """Bytes of all workers together."""
        return self.workers * self.memory

    @property
    def disk(self) -> float:
        """Bytes that are stored."""
        return sum(kind.disk for kind in self.kinds)


def estimate(
    cells: Sequence[CellPlan],
    folder: ComparisonFolder | None,
    workers: Workers,
    progress: Progress = SILENT,
) -> CostEstimate:
    """Estimate what the cells that are not stored yet will take, good to a factor of about two.

    The workers play a shortened cell of each sort (see `pace.sort_of`) and write nothing.

    Raises:
        UsageError: the backend is not installed, or its scheduler does not answer.
        FoltrAuditError: a worker died.
    """
    todo = [cell for cell in cells if folder is None or not folder.done(cell.spec)]
    sorts: dict[Sort, CellPlan] = {}
    for cell in todo:
        sorts.setdefault(_sort(cell), cell)
    known = _probe(sorts, workers, progress)
    costs = [_cost(cell, known) for cell in todo]
    at_once = min(len(todo), workers.at_once()) if todo else 0
    seconds = 0.0
    if todo:
        # No schedule ends before its longest cell does, and each worker loads the data once.
        longest = max(cost.seconds for cost in costs)
        seconds = max(sum(cost.seconds for cost in costs) / at_once, longest)
        seconds += max(cost.loading for cost in costs) + (0.0 if workers.alone else _START)
    return CostEstimate(
        kinds=tuple(_kinds(cells, todo, costs)),
        workers=at_once,
        seconds=seconds,
        memory=max((cost.memory for cost in costs), default=0.0),
        rests_on=_rests_on(len(known), len(sorts)) if todo else (),
        problems=tuple(dict.fromkeys(cost.problem for cost in known.values() if cost.problem)),
    )


def _sort(cell: CellPlan) -> Sort:
    return (cell.kind, *sort_of(cell.spec))


def _probe(sorts: dict[Sort, CellPlan], workers: Workers, progress: Progress) -> dict[Sort, CellCost]:
    """What a cell of each sort takes, of as many sorts as `_ENOUGH` allows."""
    start, cells = monotonic(), list(sorts.values())

    def pieces() -> Iterator[tuple[int, Table]]:
        for number, cell in enumerate(cells):
            if monotonic() - start < _ENOUGH:
                yield number, cell.spec.table()

    found = {}
    with progress.task("shortened cells", len(cells)) as tick:
        for cost in workers.results(probe, pieces()):
            found[_sort(cells[cost.number])] = cost
            tick()
    return found


def _cost(cell: CellPlan, known: dict[Sort, CellCost]) -> CellCost:
    """What a cell takes; of a sort that was not probed, the mean of its kind, or of all."""
    sort = _sort(cell)
    if sort in known:
        return known[sort]
    good = {other: cost for other, cost in known.items() if not cost.problem}
    alike = [cost for other, cost in good.items() if other[0] == sort[0]] or list(good.values())
    if not alike:
        return CellCost(0)
    return CellCost(
        0,
        seconds=fmean(cost.seconds for cost in alike),
        loading=max(cost.loading for cost in alike),
        memory=max(cost.memory for cost in alike),
        disk=fmean(cost.disk for cost in alike),
    )


def _kinds(
    cells: Sequence[CellPlan], todo: Sequence[CellPlan], costs: Sequence[CellCost]
) -> Iterator[KindCostEstimate]:
    for kind, count in Counter(cell.kind for cell in cells).items():
        left = [cost for cell, cost in zip(todo, costs, strict=True) if cell.kind == kind]
        yield KindCostEstimate(
            kind=kind,
            cells=count,
            done=count - len(left),
            seconds=sum(cost.seconds for cost in left),
            disk=sum(cost.disk for cost in left),
        )


def _rests_on(probed: int, sorts: int) -> tuple[str, ...]:
    lines = [
        f"{probed} shortened cells, one of each sort (kind, learner, scenario, plug-ins of the defense)",
        f"at most {ROUNDS} rounds, {QUERIES} attacked queries of a part, {TRIALS[0]} and {TRIALS[1]} trials",
        "measured on the workers under their present load; good to a factor of about two",
    ]
    if probed < sorts:
        lines.append(
            f"{sorts - probed} sorts count as the mean of the others: measuring stops after {_ENOUGH:g} s"
        )
    return tuple(lines)
