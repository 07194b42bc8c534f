"""`foltr-audit study membership`: tables, JSON, configuration files, and errors of one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foltr_audit as fa
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
    table = {"data": {"source": "synthetic:mq2007:60"}, "population": {"clients": 10}, "train": {"rounds": 3}}
    spec = fa.Spec(**table, membership={"shadows": 16, "references": 1, "others": 20})
    assert json.loads(fa.membership(spec).json())["results"] == run(FEW, "--json").json()["results"]
    with pytest.raises(fa.FoltrAuditError, match="no membership protocol"):
        fa.membership(fa.Spec())
