"""Runs pieces of work side by side: with joblib on the cores of this machine, or on a Dask cluster.

joblib's Dask backend waits for ever when a worker has died or the scheduler is gone, and is not used.

Pieces are asked for as workers become free; results come back in any order. Nothing that is read from disk
is executed: a worker imports the plug-ins that the user named in this process, and no others.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import urlsplit

from foltr_audit.core.plugins.registry import import_class, importable_names, use_plugin
from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.utils.optional_dependencies import require

if TYPE_CHECKING:
    from distributed import Client

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


def _with_plugins(names: Sequence[str], folders: Sequence[str], work: Callable[[T], R], piece: T) -> R:
    """In a worker: import the classes that the user named, and do the work.

    Processes live on after a comparison, so that `folders` may be newer than them.
    """
    sys.path += [folder for folder in folders if folder not in sys.path]
    for name in names:
        use_plugin(import_class(name))
    return work(piece)


_CONNECT = 10
"""Seconds after which a scheduler that does not answer, or has no worker, counts as absent."""

# Pieces that meet in one process of several threads take turns.
_TURN = threading.Lock()


def _run_alone(work: Callable[[T], R], piece: T) -> R:
    """In a worker of a cluster: do a piece on one thread, and one piece at a time."""
    with _TURN, one_thread():
        return work(piece)


def _on_cluster(
    work: Callable[[T], R], pieces: Iterator[T], address: str | None, jobs: int | None
) -> Iterator[R]:
    """The results of a Dask cluster; without an address of one of this machine for this work."""
    from distributed import KilledWorker

    with ExitStack() as stack:
        try:
            client = _connect(stack, address, jobs)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise UsageError(f"--scheduler: {address}: no Dask scheduler answers: {error}") from error
        workers = min(len(client.ncores()), jobs or sys.maxsize)  # whatever their threads
        # With pure=True, Dask takes equal calls for one task.
        submit = partial(client.get_executor(pure=False).submit, _run_alone, work)
        try:
            waiting: set[Future[R]] = set(map(submit, islice(pieces, workers + 1)))
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                waiting |= set(map(submit, islice(pieces, len(done))))
                yield from (future.result() for future in done)
        except KilledWorker as error:
            raise FoltrAuditError(
                "workers of Dask died, perhaps for lack of memory; finished cells are kept: give --resume"
            ) from error
        except (OSError, CancelledError, TimeoutError, ValueError) as error:
            # Dask unpacks the error of a future that was lost, which has none.
            if isinstance(error, ValueError) and client.status == "running":
                raise
            raise FoltrAuditError(
                f"--scheduler: the Dask cluster {address or 'of this machine'} is gone "
                f"({type(error).__name__}); finished cells are kept: give --resume"
            ) from error


def _connect(stack: ExitStack, address: str | None, jobs: int | None) -> Client:
    """A client of a cluster that has a worker; the stack closes both."""
    from distributed import Client, LocalCluster
    from distributed.comm import resolve_address

    for name in ("distributed", "distributed.client"):  # a lost cluster is reported in one line, by us
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with without_ctrl_c():
        if address is not None:
            _knock(resolve_address(address))
        cluster = address or stack.enter_context(
            LocalCluster(
                n_workers=jobs, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
            )
        )
        client = stack.enter_context(Client(cluster, timeout=_CONNECT, set_as_default=False))
    client.wait_for_workers(1, timeout=_CONNECT)
    return client


def _knock(address: str) -> None:
    """Check that something answers at the address of a scheduler; Dask itself tries for long."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    if not parts.hostname or parts.port is None:
        raise ValueError("expected HOST:PORT")
    socket.create_connection((parts.hostname, parts.port), timeout=_CONNECT).close()


@dataclass(frozen=True)
class Workers:
    """Who does the work: processes of one thread each, None for one per core, or all that a cluster has.

    The address is that of the scheduler of a Dask cluster; None starts one on this machine.
    """

    backend: Literal["local", "dask"] = "local"
    jobs: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs: {self.jobs}; expected at least 1")
        if self.backend == "local" and self.address is not None:
            raise UsageError("--scheduler: only with --backend dask")
        if self.backend == "dask":
            require("dask", "--backend dask")

    @property
    def alone(self) -> bool:
        """Whether this process does everything itself."""
        return self.backend == "local" and self.processes == 1

    @property
    def processes(self) -> int:
        """Processes on this machine, for the local backend; one where it has no semaphores to share."""
        import joblib

        return int(joblib.effective_n_jobs(self.jobs or -1))

    def results(self, work: Callable[[T], R], pieces: Iterable[T]) -> Generator[R, None, None]:
        """The result of each piece as it comes, in any order; pieces are asked for as workers become free.

        No worker is started before there is a piece. When this iterator is closed, local workers are killed.
        A Dask cluster gives a piece whose worker died to another worker, some times.
        """
        pieces = iter(pieces)
        if self.alone:
            with one_thread():
                yield from map(work, pieces)
            return
        # All processes start at once: never more than there are pieces.
        first = list(islice(pieces, self.processes if self.backend == "local" else 1))
        if not first:
            return
        own = importable_names()
        do, pieces = partial(_with_plugins, own, sys.path if own else (), work), chain(first, pieces)
        if self.backend == "dask":
            yield from _on_cluster(do, pieces, self.address, self.jobs)
        else:
            yield from _on_this_machine(do, pieces, len(first))


def _on_this_machine(work: Callable[[T], R], pieces: Iterator[T], processes: int) -> Iterator[R]:
    """The results of processes of joblib, which are killed when this iterator is closed."""
    import joblib

    with joblib.parallel_config(backend="loky", inner_max_num_threads=1), without_ctrl_c():
        results = joblib.Parallel(
            n_jobs=max(2, processes),  # with one job, joblib would do the work in this process
            initializer=_begin,
            initargs=(os.getpid(),),
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch="n_jobs + 1",
        )(joblib.delayed(work)(piece) for piece in pieces)
    # When it is closed early, joblib warns that work is left undone.
    with warnings.catch_warnings(action="ignore", category=UserWarning), closing(results):
        try:
            yield from results
        except BrokenProcessPool as error:
            raise FoltrAuditError(
                "a worker process died, perhaps for lack of memory; finished cells are kept: "
                "give --resume with fewer --jobs"
            ) from error
