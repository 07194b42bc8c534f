"""Runs pieces of work side by side: on the cores of this machine, or on a Dask or Ray cluster.

The process that asks hands out the pieces one by one, as workers become free; results come back in any order.
Nothing that is read from disk is executed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal, TypeVar

from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.experiments.comparison.pools import (
    WorkerCrashError,
    WorkerPool,
    dask_pool,
    local_pool,
    one_thread,
    ray_pool,
)

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 1
"""Pieces that are handed out beyond one per worker, so that no worker waits for its next piece."""

_DEATHS = 3
"""Deaths of workers in a row, with nothing finished in between, that end the work."""

_LOOK_AGAIN = 5.0
"""Seconds between looks at a cluster, whose workers come and go."""

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
            UsageError: the backend is not installed, or its scheduler does not answer.
        """
        if self.address is None:
            return self.processes
        with self._pool(1) as pool, pool.errors():
            return max(1, pool.slots())

    def results(self, work: Callable[[T], R], pieces: Iterable[T]) -> Generator[R, None, None]:
        """The result of each piece as it comes, in any order; pieces are asked for as workers become free.

        No worker is started before there is a piece. A piece whose worker dies is given to another one. When
        this iterator is closed, local workers are killed.

        Raises:
            UsageError: the backend is not installed, or its scheduler does not answer.
            FoltrAuditError: workers died again and again, or the cluster is gone.
        """
        pieces = iter(pieces)
        if self.alone:
            with one_thread():
                yield from map(work, pieces)
            return
        # A local pool starts all its processes at once: never more than there are pieces.
        first = list(islice(pieces, self.processes if self.backend == "local" else 1))
        if first:
            with self._pool(len(first)) as pool:
                yield from _results(pool, work, chain(first, pieces))

    def _pool(self, pieces: int) -> AbstractContextManager[WorkerPool]:
        if self.backend == "local":
            return local_pool(min(self.processes, pieces))
        return (dask_pool if self.backend == "dask" else ray_pool)(self.address, self.jobs)


def _results(pool: WorkerPool, work: Callable[[T], R], pieces: Iterator[T]) -> Iterator[R]:
    """Keep every worker of a pool busy, and yield results as they come."""
    out: dict[Future[Any], T] = {}
    slots = deaths = 0
    died: WorkerCrashError | None = None
    while True:
        if out or died or not slots:  # a cluster that ends after the last piece is no problem
            slots = _wait_for_slots(pool)
        for piece in islice(pieces, max(0, slots + _AHEAD - len(out))):
            with pool.errors():
                out[pool.submit(work, piece)] = piece
        if not out:
            return
        done, _ = wait(out, timeout=_LOOK_AGAIN, return_when=FIRST_COMPLETED)
        died = None
        for future in done:
            piece = out.pop(future)
            try:
                with pool.errors():
                    result = future.result()
            except WorkerCrashError as error:
                pieces, died = chain([piece], pieces), error
            else:
                deaths = 0
                yield result
        deaths += died is not None
        if deaths >= _DEATHS:
            raise FoltrAuditError(
                f"{died}, {_DEATHS} times in a row without finishing anything, perhaps for lack of memory; "
                "finished cells are kept: give --resume with fewer --jobs"
            ) from died


def _wait_for_slots(pool: WorkerPool) -> int:
    """How many pieces can be worked on at once, as soon as that is at least one.

    Raises:
        FoltrAuditError: the cluster stays without workers.
    """
    start = time.monotonic()
    while True:
        with pool.errors():
            slots = pool.slots()
        if slots:
            return slots
        if time.monotonic() - start > _PATIENCE:
            raise FoltrAuditError(
                f"--scheduler: no worker for {_PATIENCE:g} seconds; finished cells are kept: "
                "start workers and give --resume"
            )
        time.sleep(_LOOK_AGAIN / 10)
