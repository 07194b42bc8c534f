"""`foltr-audit study membership` and `study unlearning`: tables, JSON, configurations, the Python API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import foltr_audit as fa
from foltr_audit.core.settings.fields import UnlearningFields
from foltr_audit.core.settings.unlearning import METHODS
from tests.fixtures.command import answer, run

FEW = (
    "study membership --data synthetic:mq2007:60 --clients 10 --rounds 3 --shadows 16 --references 1"
    " --others 20"
)
METRICS = ("auc", "tpr_at_1", "tpr_at_01")


def test_rows_have_metrics_with_chance_and_ceiling() -> None:
    report = answer(FEW, "--defense", "none", "--defense", "clip:norm=1+gaussian:sigma=2")
    assert [(row["view"], row["method"]) for row in report["results"]] == 2 * [
        (view, method) for view in ("released", "client") for method in ("lira", "rmia")
    ]
    for row in report["results"]:
        assert (row["members"], row["candidates"], row["federations"], row["rounds"]) == (10, 20, 16, 3)
        assert [row[f"{name}_chance"] for name in METRICS] == [0.5, 0.01, 0.001]
        proven = row["defense"] != "none"
        assert [row[f"{name}_ceiling"] is not None for name in METRICS] == 3 * [proven]
        assert (row["eps_upper"] != "inf") == proven
    assert {row["ndcg@10_undefended"] for row in report["utility"]} == {report["utility"][0]["ndcg@10"]}


def test_a_configuration_repeats_it_and_a_folder_keeps_it(tmp_path: Path) -> None:
    config, out = tmp_path / "spec.toml", tmp_path / "run"
    first = run(FEW, "--method", "lira-offline", "--save-config", config, "--out", out, "--json")
    assert first.code == 0
    again = run("study", "membership", "--config", config, "--json", "--threads", 1)
    assert again.out == first.out
    assert (out / "results.json").read_text().strip() == first.out.strip()
    assert run("study", "membership", "--config", config, "--out", out, "--resume", "--json").out == first.out


def test_the_api_gives_the_same_rows() -> None:
    table: dict[str, Any] = {
        "data": {"source": "synthetic:mq2007:60"},
        "population": {"clients": 10},
        "train": {"rounds": 3},
    }
    spec = fa.Spec(**table, membership={"shadows": 16, "references": 1, "others": 20})
    assert json.loads(fa.membership(spec).json())["results"] == run(FEW, "--json").json()["results"]
    with pytest.raises(fa.FoltrAuditError, match="no membership protocol"):
        fa.membership(fa.Spec())


# --- unlearning -----------------------------------------------------------------------------------

UNLEARN = (
    "study unlearning --data synthetic:mq2007:60 --clients 4 --rounds 1 --client 3 --trials 100"
    " --fine-tune-rounds 1"
)


def test_rows_have_what_each_method_reaches_and_takes() -> None:
    report = answer(UNLEARN, "--method", "none,retrain")
    assert tuple(row["method"] for row in report["results"]) == METHODS[:2]
    for row in report["results"]:
        assert (row["clients"], row["members"], row["rounds"], row["evaluated"]) == ([3], 4, 1, 100)
        assert 0 <= row["eps_lower"] <= row["at_most"]
        assert row["ndcg@10_ci95"][0] <= row["ndcg@10"] <= row["ndcg@10_ci95"][1]
    attacks = {(row["stored"], row["method"]) for row in report["history"] if not row["baseline"]}
    assert attacks == {("individual", "olsr"), ("aggregate", "olsr")}
    table: dict[str, Any] = {
        "data": {"source": "synthetic:mq2007:60"},
        "population": {"clients": 4},
        "train": {"rounds": 1},
    }
    asked: UnlearningFields = {"clients": [3], "trials": 100, "fine_tune_rounds": 1, "methods": METHODS[:2]}
    spec = fa.Spec(**table, unlearning=asked)
    assert json.loads(fa.unlearn(spec).json())["results"] == report["results"]
    with pytest.raises(fa.FoltrAuditError, match="no unlearning protocol"):
        fa.unlearn(fa.Spec())


def test_a_run_is_unlearned_by_its_spec(tmp_path: Path) -> None:
    assert run("train --data synthetic:mq2007:60 --clients 4 --rounds 1 --out", tmp_path / "run").code == 0
    options = "--client 1 --client 2 --trials 100 --method none,fed-remove"
    done = run(f"study unlearning {options} --config", tmp_path / "run" / "spec.toml")
    assert done.code == 0
    text = " ".join(done.out.split())
    assert "clients 1, 2 of 4 leave after 1 round" in text
    assert "fed-remove" in text
    assert "fine-tune" not in text
    assert "Means over 210 trainings" in text
