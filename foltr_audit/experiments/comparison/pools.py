"""Where pieces of work are done: processes of this machine, a Dask cluster, or a Ray cluster.

The three give the same futures of `concurrent.futures`, so that one piece of code hands out the work.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from foltr_audit.errors import FoltrAuditError, UsageError

_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"),
    "1",
)
_CONNECT = 10
"""Seconds until a scheduler counts as absent."""


def _knock(address: str) -> None:
    """See whether anything answers at the address of a scheduler.

    Raises:
        ValueError: it is no address.
        OSError: nothing answers.
    """
    parts = urlsplit(address if "://" in address else f"//{address}")
    if not parts.hostname or parts.port is None:
        raise ValueError("expected HOST:PORT")
    socket.create_connection((parts.hostname, parts.port), timeout=_CONNECT).close()


class WorkerCrashError(Exception):
    """A worker died over a piece; another one may have it."""


class WorkerPool(Protocol):
    """Workers that are there, used as a context."""

    def slots(self) -> int:
        """How many pieces can be worked on at once now."""
        ...

    def submit(self, work: Callable[[Any], Any], piece: Any) -> Future[Any]:
        """Have a worker do a piece."""
        ...

    def result(self, future: Future[Any]) -> Any:
        """What a piece gave.

        Raises:
            WorkerDiedError: nothing, since its worker died; another may be given it.
            FoltrAuditError: nothing, since there is no cluster any more.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started meanwhile never hear of Ctrl-C: who started them ends them.

    This process does not hear of it for that moment either. (A blocked signal would only be late, but what
    starts processes unblocks it.)
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)


def _end_with(parent: int) -> None:
    """In a worker: end when the process that started it has ended, however that was."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def one_thread() -> Iterator[None]:
    """Kernels that this thread calls meanwhile do not share their work among threads."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)


@contextmanager
def _its_thread_may_fail() -> Iterator[None]:
    """Loky's own thread may stumble over work that is taken back while it hands it out; nobody is told."""
    before = threading.excepthook

    def hook(failed: threading.ExceptHookArgs) -> None:
        if failed.thread is None or failed.thread.name != "ExecutorManagerThread":
            before(failed)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


class LocalPool:
    """Processes of this machine, one thread each."""

    def __init__(self, processes: int) -> None:
        """Nothing is started before the first piece."""
        self.processes = processes
        self._executor: Any = None

    def slots(self) -> int:
        """As `WorkerPool`."""
        return self.processes

    def submit(self, work: Callable[[Any], Any], piece: Any) -> Future[Any]:
        """As `WorkerPool`; after the death of a worker new ones are started."""
        from joblib.externals.loky import ProcessPoolExecutor
        from joblib.externals.loky.process_executor import BrokenProcessPool

        if self._executor is not None:
            try:
                found: Future[Any] = self._executor.submit(work, piece)
            except BrokenProcessPool:
                self._stop()
            else:
                return found
        self._executor = ProcessPoolExecutor(
            self.processes, env=_ONE_THREAD, initializer=_end_with, initargs=(os.getpid(),)
        )
        with _deaf_to_ctrl_c():
            first: Future[Any] = self._executor.submit(work, piece)
        return first

    def result(self, future: Future[Any]) -> Any:
        """As `WorkerPool`."""
        from joblib.externals.loky.process_executor import BrokenProcessPool

        try:
            return future.result()
        except BrokenProcessPool as error:
            raise WorkerCrashError("a worker process died") from error

    def _stop(self) -> None:
        if self._executor is not None:
            with _its_thread_may_fail():
                self._executor.shutdown(wait=True, kill_workers=True)
            self._executor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()


def _with_one_thread(work: Callable[[Any], Any], piece: Any) -> Any:
    """In a worker of a cluster: do a piece on one thread, and one piece at a time."""
    with _TURN, one_thread():
        return work(piece)


_TURN = threading.Lock()


class DaskPool:
    """A Dask cluster, or one that is started on this machine and ends with the work."""

    def __init__(self, address: str | None, jobs: int | None) -> None:
        """Nothing is reached or started yet."""
        self.address = address
        self.jobs = jobs
        self._stack = ExitStack()

    def slots(self) -> int:
        """As `WorkerPool`: its workers, whatever their threads."""
        try:
            found = len(self._client.ncores())
        except (OSError, CancelledError, TimeoutError) as error:
            raise self._gone() from error
        return min(found, self.jobs or found)

    def submit(self, work: Callable[[Any], Any], piece: Any) -> Future[Any]:
        """As `WorkerPool`."""
        try:
            found: Future[Any] = self._executor.submit(_with_one_thread, work, piece)
        except (OSError, CancelledError, TimeoutError) as error:
            raise self._gone() from error
        return found

    def result(self, future: Future[Any]) -> Any:
        """As `WorkerPool`."""
        from distributed import KilledWorker

        try:
            return future.result()
        except KilledWorker as error:
            raise WorkerCrashError("a Dask worker died") from error
        except (OSError, CancelledError) as error:
            raise self._gone() from error

    def _gone(self) -> FoltrAuditError:
        where = self.address or "of this machine"
        return FoltrAuditError(
            f"--scheduler: the Dask scheduler {where} is gone; finished cells are kept: give --resume"
        )

    def __enter__(self) -> Self:
        try:
            from distributed import Client, LocalCluster
            from distributed.comm import resolve_address
        except ImportError as error:
            raise UsageError(
                "--backend dask: Dask is not installed; expected pip install 'foltr-audit[dask]'"
            ) from error
        for name in ("distributed", "distributed.client"):  # the end of work is told in one line
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            with _deaf_to_ctrl_c():
                where: Any = self.address
                if where is not None:
                    _knock(resolve_address(where))
                else:
                    where = self._stack.enter_context(
                        LocalCluster(
                            n_workers=self.jobs,
                            threads_per_worker=1,
                            dashboard_address=None,
                            silence_logs=logging.CRITICAL,
                        )
                    )
                self._client = self._stack.enter_context(
                    Client(where, timeout=_CONNECT, set_as_default=False)
                )
            self._executor = self._client.get_executor(pure=False)
        except (OSError, ValueError, TypeError) as error:
            self._stack.close()
            raise UsageError(f"--scheduler: {self.address}: no Dask scheduler answers: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class RayPool:
    """A Ray cluster, or one that is started on this machine and ends with the work."""

    def __init__(self, address: str | None, jobs: int | None) -> None:
        """Nothing is reached or started yet."""
        self.address = address
        self.jobs = jobs
        self._stack = ExitStack()

    def slots(self) -> int:
        """As `WorkerPool`: its cores."""
        import ray

        found = int(ray.cluster_resources().get("CPU", 0))
        return min(found, self.jobs or found)

    def submit(self, work: Callable[[Any], Any], piece: Any) -> Future[Any]:
        """As `WorkerPool`."""
        found: Future[Any] = self._remote.remote(work, piece).future()
        return found

    def result(self, future: Future[Any]) -> Any:
        """As `WorkerPool`."""
        from ray.exceptions import RayError, RayTaskError, WorkerCrashedError

        try:
            return future.result()
        except WorkerCrashedError as error:
            raise WorkerCrashError("a Ray worker died") from error
        except RayTaskError:
            raise
        except RayError as error:
            raise FoltrAuditError(
                f"--scheduler: the Ray cluster failed: {error}; finished cells are kept: give --resume"
            ) from error

    def __enter__(self) -> Self:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise UsageError(
                "--backend ray: Ray is not installed; expected pip install 'foltr-audit[ray]'"
            ) from error
        try:
            if self.address not in (None, "auto", "local"):
                _knock(str(self.address))
            with _deaf_to_ctrl_c():
                ray.init(
                    address=self.address,
                    num_cpus=None if self.address else self.jobs,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    include_dashboard=None if self.address else False,
                )
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"--scheduler: {self.address}: no Ray cluster answers: {error}") from error
        self._stack.callback(ray.shutdown)
        self._remote = ray.remote(num_cpus=1, max_retries=3)(_with_one_thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
