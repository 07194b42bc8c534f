"""Runs pieces of work side by side with joblib: on the cores of this machine, or on a Dask or Ray cluster.

joblib asks for pieces as workers become free; results come back in any order. Nothing that is read from disk
is executed: a worker imports the plug-ins that the user named in this process, and no others.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Literal, TypeVar

from foltr_audit.core.plugins.own_classes import import_class, importable_names
from foltr_audit.core.plugins.registry import use_plugin
from foltr_audit.errors import FoltrAuditError, UsageError

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def one_thread() -> Iterator[None]:
    """Make kernels that this thread calls meanwhile run on one thread."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)


@contextmanager
def without_ctrl_c() -> Iterator[None]:
    """Start processes that ignore Ctrl-C from their first moment: the process that starts them ends them."""
    # Python sets signal handlers in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)


def _begin(parent: int) -> None:
    """In a new local worker: ignore Ctrl-C, and end when the process that started it ends, even if killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["POLARS_MAX_THREADS"] = "1"  # joblib limits the other libraries

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)  # `sys.exit` would end this thread alone

    threading.Thread(target=watch, daemon=True).start()


def _with_plugins(names: Sequence[str], work: Callable[[T], R], piece: T) -> R:
    """In a worker: import the classes that the user named, and do the work."""
    for name in names:
        use_plugin(import_class(name))
    return work(piece)


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

    def results(self, work: Callable[[T], R], pieces: Iterable[T]) -> Generator[R, None, None]:
        """The result of each piece as it comes, in any order; pieces are asked for as workers become free.

        No worker is started before there is a piece. When this iterator is closed, local workers are killed.
        A Dask or Ray cluster gives a piece whose worker died to another worker, some times.

        Raises:
            UsageError: the backend is not installed, or its scheduler does not answer.
            FoltrAuditError: a worker died, or the cluster is gone.
        """
        pieces = iter(pieces)
        if self.alone:
            with one_thread():
                yield from map(work, pieces)
            return
        # All processes start at once: never more than there are pieces.
        first = list(islice(pieces, self.processes if self.backend == "local" else 1))
        if first:
            yield from self._parallel(work, chain(first, pieces), len(first))

    def _parallel(self, work: Callable[[T], R], pieces: Iterable[T], most: int) -> Generator[R, None, None]:
        import joblib

        with ExitStack() as stack:
            if self.backend == "local":
                config = {"backend": "loky", "inner_max_num_threads": 1}
                # With one job, joblib would do the work in this process.
                options = {"n_jobs": max(2, most), "initializer": _begin, "initargs": (os.getpid(),)}
            else:
                from foltr_audit.experiments.comparison.clusters import cluster

                config = {"backend": stack.enter_context(cluster(self.backend, self.address, self.jobs))}
                options = {"n_jobs": -1}
            do = joblib.delayed(partial(_with_plugins, importable_names(), work))
            with joblib.parallel_config(**config), without_ctrl_c():
                results = joblib.Parallel(
                    **options, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs + 1"
                )(do(piece) for piece in pieces)
            # When it is closed early, joblib warns that work is left undone.
            stack.enter_context(warnings.catch_warnings(action="ignore", category=UserWarning))
            stack.enter_context(closing(results))
            try:
                yield from results
            except BrokenProcessPool as error:
                raise FoltrAuditError(
                    "a worker process died, perhaps for lack of memory; finished cells are kept: "
                    "give --resume with fewer --jobs"
                ) from error
