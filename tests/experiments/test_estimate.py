"""What a comparison will take, and how long what is left of it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from foltr_audit.core.spec.experiment import Spec
from foltr_audit.experiments.comparison import estimate as estimating
from foltr_audit.experiments.comparison.estimate import estimate
from foltr_audit.experiments.comparison.expansion import CellPlan, DefenseLabel
from foltr_audit.experiments.comparison.pace import PaceEstimator, first_of_each_sort
from foltr_audit.experiments.comparison.probe import CellCost
from foltr_audit.experiments.comparison.runner import run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Table
from tests.fixtures.cell_grids import begun
from tests.fixtures.command import files

ALONE = Workers(jobs=1)


def spec(run: int, *defense: str, attack: bool = False) -> Spec:
    more = {"attack": {"methods": ["olsr"]}} if attack else {}
    return Spec.parse({"repetition": run, "defense": defense or ("none",), **more}, "")


def test_time_left_is_the_mean_of_each_sort_over_the_busy_workers() -> None:
    cells = [*(spec(run) for run in range(4)), *(spec(run, "clip:norm=1") for run in range(3))]
    pace = PaceEstimator(cells)
    assert math.isinf(pace.left(1))
    pace.skip(cells[0])
    pace.ran(cells[1], 2.0)
    assert pace.left(1) == 2 * 2.0 + 3 * 2.0  # the other sort counts as the mean of what is known
    pace.ran(cells[4], 20.0)
    assert pace.left(2) == (2 * 2.0 + 2 * 20.0) / 2
    pace.ran(cells[5], 40.0)
    assert pace.left(0) == 2 * 2.0 + 1 * 30.0


def test_every_sort_is_met_early_whatever_its_numbers() -> None:
    chains = ["none", "clip:norm=1", "clip:norm=2", "laplace:eps=1,sensitivity=3", "none"]
    cells = [spec(run, chain) for run, chain in enumerate(chains)]
    assert first_of_each_sort(cells) == [0, 1, 3, 2, 4]


def planned(*specs: Spec) -> list[CellPlan]:
    return [CellPlan(one, "attack" if one.attack else "select", DefenseLabel("none")) for one in specs]


@pytest.fixture
def known_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attack takes 10 s and 1000 bytes, every training 4 s and 100 bytes."""

    def cost(piece: tuple[int, Table]) -> CellCost:
        number, table = piece
        attacked = "attack" in table
        return CellCost(
            number, 10.0 if attacked else 4.0, 1.0, 5e8 if attacked else 3e8, 1000 if attacked else 100
        )

    monkeypatch.setattr(estimating, "probe", cost)


@pytest.mark.usefixtures("known_costs")
def test_costs_of_sorts_are_added_over_the_cells_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = planned(*(spec(run, attack=True) for run in range(3)), *(spec(run) for run in range(5)))
    folder = begun(tmp_path / "folder", cells)
    monkeypatch.setattr(folder, "done", lambda one: one == cells[0].spec)
    found = estimate(cells, folder, ALONE)
    assert [(kind.kind, kind.cells, kind.done, kind.to_run, kind.seconds) for kind in found.kinds] == [
        ("attack", 3, 1, 2, 20.0),
        ("select", 5, 0, 5, 20.0),
    ]
    assert found.seconds == 20.0 + 20.0 + 1.0
    assert found.disk == 2 * 1000 + 5 * 100
    assert (found.memory, found.memory_in_all) == (5e8, 5e8)
    assert len(found.rests_on) == 3


@pytest.mark.usefixtures("known_costs")
def test_a_sort_that_was_not_probed_counts_as_the_mean_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.0, 0.0, 1e9, 1e9])
    monkeypatch.setattr(estimating, "monotonic", lambda: next(times))
    found = estimate(planned(spec(0, attack=True), spec(0), spec(0, "clip:norm=1")), None, ALONE)
    assert [kind.seconds for kind in found.kinds] == [10.0, 8.0]
    assert "1 sorts count as the mean" in found.rests_on[-1]


def test_nothing_left_takes_nothing() -> None:
    found = estimate([], None, ALONE)
    assert (found.seconds, found.memory_in_all, found.disk, found.kinds, found.rests_on) == (0, 0, 0, (), ())


def test_disk_of_a_real_cell_is_met_within_a_factor_of_two_and_nothing_is_written(tmp_path: Path) -> None:
    table = {
        "data": {"source": "synthetic:mq2007:200"},
        "population": {"clients": 5},
        "train": {"rounds": 9},
        "trace": {"every": 0},
        "attack": {"methods": ["olsr"]},
    }
    cells = planned(Spec.parse(table, ""))
    folder = begun(tmp_path / "folder", cells)
    before = files(folder.path)
    found = estimate(cells, folder, ALONE)
    assert files(folder.path) == before
    run_cells([cells[0].spec], folder, ALONE)
    blocks = sum(file.stat().st_blocks * 512 for file in folder.cell(cells[0].spec).iterdir())
    assert blocks / 2 < found.disk < 2 * blocks
    assert found.problems == ()
    assert found.seconds > 0
    assert found.memory > 1e7


def test_a_cell_that_cannot_be_run_is_named() -> None:
    table = {
        "data": {"source": "synthetic:mq2007:30"},
        "attack": {"methods": ["olsr"], "min_documents": 10_000},
    }
    found = estimate(planned(Spec.parse(table, "")), None, ALONE)
    assert "no query of" in found.problems[0]
