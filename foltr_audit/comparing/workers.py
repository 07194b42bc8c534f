"""Runs pieces of work side by side: on the cores of this machine, or on a Dask or Ray cluster.

The pieces cross to processes that joblib starts; nothing that is read from disk is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from foltr_audit.errors import FoltrAuditError, UsageError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Workers:
    """Who does the work.

    Attributes:
        backend: `local`, `dask` or `ray`.
        jobs: processes; None for one per core, or all that a cluster has.
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

    def results(self, work: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """The result of each piece as it comes, in any order; pieces are asked for as workers get free.

        Raises:
            UsageError: the backend is not installed, or its scheduler is not reached.
            FoltrAuditError: a worker died.
        """
        import joblib
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        if self.alone:
            yield from map(work, pieces)
            return
        with self._backend():
            parallel = joblib.Parallel(
                n_jobs=self.processes if self.backend == "local" else (self.jobs or -1),
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch="n_jobs + 1",
            )
            try:
                yield from parallel(joblib.delayed(work)(piece) for piece in pieces)
            except TerminatedWorkerError as error:
                raise FoltrAuditError(
                    "a worker process died, perhaps for want of memory; finished cells are kept: "
                    "give --resume with fewer --jobs"
                ) from error

    @contextmanager
    def _backend(self) -> Iterator[None]:
        import joblib

        if self.backend == "local":
            with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
                yield
        elif self.backend == "dask":
            with _dask(self.address, self.jobs), joblib.parallel_config(backend="dask"):
                yield
        else:
            with _ray(self.address, self.jobs), joblib.parallel_config(backend="ray"):
                yield


@contextmanager
def _dask(address: str | None, jobs: int | None) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(
            "--backend dask: Dask is not installed; expected pip install 'foltr-audit[dask]'"
        ) from error
    try:
        where = {"address": address} if address else {"n_workers": jobs, "threads_per_worker": 1}
        client = Client(**where, timeout="10s")
    except (OSError, ValueError) as error:
        raise UsageError(f"--scheduler: {address}: no Dask scheduler answers: {error}") from error
    with client:
        yield client


@contextmanager
def _ray(address: str | None, jobs: int | None) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise UsageError(
            "--backend ray: Ray is not installed; expected pip install 'foltr-audit[ray]'"
        ) from error
    try:
        ray.init(address=address, num_cpus=None if address else jobs, log_to_driver=False)
    except (ConnectionError, OSError, ValueError) as error:
        raise UsageError(f"--scheduler: {address}: no Ray cluster answers: {error}") from error
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()
