"""What a comparison will take, and how long what is left of it."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import names
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.estimate import COSTS, CostEstimate, estimate
from foltr_audit.experiments.comparison.expansion import CellPlan, DefenseLabel
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.pace import PaceEstimator, first_of_each_sort
from foltr_audit.experiments.comparison.runner import run_cells
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.runner import Runner
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


def test_long_audits_do_not_come_last() -> None:
    audits = [Spec.parse({"repetition": run, "audit": {}}, "") for run in range(3)]
    assert first_of_each_sort([spec(0), spec(1), *audits]) == [0, 2, 3, 4, 1]


def planned(*tables: Mapping[str, object]) -> list[CellPlan]:
    data = {"data": {"source": "synthetic:mq2007:60"}, "population": {"clients": 5}}
    specs = [Spec.parse({**data, **table}, "") for table in tables]
    return [CellPlan(one, "attack" if one.attack else "select", DefenseLabel("none")) for one in specs]


def found(cells: list[CellPlan], folder: ComparisonFolder | None = None, jobs: int = 1) -> CostEstimate:
    return estimate(cells, folder, Workers(jobs=jobs), Runner(with_undefended=False))


def test_nothing_left_takes_nothing() -> None:
    nothing = found([])
    assert (nothing.seconds, nothing.memory_in_all, nothing.disk, nothing.kinds) == (0, 0, 0, ())


def test_more_of_everything_costs_more_and_an_unknown_attack_costs_something() -> None:
    attack = {"methods": ["olsr"]}
    tables: list[Mapping[str, object]] = [
        {"train": {"rounds": 5}},
        {"train": {"rounds": 500}},
        {"train": {"rounds": 5}, "attack": attack},
        {"train": {"rounds": 5}, "attack": {"methods": ["olsr", "map"]}},
        {"train": {"rounds": 5}, "attack": {"methods": ["olsr", "map"], "repeats": 4}},
        {"train": {"rounds": 5}, "audit": {"trials": 100}},
        {"train": {"rounds": 5}, "audit": {"trials": 1000}},
    ]
    plain, longer, attacked, twice, often, audited, more = (found(planned(table)).seconds for table in tables)
    assert 0 < plain < longer
    assert plain < attacked < twice < often
    assert plain < audited < more
    assert found(planned(tables[3])).disk < found(planned(tables[4])).disk


def test_cells_are_counted_by_kind_and_divided_among_workers(tmp_path: Path) -> None:
    cells = planned(*({"repetition": run} for run in range(6)), {"attack": {"methods": ["olsr"]}})
    folder = begun(tmp_path / "folder", cells)
    before = files(folder.path)
    assert run_cells([cells[0].spec], folder, ALONE) == []
    one, two = found(cells, folder), found(cells, folder, jobs=2)
    assert [(kind.kind, kind.cells, kind.done, kind.to_run) for kind in one.kinds] == [
        ("select", 6, 1, 5),
        ("attack", 1, 0, 1),
    ]
    assert one.seconds == pytest.approx(sum(kind.seconds for kind in one.kinds))
    assert one.seconds / 2 <= two.seconds < one.seconds
    assert two.memory_in_all == 2 * one.memory > 1e7
    assert "costs measured on" in one.rests_on
    assert set(files(folder.path)) - set(before) == {
        f"cells/{cells[0].spec.hash[:12]}/{name}" for name in ("arrays.npz", "cell.json")
    }


def test_the_pace_of_finished_cells_counts_without_pauses(tmp_path: Path) -> None:
    cells = planned(*({"repetition": run} for run in range(8)))
    folder = begun(tmp_path / "folder", cells)
    assert run_cells([cell.spec for cell in cells[:5]], folder, ALONE) == []
    for cell, time in zip(cells, (0, 10, 20, 5000, 5010), strict=False):  # one pause
        os.utime(folder.cell(cell.spec) / "cell.json", (time, time))
    one, two = found(cells, folder), found(cells, folder, jobs=2)
    assert one.seconds == pytest.approx(3 * 10)
    assert two.seconds == pytest.approx(3 * 10)  # finished by as many workers, as far as anybody knows
    assert "pace of 5 finished cells" in one.rests_on


def test_the_stored_table_names_attacks_that_exist() -> None:
    stored = tomllib.loads(COSTS.read_text())
    assert set(stored["attack_seconds"]) <= set(names(Attack))
    assert min(stored["attack_seconds"].values()) >= 0


def test_disk_of_a_real_cell_is_met_within_a_factor_of_three(tmp_path: Path) -> None:
    cells = planned({"data": {"source": "synthetic:mq2007:200"}, "attack": {"methods": ["olsr"]}})
    folder = begun(tmp_path / "folder", cells)
    guess = found(cells, folder).disk
    run_cells([cells[0].spec], folder, ALONE)
    blocks = sum(file.stat().st_blocks * 512 for file in folder.cell(cells[0].spec).iterdir())
    assert blocks / 3 < guess < 3 * blocks
