"""`foltr-audit compare` from end to end, on very small grids."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foltr_audit as fa
from foltr_audit.experiments.comparison.alternatives import DEFAULT_ALTERNATIVES
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import ComparisonGrid, SensitivityTrial
from foltr_audit.experiments.comparison.runner import choose_sensitivities
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.runner import Runner
from foltr_audit.privacy.accounting import UpperBound
from foltr_audit.utils.progress import SILENT
from tests.fixtures.command import answer, but, files, refusal, run, spawn

pytestmark = pytest.mark.usefixtures("laws_as_declared")
WORLD = "--data synthetic:mq2007:60 --clients 6 --rounds 2 --runs 2 --jobs 1"
TINY = (*WORLD.split(), "--click-model", "perfect", "--method", "olsr")
FAST = (*TINY, "--eps", "1.2", "--defense", "published", "--no-audit", "--no-every-observer")
ONCE = but(FAST, "--runs", 1)
CELLS = "cells/*/records.jsonl"


def times(folder: Path) -> dict[str, int]:
    """When each finished cell was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob(CELLS)}


def test_the_whole_command(tmp_path: Path) -> None:
    arguments = (*TINY, "--eps", "1.2", "--defense", "published", "--trials", "40", "--out", tmp_path / "out")
    done = run("compare", *arguments, "--json")
    assert (done.code, done.said) == (0, "")
    found = done.json()
    assert done.err.startswith("3 warnings: FA101 FA102 FA103 (--full shows them; ")
    assert len(found["warnings"]) == 3
    assert [row["name"] for row in found["results"]] == ["none", "published, eps 1.2"]
    assert found["cells"] == {"attack": 8, "audit": 2}  # the first run of each is attacked by three
    mine = found["results"][1]
    assert (mine["runs"], mine["eps_claimed"], mine["attack"]) == (2, 1.2, "olsr")
    assert mine["eps_proven_individual"] == "inf"
    assert mine["ndcg@10_p"] is not None
    assert found["decision"]["use"] is None
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == found
    out = tmp_path / "out"
    again = run("compare --resume --full --config", out / "grid.toml", "--out", out)
    assert again.code == 0
    for said in ("what an attack finds", "what it costs", "refuted"):
        assert said in " ".join(again.out.split())
    assert any("1/6 of the noise" in text for text in again.warnings)
    assert "1/6 of the noise" not in again.out


def test_one_cell_says_what_attack_says(tmp_path: Path) -> None:
    run("compare", *ONCE, "--out", tmp_path)
    row = json.loads((tmp_path / "results.json").read_text())["results"][1]
    common = "--data synthetic:mq2007:60 --clients 6 --rounds 2 --eps 1.2 --click-model perfect"
    alone = answer(f"attack {common}")
    olsr = next(one for one in alone["results"] if one["method"] == "olsr")
    for name in ("auc", "accuracy", "auc_ci95"):
        assert row[name] == olsr[name]
    (utility,) = alone["utility"]
    assert row["ndcg@10"] == pytest.approx(utility["ndcg@10"])
    assert row["ndcg@10_difference"] == pytest.approx(utility["ndcg@10"] - utility["ndcg@10_undefended"])


def test_a_grown_grid_computes_only_what_is_new(tmp_path: Path) -> None:
    run("compare", *FAST, "--out", tmp_path)
    before = times(tmp_path)
    grown = run("compare", *FAST, "--eps", "4.5", "--out", tmp_path, "--resume")
    after = times(tmp_path)
    assert grown.code == 0
    assert (len(before), len(after)) == (4, 6)
    assert {name: after[name] for name in before} == before


def test_resume_alone_ends_the_comparison_that_is_kept(one_run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(one_run, copy)
    shutil.rmtree(next(copy.glob(CELLS)).parent)
    before = files(one_run)
    assert run("report", copy).code == 3
    assert run("compare", "--resume", "--out", copy, "--jobs", "1").code == 0
    assert files(copy) == before


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("comparison.json", lambda text: text.replace('"eps": null', '"eps": "x"', 1)),
        ("comparison.json", lambda text: text.replace('"left_out": []', '"left_out": [{"a": 1}]')),
        ("comparison.json", lambda text: text.replace('"alternative": "none"', '"alternative": "nonne"')),
        ("comparison.json", lambda _: "[" * 100_000),
        ("records.jsonl", lambda _: "[" * 100_000),
    ],
)
def test_damage_is_named_and_ends_with_3(
    one_run: Path, tmp_path: Path, name: str, change: Callable[[str], str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(one_run, copy)
    file = next(copy.rglob(name))
    before = file.read_text()
    file.write_text(change(before))
    assert file.read_text() != before
    assert str(copy) in refusal("report", copy, code=3)


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished comparison of two cells."""
    path = tmp_path_factory.mktemp("compared") / "out"
    assert run("compare", *ONCE, "--out", path).code == 0
    return path


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    worlds = "--attack-on vali --scenario quantity-skew --scenario uniform"
    assert run(f"compare {worlds}", *ONCE).code == 0
    bad = run("compare --learner fpdgd --learner foltr-es", *ONCE, "--out", tmp_path)
    assert bad.code == 2
    assert "cells could not be run; the first: attack olsr: cannot run on this view" in bad.err
    assert len(times(tmp_path)) == 2
    assert "failed: none" in bad.out
    assert run("report", tmp_path, "--zip", tmp_path.with_suffix(".zip")).code == 0
    verified = run("check", tmp_path.with_suffix(".zip"), "--sample", "0")
    assert verified.code == 0, verified.out


def test_messages_of_the_rounds_are_attacked_by_group() -> None:
    world = ("--scenario", "click-skew", "--target", "training", "--interactions", "1")
    found = run("compare", *but(ONCE, "--rounds", 4), *world, "--json").json()
    assert found["results"][1]["worst_attacked_group"] in {row["group"] for row in found["groups"]}
    assert found["results"][1]["worst_served_group"] in {row["group"] for row in found["served"]}


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    assert run("compare", *ONCE, "--plot", tmp_path / "trade.svg").code == 0
    assert "<svg" in (tmp_path / "trade.svg").read_text()


def test_the_help_names_the_default_defenses() -> None:
    said = "".join(re.findall(r"[^\s│]+", spawn("compare", "--help", COLUMNS="200").out))
    assert all(text in said for text in DEFAULT_ALTERNATIVES)


def test_the_best_sensitivity_on_the_validation_part_is_taken(tmp_path: Path) -> None:
    found = answer("compare --sensitivity-grid 0.001,0.01", *ONCE, "--out", tmp_path)
    tried = found["sensitivities"]
    best = max(tried, key=lambda row: row["ndcg"])
    assert [row["sensitivity"] for row in tried] == [0.001, 0.01]
    assert [row["chosen"] for row in tried] == [row is best for row in tried]
    assert found["results"][1]["sensitivity"] == best["sensitivity"]


def test_of_equal_sensitivities_the_smaller_one_is_taken(tmp_path: Path) -> None:
    table = {"data": {"source": "synthetic:mq2007:60"}, "population": {"clients": 4}, "train": {"rounds": 1}}
    axes = {"runs": 1, "eps": [1e6], "click_models": ["perfect"], "sensitivity_grid": [1e5, 1e4]}
    folder = ComparisonFolder.create(tmp_path, resume=False, overwrite=False)
    grid = ComparisonGrid.parse({**axes, "defenses": ["published"], "spec": table})
    rows = choose_sensitivities(grid, folder, Workers(jobs=1), Runner(), SILENT)
    assert isinstance(rows[0], SensitivityTrial)
    if math.isclose(rows[0].ndcg, rows[1].ndcg):
        assert [(row.sensitivity, row.chosen) for row in rows] == [(1e5, False), (1e4, True)]


def test_from_python() -> None:
    spec: fa.SpecFields = {"data": {"source": "synthetic:mq2007:60"}, "train": {"rounds": 2}}
    spec["population"] = {"clients": 6}
    grid: fa.GridFields = {
        "runs": 1,
        "eps": [1.2],
        "defenses": ["published"],
        "attacks": ["olsr"],
        "audit": False,
    }
    report = fa.compare({**grid, "click_models": ["perfect"], "spec": spec}, jobs=1)
    assert report.to_frame()["name"].to_list() == ["none", "published, eps 1.2"]


def test_a_dry_run_tells_what_is_left_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run("compare", *FAST, "--out", out, "--dry-run", "--json").json()
    assert not out.exists()
    assert [(kind["kind"], kind["cells"], kind["to_run"]) for kind in found["kinds"]] == [("attack", 4, 4)]
    assert [cell["done"] for cell in found["cells"]] == [False] * 4
    assert len({cell["name"] for cell in found["cells"]}) == 4
    run("compare", *ONCE, "--out", out)
    before = files(out)
    done = run("compare", *FAST, "--out", out, "--dry-run")
    assert (done.code, files(out) == before) == (0, True)
    assert re.search(r"attack +4 +2 +2\n", done.out)


def test_claims_stand_side_by_side_for_who_sees_lists_and_who_does_not(tmp_path: Path) -> None:
    few = (*but(TINY, "--runs", 1), "--eps", 1.2, "--trials", 40)
    asked = ("--defense", "proven-laplace", "--defense", "proven-click-rr")
    for more, hidden in (((), "inf"), (("--rank-with", "global"), 1.2)):
        report = run("compare", *few, *asked, *more, "--json").json()
        proven: dict[str, dict[str, Any]] = {}
        for row in report["claims"]:
            proven.setdefault(row["name"].partition(",")[0], {})[row["sees"]] = row["eps_upper"]
        good, seen = pytest.approx(1.2), hidden if more == () else pytest.approx(hidden)
        assert proven == {
            "none": {"message": "inf", "message and lists": "inf", "sum": "inf"},
            "proven-laplace": {"message": good, "message and lists": seen, "sum": good},
            "proven-click-rr": {"message": good, "message and lists": good, "sum": good},
        }
        claims = {row["sees"]: row["eps_claimed"] for row in report["claims"] if "laplace" in row["name"]}
        assert claims["message and lists"] == hidden, "what is not proven is not claimed"


def test_a_proof_that_trials_contradict_ends_with_70(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = UpperBound(epsilon=0.01, delta=0.0, how="too good")
    monkeypatch.setattr("foltr_audit.auditing.audit.upper_bound", lambda *_: bound)
    few = (*but(TINY, "--runs", 1), "--eps", 1.2, "--trials", 40)
    done = run("compare --defense proven-laplace", *few)
    assert done.code == 70
    assert "contradict each other" not in done.err
    assert "contradiction: this pair has a loss of" in done.err
