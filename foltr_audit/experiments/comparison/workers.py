"""Runs pieces of work side by side: on the cores of this machine, or on a Dask or Ray cluster.

Pieces are handed out one by one by the process that asks, as workers get free; results come back in any
order. Nothing that is read from disk is run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeVar

from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.experiments.comparison.pools import (
    DaskPool,
    LocalPool,
    RayPool,
    WorkerCrashError,
    WorkerPool,
    one_thread,
)

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 1
"""Pieces that are handed out beyond one per worker, so that none waits for its next."""

_DEATHS = 3
"""Deaths of workers one after the other, with nothing finished between them, that end the work."""

_LOOK_AGAIN = 5.0
"""Seconds between looks at a cluster whose workers come and go."""

_PATIENCE = 60.0
"""Seconds that a cluster may be without workers."""


@dataclass(frozen=True)
class Workers:
    """Who does the work.

    Attributes:
        backend: `local`, `dask` or `ray`.
        jobs: processes, of one thread each; None for one per core, or all that a cluster has.
        address: of a cluster's scheduler; None starts a local one (`dask`), or finds or starts one (`ray`).
    """

    backend: Literal["local", "dask", "ray"] = "local"
    jobs: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs: {self.jobs}; expected at least 1")
        if self.backend == "local" and self.address is not None:
            raise UsageError("--scheduler: only with --backend dask or ray")

    @property
    def alone(self) -> bool:
        """Whether this process does everything itself."""
        return self.backend == "local" and self.processes == 1

    @property
    def processes(self) -> int:
        """Processes on this machine, for the local backend."""
        import joblib

        return self.jobs or int(joblib.cpu_count())

    def at_once(self) -> int:
        """How many pieces are worked on at once now; asks a cluster that has an address.

        Raises:
            UsageError: the backend is not installed, or its scheduler is not reached.
        """
        if self.address is None:
            return self.processes
        with self._pool(1) as pool:
            return max(1, pool.slots())

    def results(self, work: Callable[[T], R], pieces: Iterable[T]) -> Generator[R, None, None]:
        """The result of each piece as it comes, in any order; pieces are asked for as workers get free.

        No worker is started before there is a piece. A piece whose worker dies is given to another one. Where
        this iterator is closed, local workers are killed.

        Raises:
            UsageError: the backend is not installed, or its scheduler is not reached.
            FoltrAuditError: workers died again and again, or the cluster is gone.
        """
        pieces = iter(pieces)
        if self.alone:
            with one_thread():
                yield from map(work, pieces)
            return
        most = self.processes if self.backend == "local" else 1
        first = list(islice(pieces, most))
        if first:
            with self._pool(len(first)) as pool:
                yield from _TaskDispatcher(pool, work, first, pieces).results()

    def _pool(self, pieces: int) -> AbstractContextManager[WorkerPool]:
        if self.backend == "local":
            return LocalPool(min(self.processes, pieces))
        return (DaskPool if self.backend == "dask" else RayPool)(self.address, self.jobs)


class _TaskDispatcher:
    """Hands pieces to a pool and takes results from it.

    Args:
        pool: where they are done.
        work: what is done.
        first: pieces that are taken already.
        more: the others.
    """

    def __init__(self, pool: WorkerPool, work: Callable[[T], R], first: list[T], more: Iterator[T]) -> None:
        self.pool = pool
        self.work = work
        self.todo: list[Any] = first[::-1]
        self.more: Iterator[Any] = more
        self.out: dict[Future[Any], Any] = {}
        self.deaths = 0
        self.slots = 1

    def results(self) -> Iterator[Any]:
        while self._hand_out():
            done, _ = wait(self.out, timeout=_LOOK_AGAIN, return_when=FIRST_COMPLETED)
            died: WorkerCrashError | None = None
            for future in done:
                piece = self.out.pop(future)
                try:
                    result = self.pool.result(future)
                except WorkerCrashError as error:
                    self.todo.append(piece)
                    died = error
                else:
                    self.deaths = 0
                    yield result
            if died is not None:
                self._count(died)

    def _hand_out(self) -> bool:
        """Keep every worker busy; False where all is done."""
        if self.out or self.todo:
            self._look()
        while len(self.out) < self.slots + _AHEAD:
            piece = self.todo.pop() if self.todo else next(self.more, _END)
            if piece is _END:
                break
            self.out[self.pool.submit(self.work, piece)] = piece
        return bool(self.out)

    def _look(self) -> None:
        """See how many workers there are; a cluster that stays without any is given up.

        Raises:
            FoltrAuditError: there are none.
        """
        start = time.monotonic()
        while not (found := self.pool.slots()):
            if time.monotonic() - start > _PATIENCE:
                raise FoltrAuditError(
                    f"--scheduler: no worker for {_PATIENCE:g} seconds; finished cells are kept: "
                    "start workers and give --resume"
                )
            time.sleep(_LOOK_AGAIN / 10)
        self.slots = found

    def _count(self, died: WorkerCrashError) -> None:
        self.deaths += 1
        if self.deaths >= _DEATHS:
            raise FoltrAuditError(
                f"{died}, {_DEATHS} times without finishing anything, perhaps for want of memory; "
                "finished cells are kept: give --resume with fewer --jobs"
            ) from died


_END = object()
