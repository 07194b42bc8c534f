"""`foltr-audit membership`: tables, JSON, configuration files, and one line for what cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foltr_audit as fa
from tests.fixtures.command import run

FEW = (
    *("membership", "--data", "synthetic:mq2007:60", "--clients", 10, "--rounds", 3),
    *("--shadows", 16, "--references", 1, "--others", 20),
)
METRICS = ("auc", "tpr_at_1", "tpr_at_01")


def test_rows_have_metrics_with_chance_and_ceiling() -> None:
    done = run(*FEW, "--defense", "none", "--defense", "clip:norm=1+gaussian:sigma=2", "--json")
    assert done.code == 0
    report = done.json()
    assert report["schema"] == "foltr-audit/membership/1"
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


def test_tables_say_what_is_seen_known_and_proven() -> None:
    done = run(*FEW, "--defense", "clip:norm=1+gaussian:sigma=200", "--of", "log", "--view", "released")
    assert done.code == 0
    text = " ".join(done.out.split())
    assert "first and trained model" in text
    assert "every global model" not in text
    assert "the draws behind its lists and clicks, are known" in text
    assert "of one client over 3 rounds: Gaussian noise" in text
    assert "no attack tells members from others better than chance" in text


def test_a_configuration_repeats_it_and_a_folder_keeps_it(tmp_path: Path) -> None:
    config, out = tmp_path / "spec.toml", tmp_path / "run"
    first = run(*FEW, "--method", "lira-offline", "--save-config", config, "--out", out, "--json")
    assert first.code == 0
    again = run("membership", "--config", config, "--json", "--threads", 1)
    assert again.out == first.out
    assert (out / "results.json").read_text().strip() == first.out.strip()
    assert run("membership", "--config", config, "--out", out, "--resume", "--json").out == first.out


def test_the_api_gives_the_same_rows() -> None:
    spec = fa.Spec(
        data={"source": "synthetic:mq2007:60"},
        population={"clients": 10},
        train={"rounds": 3},
        membership={"shadows": 16, "references": 1, "others": 20},
    )
    assert json.loads(fa.membership(spec).json())["results"] == run(*FEW, "--json").json()["results"]
    with pytest.raises(fa.FoltrAuditError, match="no membership protocol"):
        fa.membership(fa.Spec())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--method", "lyra"), "--method=lyra"),
        (("--view", "server"), "--view=server"),
        (("--of", "query"), "--of=query"),
        (("--shadows", 2), "--shadows=2"),
        (("--gamma", 0), "--gamma=0"),
        (("--offline-scale", 2), "--offline-scale=2"),
        (("--learner", "foltr-es"), "membership needs messages that are models"),
        (("--cohort", 11), "cohort=11"),
    ],
)
def test_what_cannot_be_meant_is_one_line(options: tuple[object, ...], told: str) -> None:
    done = run(*FEW, *options)
    assert done.code == 2
    assert told in done.one_error()


def test_a_comparison_has_no_membership_protocol(tmp_path: Path) -> None:
    config = tmp_path / "grid.toml"
    config.write_text("[spec.membership]\n")
    done = run("compare", "--config", config)
    assert done.code == 2
    assert "membership" in done.one_error()
