"""Progress of long work: a rich bar on stderr where that is a terminal, else nothing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

NOTE = "compiling kernels (first run only) ..."


@cache
def announce_compiling() -> None:
    """Print `NOTE` on stderr when numba begins to compile, if that is a terminal."""
    from numba.core import event

    class Announcement(event.Listener):
        """Prints when the first of many events arrives."""

        said = False

        def on_start(self, _event: object) -> None:
            """A kernel that is in no cache begins to be compiled."""
            if not self.said and sys.stderr is not None and sys.stderr.isatty():
                print(NOTE, file=sys.stderr)  # noqa: T201
            self.said = True

        def on_end(self, _event: object) -> None:
            """Kernels follow each other too fast to be named."""

    event.register("numba:compile", Announcement())  # type: ignore[no-untyped-call]


T = TypeVar("T")


class Tick:
    """Called after every finished round or repeat; this one shows nothing."""

    def __call__(self, metrics: Mapping[str, float] | None = None, /) -> None:
        """One more is done; its metrics may be shown."""

    def skip(self, done: int, /) -> None:
        """Some were done before, and say nothing about the speed."""


class Progress:
    """Shows tasks while they run; this one shows nothing."""

    @contextmanager
    def task(self, name: str, total: int, interactions: int = 0, /) -> Iterator[Tick]:
        """A task of `total` pieces, of some interactions each (0: their rate is not shown)."""
        yield NO_TICK


SILENT, NO_TICK = Progress(), Tick()


class _ProgressBar(Progress):
    """A rich progress bar per task, gone when the task is done."""

    @contextmanager
    def task(self, name: str, total: int, interactions: int = 0, /) -> Iterator[Tick]:
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

            class ProgressTicker(Tick):
                last = math.nan  # rounds that are not evaluated show the nDCG of the last one that was

                def __call__(self, metrics: Mapping[str, float] | None = None, /) -> None:
                    found = (metrics or {}).get("offline_ndcg@10", math.nan)
                    self.last = self.last if math.isnan(found) else found
                    notes = [] if math.isnan(self.last) else [f"nDCG@10 {self.last:.3f}"]
                    speed = bar.tasks[task].speed
                    if interactions and speed:
                        notes.append(f"{speed * interactions:,.0f} interactions/s")
                    bar.update(task, advance=1, note=", ".join(notes))

                def skip(self, done: int, /) -> None:
                    before = bar.tasks[task]
                    if before.speed is None:  # the clock starts now
                        bar.reset(task, total=total, completed=int(before.completed) + done)
                    else:
                        bar.update(task, completed=before.completed + done)

            yield ProgressTicker()


class Stopwatch:
    """Counts the pieces that an iterator gives, and the seconds that it takes.

    Attributes:
        pieces: number of pieces so far.
        seconds: from its start to the last of them.
        first: from its start to the first of them, for which a first run compiles its kernels.
    """

    def __init__(self) -> None:
        self.pieces = 0
        self.seconds = 0.0
        self.first = 0.0

    def over(self, items: Iterator[T]) -> Iterator[T]:
        """The same items; the time that the caller spends on each counts as well."""
        start = time.perf_counter()
        for item in items:
            yield item
            self.pieces += 1
            self.seconds = time.perf_counter() - start
            self.first = self.first or self.seconds


def on_terminal() -> Progress:
    """A bar on stderr if that is a terminal, and a line there if kernels are compiled; else silence."""
    if not sys.stderr.isatty():
        return SILENT

    announce_compiling()
    return _ProgressBar()
