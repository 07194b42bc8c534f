"""Comparisons on a Ray cluster of two workers on this machine; only where Ray is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.workers import Workers
from tests.fixtures.cell_grids import run_all, tiny_cells
from tests.fixtures.command import files

pytest.importorskip("ray")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_its_bytes_are_those_of_this_process(tmp_path: Path) -> None:
    cells = tiny_cells(6)
    assert run_all(tmp_path / "ray", cells, Workers(backend="ray", jobs=2)) == []
    assert run_all(tmp_path / "here", cells, Workers(jobs=1)) == []
    assert files(tmp_path / "ray") == files(tmp_path / "here")


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_address_where_no_cluster_can_be_is_refused_at_once(address: str) -> None:
    with pytest.raises(UsageError, match=f"--scheduler: {address}: no Ray cluster answers: ."):
        list(Workers(backend="ray", address=address).results(str, [1]))
