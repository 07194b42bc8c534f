"""Progress of long work: a rich bar on stderr where that is a terminal, else nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol


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
    def task(self, name: str, total: int) -> Iterator[Tick]:
        """A task of `total` pieces."""
        ...


class _Nothing:
    def __call__(self, metrics: Mapping[str, float] | None = None) -> None:
        del metrics

    def skip(self, done: int) -> None:
        del done

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[Tick]:
        del name, total
        yield self


SILENT: Progress = _Nothing()
NO_TICK: Tick = _Nothing()


class _Bar:
    """A rich progress bar per task, gone when the task is done."""

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[Tick]:
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
                def __call__(self, metrics: Mapping[str, float] | None = None) -> None:
                    shown = (metrics or {}).get("offline_ndcg@10")
                    bar.update(task, advance=1, note="" if shown is None else f"nDCG@10 {shown:.3f}")

                def skip(self, done: int) -> None:
                    bar.update(task, advance=done)

            yield Ticker()


def on_terminal() -> Progress:
    """A bar on stderr if that is a terminal, else silence."""
    return _Bar() if sys.stderr.isatty() else SILENT
