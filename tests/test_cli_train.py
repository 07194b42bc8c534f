from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.command import SHARED, SMALL, run


def test_json_has_a_row_per_round() -> None:
    done = run("train", *SMALL, "--eps", 1.2, "--json")
    assert done.code == 0
    assert done.err == ""
    report = done.json()
    assert report["schema"] == "foltr-audit/train/1"
    assert [row["round"] for row in report["rounds"]] == [0, 1, 2]
    for row in report["rounds"]:
        for name in ("online_ndcg@10", "offline_ndcg@10", "maxrr", "clipped"):
            assert 0 <= row[name] <= 1
    assert report["utility"][0]["pdgd"] == "oosterhuis-2018"
    assert report["dataset"]["synthetic"] is True


def test_the_clock_is_told_beside_the_table_and_leaves_the_report_alone(tmp_path: Path) -> None:
    shown = run("train", *SMALL)
    assert shown.err.startswith("480 interactions in ")
    one, two = (run("train", *SMALL, "--json", "--out", tmp_path / name) for name in ("one", "two"))
    assert one.err == ""
    kept = [(tmp_path / name / "results.json").read_bytes() for name in ("one", "two")]
    assert kept[0] == kept[1]
    for done in (one, two):
        told = done.json()
        count, seconds = told.pop("interactions"), told.pop("seconds")
        assert count == 480
        assert seconds > 0
        assert told.pop("interactions_per_second") == pytest.approx(count / seconds, rel=1e-12)
        assert told == json.loads(kept[0])


def test_the_table_has_a_line_per_round_and_several_epsilons_one_run_each() -> None:
    done = run("train", *SMALL, "--eps", 1.2, "--eps", "inf")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    shown = [line[:3] for line in lines if line[:1] == ["0"]]
    assert shown == [["0", eps, str(round_)] for eps in ("1.2", "none") for round_ in range(3)]


def test_init_goes_on_from_a_model_and_zeros_are_the_default(tmp_path: Path) -> None:
    first = run("train", *SMALL, "--out", tmp_path / "first", "--json").json()
    again = run("train", *SMALL, "--init", tmp_path / "first", "--json").json()
    trained = first["rounds"][-1]["offline_ndcg@10"]
    assert again["utility"][0]["ndcg@10_untrained"] == trained
    np.save(tmp_path / "zeros.npy", np.zeros(46))
    zeros = run("train", *SMALL, "--init", tmp_path / "zeros.npy", "--json").json()
    assert zeros["rounds"] == first["rounds"]


def test_repetitions_differ_and_the_first_equals_a_single_run() -> None:
    one = run("train", *SMALL, "--json").json()
    two = run("train", *SMALL, "--runs", 2, "--json").json()
    assert two["utility"][0]["runs"] == 2
    assert [row for row in two["rounds"] if row["run"] == 0] == one["rounds"]
    assert [row for row in two["rounds"] if row["run"] == 1] != one["rounds"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_run_i_uses_fold_i_mod_k(tmp_path: Path) -> None:
    source = SHARED / "data" / "mq2008"
    for fold, train in ((1, "train.txt"), (2, "test.txt")):
        folder = tmp_path / f"Fold{fold}"
        folder.mkdir()
        (folder / "train.txt").symlink_to(source / train)
        (folder / "vali.txt").symlink_to(source / "vali.txt")
        (folder / "test.txt").symlink_to(source / "test.txt")
    options = ("--data", tmp_path, "--clients", 20, "--rounds", 1, "--json")
    report = run("train", *options, "--fold", "all", "--runs", 3).json()
    assert [cell["data"]["fold"] for cell in report["config"]["cells"]] == [1, 2, 1]
    assert len(report["dataset"]["folds"]) == 2
    refused = run("train", *options)
    assert refused.code == 2
    assert "--fold" in refused.one_error()
