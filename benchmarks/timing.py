"""Rates of several pieces of work measured side by side, so that a busy machine slows all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter


@dataclass(frozen=True)
class TimingTask:
    """Something to be timed.

    Attributes:
        name: short name.
        work: does the work this many times.
        units: what one time of it counts, e.g. its interactions.
        tidy: removes what a turn has left behind, after its time is taken.
    """

    name: str
    work: Callable[[int], object]
    units: float
    tidy: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class TimingSpread:
    """Median, lowest and highest of some repetitions."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> TimingSpread:
        """The spread of at least one value."""
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True)
class WorkRates:
    """Units a second of each contestant, one value per repetition."""

    by_name: dict[str, list[float]]

    def rate(self, name: str) -> TimingSpread:
        """Units a second."""
        return TimingSpread.of(self.by_name[name])

    def ratio(self, name: str, other: str) -> TimingSpread:
        """How many times faster one is than another, pair by pair."""
        pairs = zip(self.by_name[name], self.by_name[other], strict=True)
        return TimingSpread.of([one / two for one, two in pairs])


def seconds(work: Callable[[], object]) -> float:
    """How long a piece of work takes."""
    start = perf_counter()
    work()
    return perf_counter() - start


def _times(task: TimingTask, least: float) -> int:
    _turn(task, 1)
    n = 1
    while least and _turn(task, n) < least:
        n *= 2
    return n


def _turn(task: TimingTask, n: int) -> float:
    """How long it takes to do a piece of work n times."""
    try:
        return seconds(partial(task.work, n))
    finally:
        task.tidy()


def interleave(contestants: Sequence[TimingTask], repetitions: int, least: float) -> WorkRates:
    """Time the contestants in turn, A B C A B C ..., each for at least about `least` seconds a turn.

    Users keep what they have written: what a turn leaves behind is removed after its time is taken.

    Each one first works unmeasured: kernels are compiled, caches filled, and the number of times is
    found that fills a turn, by doubling, since a slow start (a trace) may be followed by fast turns.
    """
    times = {each.name: _times(each, least) for each in contestants}
    rates: dict[str, list[float]] = {each.name: [] for each in contestants}
    for _ in range(repetitions):
        for each in contestants:
            n = times[each.name]
            # Unmeasured: the turns of others left nothing in the caches, and the system may have taken memory
            # back, which can double the time of a round of neural models. Two results are alive at once.
            _turn(each, min(n, 2))
            rates[each.name].append(n * each.units / _turn(each, n))
    return WorkRates(rates)
