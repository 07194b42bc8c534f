"""Dask and Ray clusters as backends of joblib.

joblib's own Dask backend waits for ever when a worker has died or the scheduler is gone.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.experiments.comparison.workers import one_thread, without_ctrl_c

if TYPE_CHECKING:
    from joblib import ParallelBackendBase

Batch = Callable[[], object]

_CONNECT = 10
"""Seconds after which a scheduler that does not answer, or has no worker, counts as absent."""

# Pieces that meet in one process of several threads take turns.
_TURN = threading.Lock()


def _run_alone(batch: Batch) -> object:
    """In a worker of a cluster: do a piece on one thread, and one piece at a time."""
    with _TURN, one_thread():
        return batch()


def _backend(send: Callable[[Batch], Future[object]], slots: Callable[[], int]) -> ParallelBackendBase:
    """A backend that sends pieces as futures; `slots` says how many can be worked on at once now."""
    import joblib

    class FutureBackend(joblib.ParallelBackendBase):  # type: ignore[misc]
        supports_retrieve_callback = True

        def effective_n_jobs(self, n_jobs: int) -> int:
            return max(2, slots())  # with one, joblib would do the work in this process

        def submit(self, func: Batch, callback: Callable[[Future[object]], None]) -> Future[object]:
            future = send(func)
            future.add_done_callback(callback)
            return future

        def retrieve_result_callback(self, out: Future[object]) -> object:
            return out.result()

    return FutureBackend(nesting_level=0)


@contextmanager
def cluster(
    name: Literal["dask", "ray"], address: str | None, jobs: int | None
) -> Iterator[ParallelBackendBase]:
    """A cluster, or one that is started on this machine and ends with the work.

    Raises:
        UsageError: the library is not installed, or no scheduler answers.
        FoltrAuditError: a worker died again and again, or the cluster is gone.
    """
    title = name.title()
    with ExitStack() as stack:
        try:
            find = _dask if name == "dask" else _ray
            backend, died, lost = find(stack, address, jobs)
        except ImportError as error:
            raise UsageError(
                f"--backend {name}: {title} is not installed; expected pip install 'foltr-audit[{name}]'"
            ) from error
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            what = "scheduler" if name == "dask" else "cluster"
            raise UsageError(f"--scheduler: {address}: no {title} {what} answers: {error}") from error
        try:
            yield backend
        except died as error:
            raise FoltrAuditError(
                f"workers of {title} died, perhaps for lack of memory; finished cells are kept: give --resume"
            ) from error
        except lost as error:
            raise FoltrAuditError(
                f"--scheduler: the {title} cluster {address or 'of this machine'} is gone "
                f"({type(error).__name__}); finished cells are kept: give --resume"
            ) from error


Found = tuple["ParallelBackendBase", tuple[type[BaseException], ...], tuple[type[BaseException], ...]]
"""A cluster, errors that mean that a worker died, and errors that mean that the cluster is gone."""


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


def _dask(stack: ExitStack, address: str | None, jobs: int | None) -> Found:
    from distributed import Client, KilledWorker, LocalCluster
    from distributed.comm import resolve_address

    for name in ("distributed", "distributed.client"):  # a lost cluster is reported in one line, by us
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with without_ctrl_c():
        if address is not None:
            _knock(resolve_address(address))
            client = Client(address, timeout=_CONNECT, set_as_default=False)
        else:
            here = LocalCluster(
                n_workers=jobs, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
            )
            client = Client(stack.enter_context(here), timeout=_CONNECT, set_as_default=False)
    stack.enter_context(client)
    client.wait_for_workers(1, timeout=_CONNECT)
    # With pure=True, Dask takes equal calls for one task.
    executor = client.get_executor(pure=False)

    def slots() -> int:
        return min(len(client.ncores()), jobs or sys.maxsize)  # workers, whatever their threads

    backend = _backend(lambda batch: executor.submit(_run_alone, batch), slots)
    return backend, (KilledWorker,), (OSError, CancelledError, TimeoutError)


def _ray(stack: ExitStack, address: str | None, jobs: int | None) -> Found:
    # Ray reports its usage over the network unless this is set before it starts.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.exceptions import OutOfMemoryError, RaySystemError, WorkerCrashedError

    if address not in (None, "auto", "local"):
        _knock(str(address))
    with without_ctrl_c():
        ray.init(
            address=address,
            num_cpus=None if address else jobs,
            log_to_driver=False,
            logging_level=logging.ERROR,
            include_dashboard=None if address else False,
        )
    stack.callback(ray.shutdown)
    remote = ray.remote(num_cpus=1, max_retries=3)(_run_alone)

    def slots() -> int:
        return min(int(ray.cluster_resources().get("CPU", 0)), jobs or sys.maxsize)

    backend = _backend(lambda batch: remote.remote(batch).future(), slots)
    return backend, (WorkerCrashedError, OutOfMemoryError), (RaySystemError,)
