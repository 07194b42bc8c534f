"""Comparisons under a server that does not follow the protocol: what is attacked, audited and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.grid import CellPlan, ComparisonGrid, GridExpansion
from foltr_audit.experiments.runner import Runner
from tests.fixtures.command import answer, run

DATA = "--data synthetic:mq2007:60 --clients 20"
ONE = f"compare {DATA} --runs 1 --jobs 1"
FEW = f"{ONE} --interactions 1 --server saturate --no-audit --click-model perfect --method olsr"
PLAIN, BOUND, GUARDED = "secure-aggregation", "secure-aggregation:bind=true", "guard+secure-aggregation"
DEFENSES = [word for name in (PLAIN, BOUND, GUARDED) for word in ("--defense", name)]


def cells(server: str, *defenses: str, **spec: Any) -> tuple[list[CellPlan], GridExpansion]:
    table: dict[str, Any] = {
        "data": {"source": "synthetic:mq2007:30"},
        "population": {"clients": 20},
        "train": {"rounds": 2, "server": server},
    }
    axes = {"runs": 1, "eps": [1.2], "click_models": ["perfect"], "defenses": defenses}
    grid = ComparisonGrid.parse({**axes, "spec": {**table, **spec}})
    assert ComparisonGrid.from_toml(grid.toml, "grid.toml") == grid
    expansion = GridExpansion(grid, Runner(with_undefended=False), {})
    return expansion.cells(), expansion


def audited(plans: list[CellPlan]) -> dict[str, tuple[tuple[str, ...], int | None]]:
    found = {plan.label.text: plan.spec.audit for plan in plans if plan.kind == "audit"}
    return {name: (audit.views, audit.colluders) for name, audit in found.items() if audit is not None}


SUM = (("aggregate", "aggregate+lists"), None)


def test_sums_of_training_rounds_are_attacked_and_recorded_for_that() -> None:
    for plan in cells("saturate", PLAIN, "published")[0]:
        spec = plan.spec
        assert spec.trace.message == "update"
        assert spec.trace.every == (1 if plan.kind == "attack" else 0)
        if spec.attack is not None:
            assert (spec.attack.target, spec.attack.view) == ("training", "aggregate")


def test_an_audit_fits_the_server_and_each_chain() -> None:
    assert audited(cells("saturate", PLAIN)[0]) == {"none": SUM, PLAIN: SUM}
    found = audited(cells("sybils:share=.5", f"proven-skellam+{PLAIN}")[0])
    assert found == {"none": SUM, f"proven-skellam+{PLAIN}, eps 1.2": SUM}


def test_an_honest_server_is_audited_as_ever() -> None:
    views = ("individual", "individual+lists", "aggregate")
    assert audited(cells("honest", PLAIN)[0]) == {"none": (views, None), PLAIN: (views, None)}


def test_a_spec_with_a_server_is_a_grid_of_one_point() -> None:
    spec = cells("saturate", PLAIN)[0][1].spec
    grid = ComparisonGrid.of_spec(spec)
    again = GridExpansion(grid, Runner(with_undefended=False), {}).cells()
    assert spec in [plan.spec for plan in again]


def test_an_audit_that_a_server_rules_out_is_left_out() -> None:
    plans, expansion = cells("manipulate:features=blocks", "guard")
    assert [(plan.kind, plan.label.text) for plan in plans] == [("attack", "none"), ("attack", "guard")]
    (left_out,) = expansion.left_out
    assert left_out.defense == "audit"
    assert "knows true features only" in left_out.why


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("servers") / "out"
    done = run(f"{FEW} --rounds 6", *DEFENSES, "--out", path)
    assert done.code == 0, done.err
    assert "server saturate, also without a defense" in done.out
    assert "no sum: no round opened one" in " ".join(done.out.split())
    return path


def test_a_cell_in_which_no_sum_opens_is_a_result(compared: Path) -> None:
    found = json.loads((compared / "results.json").read_text())
    rows = {row["name"]: row for row in found["results"]}
    assert list(rows) == ["none", PLAIN, BOUND, GUARDED]
    assert [row["runs_without_sum"] for row in rows.values()] == [0, 0, 0, 1]
    exact = {row["name"]: row["exact"] for row in found["attacks"] if row["method"] == "olsr"}
    assert exact == {"none": 1.0, PLAIN: 1.0, BOUND: 0.0}
    guarded = rows[GUARDED]
    assert (guarded["attack"], guarded["auc"], guarded["lists"]) == (None, None, None)
    assert guarded["ndcg@10"] == pytest.approx(guarded["ndcg@10_untrained"])
    assert rows["none"]["ndcg@10"] == pytest.approx(rows[PLAIN]["ndcg@10"])
    assert found["failed"] == []


def test_fresh_clients_may_open_no_sum_either() -> None:
    aborts = "clip:norm=1+secure-aggregation:drop_before=0.8,threshold=0.9"
    found = answer(f"{ONE} --rounds 1 --no-audit --click-model perfect --method olsr --defense", aborts)
    unread = {seen["view"]: seen["runs_without_sum"] for seen in found["results"][1]["attacked"]}
    assert unread == {"individual": 0, "individual+lists": 0, "aggregate": 1}
    assert found["results"][1]["attacked"][2]["shown"] == "no sum"
    assert found["failed"] == []


def test_the_page_says_that_there_was_no_sum(compared: Path) -> None:
    page = run("report", compared, "--out", "-").out
    for said in ("server saturate, also without a defense", "attacks had nothing to read", "no sum"):
        assert said in page


def test_a_limit_on_attacks_is_not_judged_without_a_sum(compared: Path, tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("max_attack_auc = 0.9\n")
    done = run("check", limits, "--comparison", compared, "--defense", GUARDED)
    assert done.code == 1
    assert "no round opens a sum, so that attacks have nothing to read" in done.err


def test_made_up_features_are_compared() -> None:
    world = f"{ONE} --rounds 2 --server manipulate:features=blocks --click-model perfect --defense guard"
    found = answer(f"{world} --attack-interactions 4 --method olsr --attack-on vali")
    recall = {row["name"]: row["recall"] for row in found["results"]}
    assert recall["guard"] == 0.0 < recall["none"]
    assert [one["defense"] for one in found["left_out"]] == ["audit"]


def test_one_cell_that_cannot_be_run_does_not_stop_the_others() -> None:
    clipped = "clip:norm=1.5+secure-aggregation"
    done = run(f"{FEW} --rounds 2 --defense {clipped} --defense {GUARDED} --json")
    assert done.code == 2
    assert "1 of 3 cells could not be run" in done.err
    found = json.loads(done.out)
    assert [row["name"] for row in found["results"]] == ["none", GUARDED]
    assert "expected a value within +-64" in found["failed"][0]["why"]


def test_the_twin_without_a_defense_has_an_honest_server() -> None:
    table: dict[str, Any] = {
        "data": {"source": "synthetic:mq2007:30"},
        "population": {"clients": 10},
        "train": {"rounds": 3, "learner": "fpdgd:interactions=1,pairs=all,normaliser=shown"},
    }
    honest = Runner().run(Spec.parse(table)).trained.ndcg
    table["train"]["server"] = "saturate"
    attacked = Runner().run(Spec.parse({**table, "attack": {"methods": ["olsr"]}}))
    assert attacked.trained.ndcg != honest
    assert attacked.utility.undefended == honest
