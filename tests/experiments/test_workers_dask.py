"""Comparisons on a Dask cluster of two workers on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.experiments.comparison.workers import Workers
from tests.fixtures.cell_grids import run_all, stored, tiny_cells
from tests.fixtures.command import files

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def killed_once(flag: str) -> str:
    """Die at the first call, and answer at the next."""
    import os
    import signal

    if not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "answer"


@pytest.mark.slow
def test_its_bytes_are_those_of_this_process_and_a_killed_worker_costs_nothing(tmp_path: Path) -> None:
    cells = tiny_cells(6)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        workers = Workers(backend="dask", address=cluster.scheduler_address)
        assert run_all(tmp_path / "dask", cells, workers) == []
        assert list(workers.results(killed_once, [str(tmp_path / "flag")])) == ["answer"]
        address = cluster.scheduler_address
    with pytest.raises(UsageError, match="no Dask scheduler answers"):
        list(Workers(backend="dask", address=address).results(killed_once, ["never"]))
    assert run_all(tmp_path / "here", cells, Workers(jobs=1)) == []
    assert len(stored(tmp_path / "dask")) == 6
    assert files(tmp_path / "dask") == files(tmp_path / "here")


@pytest.mark.parametrize("address", ["nonsense", "foo://host:1", "127.0.0.1:99999", "127.0.0.1:1", ""])
def test_an_address_where_no_scheduler_can_be_is_refused_at_once(address: str) -> None:
    with pytest.raises(UsageError, match=f"--scheduler: {address}: no Dask scheduler answers: ."):
        list(Workers(backend="dask", address=address).results(killed_once, ["never"]))


def killed(_: int) -> None:
    """Die at every call."""
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_workers_that_die_again_and_again_are_said_in_one_line() -> None:
    with pytest.raises(FoltrAuditError, match=r"workers of Dask died, .*; finished cells are kept"):
        list(Workers(backend="dask", jobs=2).results(killed, [1, 2]))


@pytest.mark.slow
def test_a_scheduler_that_is_gone_is_said_in_one_line(tmp_path: Path) -> None:
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    results = Workers(backend="dask", address=cluster.scheduler_address).results(str, [1, 2, 3, 4, 5, 6])
    assert next(results) in {"1", "2"}
    cluster.close()
    with pytest.raises(FoltrAuditError, match=r"cluster tcp://\S+ is gone \(\w+\); finished cells"):
        list(results)
