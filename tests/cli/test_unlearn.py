"""`foltr-audit study unlearning`: tables, JSON, the Spec of a Run, and one line for what cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foltr_audit as fa
from foltr_audit.core.settings.unlearning import METHODS
from tests.fixtures.command import answer, run

FEW = (
    "study unlearning --data synthetic:mq2007:60 --clients 4 --rounds 1 --client 3 --trials 100"
    " --fine-tune-rounds 1"
)


def test_rows_have_what_each_method_reaches_and_takes() -> None:
    report = answer(FEW, "--method", "none,retrain")
    assert tuple(row["method"] for row in report["results"]) == METHODS[:2]
    for row in report["results"]:
        assert (row["clients"], row["members"], row["rounds"], row["evaluated"]) == ([3], 4, 1, 100)
        assert 0 <= row["eps_lower"] <= row["at_most"]
        assert row["ndcg@10_ci95"][0] <= row["ndcg@10"] <= row["ndcg@10_ci95"][1]
    attacks = {(row["stored"], row["method"]) for row in report["history"] if not row["baseline"]}
    assert attacks == {("individual", "olsr"), ("aggregate", "olsr")}
    table = {"data": {"source": "synthetic:mq2007:60"}, "population": {"clients": 4}, "train": {"rounds": 1}}
    asked = {"clients": [3], "trials": 100, "fine_tune_rounds": 1, "methods": METHODS[:2]}
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
