"""Where pieces of work are done: processes of this machine, a Dask cluster, or a Ray cluster.

Each pool is a context that yields a `WorkerPool`, whose futures are those of `concurrent.futures`, so that
one loop (in `workers.py`) hands out the work for all three.

Local processes are those of loky, the copy inside joblib. `joblib.Parallel` itself does not fit: it takes
pieces in a thread of its own, where locks on cells would be taken too, and gives up when a worker dies.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from foltr_audit.errors import FoltrAuditError, UsageError

Work = Callable[[Any], Any]

# There is a worker for each core. With the libraries' default of a thread per core, each of them would start
# as many threads as there are cores.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"),
    "1",
)
_CONNECT = 10
"""Seconds after which a scheduler that does not answer counts as absent."""


class WorkerCrashError(Exception):
    """The worker of a piece died; another worker may take the piece."""


@dataclass(frozen=True, kw_only=True)
class WorkerPool:
    """Workers that are ready.

    Attributes:
        submit: gives a piece to a worker, as the future of its result.
        slots: how many pieces can be worked on at once now.
        worker: what one worker is called in errors.
        died: errors of a future whose worker died.
        cluster: what the cluster is called in errors.
        lost: errors that mean that there is no cluster any more.
        own: errors among `lost` that the work itself raised.
    """

    submit: Callable[[Work, Any], Future[Any]]
    slots: Callable[[], int]
    worker: str
    died: tuple[type[BaseException], ...]
    cluster: str = ""
    lost: tuple[type[BaseException], ...] = ()
    own: tuple[type[BaseException], ...] = ()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Translate errors of the backend.

        Raises:
            WorkerCrashError: the worker of a piece died.
            FoltrAuditError: the cluster is gone.
        """
        try:
            yield
        except self.died as error:
            raise WorkerCrashError(f"{self.worker} died") from error
        except self.own:
            raise
        except self.lost as error:
            raise FoltrAuditError(
                f"--scheduler: {self.cluster} is gone ({type(error).__name__}); "
                "finished cells are kept: give --resume"
            ) from error


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


# `slots` counts a Dask worker once, whatever its threads. Pieces that still meet in one process take turns.
_TURN = threading.Lock()


def _run_alone(work: Work, piece: Any) -> Any:
    """In a worker of a cluster: do a piece on one thread, and one piece at a time."""
    with _TURN, one_thread():
        return work(piece)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Start processes that ignore Ctrl-C: the process that starts them ends them.

    An ignored signal is inherited, so that there is no moment in which a new process can print a traceback.
    (A blocked signal would be inherited too, but what starts processes unblocks it.)
    """
    # Python sets signal handlers in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)


def _end_with(parent: int) -> None:
    """In a worker: end when the process that started it has ended, even if it was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        # `sys.exit` would end this thread alone, and the cell would run on for nobody.
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _stop(executor: Any) -> None:
    """Kill the workers of a loky executor.

    Its own thread may stumble over work that is withdrawn while it hands it out; that traceback is hidden.
    """
    before = threading.excepthook

    def hook(failed: threading.ExceptHookArgs) -> None:
        if failed.thread is None or failed.thread.name != "ExecutorManagerThread":
            before(failed)

    threading.excepthook = hook
    try:
        executor.shutdown(wait=True, kill_workers=True)
    finally:
        threading.excepthook = before


@contextmanager
def local_pool(processes: int) -> Iterator[WorkerPool]:
    """Processes of this machine, one thread each; new ones are started after the death of a worker."""
    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.process_executor import BrokenProcessPool

    executor: Any = None

    def submit(work: Work, piece: Any) -> Future[Any]:
        nonlocal executor
        if executor is not None:
            try:
                found: Future[Any] = executor.submit(work, piece)
            except BrokenProcessPool:
                _stop(executor)
            else:
                return found
        executor = ProcessPoolExecutor(
            processes, env=_ONE_THREAD, initializer=_end_with, initargs=(os.getpid(),)
        )
        with _without_ctrl_c():
            first: Future[Any] = executor.submit(work, piece)  # starts all processes
        return first

    try:
        yield WorkerPool(
            submit=submit, slots=lambda: processes, worker="a worker process", died=(BrokenProcessPool,)
        )
    finally:
        if executor is not None:
            _stop(executor)


def _knock(address: str) -> None:
    """Check that something answers at the address of a scheduler; Dask and Ray themselves try for long.

    Raises:
        ValueError: it is no address.
        OSError: nothing answers.
    """
    parts = urlsplit(address if "://" in address else f"//{address}")
    if not parts.hostname or parts.port is None:
        raise ValueError("expected HOST:PORT")
    socket.create_connection((parts.hostname, parts.port), timeout=_CONNECT).close()


@contextmanager
def dask_pool(address: str | None, jobs: int | None) -> Iterator[WorkerPool]:
    """A Dask cluster, or one that is started on this machine and ends with the work.

    Raises:
        UsageError: Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client, KilledWorker, LocalCluster
        from distributed.comm import resolve_address
    except ImportError as error:
        raise UsageError(
            "--backend dask: Dask is not installed; expected pip install 'foltr-audit[dask]'"
        ) from error
    for name in ("distributed", "distributed.client"):  # a lost cluster is reported in one line, by us
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with ExitStack() as stack:
        try:
            with _without_ctrl_c():
                where: Any = address
                if address is not None:
                    _knock(resolve_address(address))
                else:
                    where = LocalCluster(
                        n_workers=jobs,
                        threads_per_worker=1,
                        dashboard_address=None,
                        silence_logs=logging.CRITICAL,
                    )
                    stack.enter_context(where)
                client = stack.enter_context(Client(where, timeout=_CONNECT, set_as_default=False))
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"--scheduler: {address}: no Dask scheduler answers: {error}") from error
        # With pure=True, Dask takes equal calls for one task, so a piece that is given again might not be run
        # again.
        executor = client.get_executor(pure=False)
        yield WorkerPool(
            submit=lambda work, piece: executor.submit(_run_alone, work, piece),
            slots=lambda: min(len(client.ncores()), jobs or sys.maxsize),  # workers, whatever their threads
            worker="a Dask worker",
            died=(KilledWorker,),
            cluster=f"the Dask scheduler {address or 'of this machine'}",
            lost=(OSError, CancelledError, TimeoutError),
        )


@contextmanager
def ray_pool(address: str | None, jobs: int | None) -> Iterator[WorkerPool]:
    """A Ray cluster, or one that is started on this machine and ends with the work.

    Raises:
        UsageError: Ray is not installed, or no cluster answers.
    """
    # Ray reports its usage over the network unless this is set before it starts.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        from ray.exceptions import RayError, RayTaskError, WorkerCrashedError
    except ImportError as error:
        raise UsageError(
            "--backend ray: Ray is not installed; expected pip install 'foltr-audit[ray]'"
        ) from error
    try:
        if address not in (None, "auto", "local"):
            _knock(str(address))
        with _without_ctrl_c():
            ray.init(
                address=address,
                num_cpus=None if address else jobs,
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=None if address else False,
            )
    except (ConnectionError, OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"--scheduler: {address}: no Ray cluster answers: {error}") from error
    remote = ray.remote(num_cpus=1, max_retries=3)(_run_alone)
    try:
        yield WorkerPool(
            submit=lambda work, piece: remote.remote(work, piece).future(),
            slots=lambda: min(int(ray.cluster_resources().get("CPU", 0)), jobs or sys.maxsize),
            worker="a Ray worker",
            died=(WorkerCrashedError,),
            cluster="the Ray cluster",
            lost=(RayError,),
            own=(RayTaskError,),
        )
    finally:
        ray.shutdown()
