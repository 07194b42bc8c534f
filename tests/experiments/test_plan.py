"""Plans: several Specs in one TOML, and the tables that options and axes make."""

from __future__ import annotations

import tomllib
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.plan import Plan, apply_changes, expand, read_tables
from tests.fixtures.spec_tables import SPEC_TABLES


def read(text: str) -> Plan:
    return Plan.of(read_tables(text, "plan.toml"), "plan.toml")


@given(st.lists(SPEC_TABLES, min_size=1, max_size=4))
def test_any_plan_comes_back_from_its_toml(cells: list[dict[str, Any]]) -> None:
    plan = Plan.of(cells)
    assert read(plan.toml) == plan
    assert read(plan.toml).toml == plan.toml
    assert [spec.hash for spec in read(plan.toml).specs] == [spec.hash for spec in plan.specs]


@given(SPEC_TABLES)
def test_a_plan_of_one_spec_is_that_spec(table: dict[str, Any]) -> None:
    spec = Spec.parse(table)
    plan = Plan((spec,))
    assert plan.toml == spec.toml
    assert "cells" not in plan.table()
    assert read(spec.toml) == plan


def test_cells_hold_what_differs() -> None:
    chains = (["clip:norm=1"], ["clip:norm=2"], ["none"])
    plan = Plan.of(
        [
            {"seed": 3, "defense": chain, "population": {"clients": 9}, "train": {"rounds": 4 + i}}
            for i, chain in enumerate(chains)
        ]
    )
    written = tomllib.loads(plan.toml)
    assert written["seed"] == 3
    assert written["population"] == {"scenario": "uniform", "clients": 9}
    assert "rounds" not in written["train"]
    assert "defense" not in written
    told = [{"defense": chain, "train": {"rounds": 4 + i}} for i, chain in enumerate(chains)]
    assert written["cells"] == told


def test_a_field_that_some_lack_is_no_shared_one() -> None:
    plan = Plan.of(
        [
            {"population": {"clients": 9, "cohort": 3}, "attack": {"repeats": 2}},
            {"population": {"clients": 9}, "attack": {"repeats": 2}},
            {"population": {"clients": 9, "cohort": 3}},
        ]
    )
    table: Any = plan.table()
    assert "attack" not in table
    assert "cohort" not in table["population"]
    assert [cell.get("population", {}).get("cohort") for cell in table["cells"]] == [3, None, 3]
    assert read(plan.toml) == plan


def test_equal_specs_count_once_and_order_is_kept() -> None:
    plan = Plan.of([{"seed": 2}, {"seed": 1}, {"seed": 2, "defense": ["none", "none"]}, {"seed": 3}])
    assert [spec.seed for spec in plan.specs] == [2, 1, 3]
    assert len(Plan.of([{"seed": 2}, {"seed": 2}]).specs) == 1


def test_cells_override_what_is_shared() -> None:
    text = """
        seed = 4
        [train]
        rounds = 7
        click_model = "perfect"
        [[cells]]
        [[cells]]
        seed = 5
        train = {rounds = 8}
    """
    first, second = read(text).specs
    assert (first.seed, first.train.rounds) == (4, 7)
    assert (second.seed, second.train.rounds, second.train.click_model) == (5, 8, "perfect")


def test_the_last_axis_turns_fastest() -> None:
    found = expand(
        [{"seed": 1}, {"seed": 2}],
        [{"train.rounds": 1}, {"train.rounds": 2}],
        [{"data.fold": 1, "repetition": 0}, {"data.fold": 2, "repetition": 1}],
    )
    tables: list[Any] = [*found]
    assert [(t["seed"], t["train"]["rounds"], t["data"]["fold"], t["repetition"]) for t in tables] == [
        (seed, rounds, fold, fold - 1) for seed in (1, 2) for rounds in (1, 2) for fold in (1, 2)
    ]


def test_without_axes_or_points() -> None:
    assert expand([{"seed": 1}]) == [{"seed": 1}]
    assert expand([], [{"seed": 1}]) == []
    assert expand([{"seed": 1}], []) == []
    assert expand([{"seed": 1}], [{}], [{}]) == [{"seed": 1}]


def test_changes_leave_their_table_alone() -> None:
    table: dict[str, Any] = {"train": {"rounds": 1}, "defense": ["none"]}
    before = deepcopy(table)
    new: Any = apply_changes(table, {"train.rounds": 2, "attack.on": ["test"], "seed": 3})
    assert table == before
    assert new == {"train": {"rounds": 2}, "defense": ["none"], "attack": {"on": ["test"]}, "seed": 3}
    new["defense"].append("clip:norm=1")
    new["train"]["rounds"] = 9
    assert table == before
    first: Any
    second: Any
    first, second = expand([table], [{"seed": 1}, {"seed": 2}])
    first["train"]["rounds"] = 5
    assert second["train"]["rounds"] == 1 == table["train"]["rounds"]
