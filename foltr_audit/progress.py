"""Progress of long work: a rich bar on stderr where that is a terminal, else nothing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")


class Tick(Protocol):
    """Told after every finished round or repeat."""

    def __call__(self, metrics: Mapping[str, float] | None = None) -> None:
        """One more is done; metrics of it may be shown."""
        ...

    def skip(self, done: int) -> None:
        """These were done before."""
        ...


class Progress(Protocol):
    """Shows tasks while they run."""

    @contextmanager
    def task(self, name: str, total: int, interactions: int = 0) -> Iterator[Tick]:
        """A task of `total` pieces, each of so many interactions (0: their rate is not shown)."""
        ...


class _Nothing:
    def __call__(self, metrics: Mapping[str, float] | None = None) -> None:
        del metrics

    def skip(self, done: int) -> None:
        del done

    @contextmanager
    def task(self, name: str, total: int, interactions: int = 0) -> Iterator[Tick]:
        del name, total, interactions
        yield self


SILENT: Progress = _Nothing()
NO_TICK: Tick = _Nothing()


class _Bar:
    """A rich progress bar per task, gone when the task is done."""

    @contextmanager
    def task(self, name: str, total: int, interactions: int = 0) -> Iterator[Tick]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
        )
        with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=total, note="")

            class Ticker:
                last = math.nan  # rounds that are not evaluated show the nDCG of the last one that was

                def __call__(self, metrics: Mapping[str, float] | None = None) -> None:
                    found = (metrics or {}).get("offline_ndcg@10", math.nan)
                    self.last = self.last if math.isnan(found) else found
                    notes = [] if math.isnan(self.last) else [f"nDCG@10 {self.last:.3f}"]
                    speed = bar.tasks[task].speed
                    if interactions and speed:
                        notes.append(f"{speed * interactions:,.0f} interactions/s")
                    bar.update(task, advance=1, note=", ".join(notes))

                def skip(self, done: int) -> None:
                    bar.update(task, advance=done)

            yield Ticker()


class Stopwatch:
    """How many pieces an iterator has given, and the seconds from its start to the last of them."""

    def __init__(self) -> None:
        """Nothing has been given yet."""
        self.pieces = 0
        self.seconds = 0.0

    def over(self, items: Iterator[T]) -> Iterator[T]:
        """The same items; what is done with each counts as well."""
        start = time.perf_counter()
        for item in items:
            yield item
            self.pieces += 1
            self.seconds = time.perf_counter() - start


def on_terminal() -> Progress:
    """A bar on stderr if that is a terminal, else silence."""
    return _Bar() if sys.stderr.isatty() else SILENT
