from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foltr_audit.core.ranking_metrics import OFFLINE, ONLINE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.report.train import speed_text, train_speed
from foltr_audit.utils.progress import Stopwatch
from tests.fixtures.command import SHARED, SMALL, answer, files, refusal, run
from tests.fixtures.made_reports import ROUND
from tests.fixtures.run_results import run_of

MOST = 14
"""No DCG@10 of grades up to 2 is above."""


def test_json_has_a_row_per_round() -> None:
    done = run("train --eps 1.2 --json", *SMALL)
    assert (done.code, done.said) == (0, "")
    report = done.json()
    assert [row["code"] for row in report["warnings"]] == ["FA101", "FA102", "FA103"]
    assert [row["round"] for row in report["rounds"]] == [0, 1, 2]
    for row in report["rounds"]:
        for name in (*OFFLINE, *ONLINE, "clipped"):
            assert 0 <= row[name] <= (MOST if "dcg" in name.replace("ndcg", "") else 1)
        assert row["offline_ndcg@10"] < row["offline_dcg@10"]
        assert row["online_ndcg@10"] < row["online_dcg@10"]
    assert report["utility"][0]["pdgd"] == "oosterhuis-2018"
    assert report["dataset"]["synthetic"] is True


def test_the_clock_is_told_beside_the_table_and_leaves_the_report_alone(tmp_path: Path) -> None:
    shown = run("train", *SMALL)
    assert shown.err.startswith("480 interactions in ")
    assert "interactions in" not in run("train", *SMALL, "--quiet").err
    one, two = (run("train", *SMALL, "--json", "--out", tmp_path / name) for name in ("one", "two"))
    assert one.err == ""
    kept = [(tmp_path / name / "results.json").read_bytes() for name in ("one", "two")]
    assert kept[0] == kept[1]
    for done in (one, two):
        told = done.json()
        count, seconds = told.pop("interactions"), told.pop("seconds")
        assert count == 480
        assert seconds > 0
        assert told.pop("interactions_per_second") > 0
        assert told == json.loads(kept[0])


def test_the_speed_leaves_out_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rounds of 160 interactions at 0 s, 76 s, for kernels to be compiled, 77 s and 78 s."""
    clock = iter((0.0, 76.0, 77.0, 78.0))
    watch = Stopwatch()
    monkeypatch.setattr("foltr_audit.utils.progress.time.perf_counter", lambda: next(clock))
    assert list(watch.over(iter("abc"))) == ["a", "b", "c"]
    assert (watch.pieces, watch.first, watch.seconds) == (3, 76.0, 78.0)
    several, single = run_of(Spec(), [ROUND]), run_of(Spec(), [ROUND])
    later = 320, watch.seconds - watch.first
    trained = replace(several.trained, interactions=480, seconds=watch.seconds, later=later)
    speed = train_speed([replace(several, trained=trained)])
    assert speed_text(speed) == "480 interactions in 78.0 s (160 a second after the first round)"
    assert speed["interactions_per_second"] == 160
    trained = replace(single.trained, interactions=160, seconds=76.0)
    assert speed_text(train_speed([replace(single, trained=trained)])) == "160 interactions in 76.0 s"


def test_the_rounds_as_a_parquet_table(tmp_path: Path) -> None:
    train = ("train --eps 1.2 --eps inf --evaluate-every 2", *SMALL, "--out", tmp_path / "run")
    rows = answer(*train)["rounds"]
    frame = pl.read_parquet(tmp_path / "run" / "rounds.parquet")
    assert [dict(row, eps_claimed=min(row["eps_claimed"], 99)) for row in frame.to_dicts()] == [
        dict(row, eps_claimed=99 if row["eps_claimed"] == "inf" else row["eps_claimed"]) for row in rows
    ]
    assert frame["round"].dtype == pl.Int64
    assert frame["offline_map@10"].is_null().to_list() == [True, False, False] * 2
    before = files(tmp_path / "run")
    assert run(*train, "--resume").code == 0
    assert files(tmp_path / "run") == before


def test_one_run_has_a_table_too_and_without_out_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("train", *SMALL)
    assert not list(tmp_path.iterdir())
    run("train", *SMALL, "--out", "run")
    assert pl.read_parquet(tmp_path / "run" / "rounds.parquet").height == 3


def test_init_goes_on_from_a_model_and_zeros_are_the_default(tmp_path: Path) -> None:
    first = answer("train", *SMALL, "--out", tmp_path / "first")
    again = answer("train", *SMALL, "--init", tmp_path / "first")
    assert again["utility"][0]["ndcg@10_untrained"] == first["rounds"][-1]["offline_ndcg@10"]
    np.save(tmp_path / "zeros.npy", np.zeros(46))
    zeros = answer("train", *SMALL, "--init", tmp_path / "zeros.npy")
    assert zeros["rounds"] == first["rounds"]


def test_repetitions_differ_and_the_first_equals_a_single_run() -> None:
    one, two = (answer("train", *SMALL, "--runs", runs) for runs in (1, 2))
    assert two["utility"][0]["runs"] == 2
    assert [row for row in two["rounds"] if row["run"] == 0] == one["rounds"]
    assert [row for row in two["rounds"] if row["run"] == 1] != one["rounds"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_run_i_uses_fold_i_mod_k(tmp_path: Path) -> None:
    source = SHARED / "data" / "mq2008"
    for fold, train in ((1, "train.txt"), (2, "test.txt")):
        folder = tmp_path / f"Fold{fold}"
        folder.mkdir()
        for part, file in (("train.txt", train), ("vali.txt", "vali.txt"), ("test.txt", "test.txt")):
            (folder / part).symlink_to(source / file)
    options = ("--data", tmp_path, "--clients", 20, "--rounds", 1, "--json")
    report = run("train", *options, "--fold", "all", "--runs", 3).json()
    assert [cell["data"]["fold"] for cell in report["config"]["cells"]] == [1, 2, 1]
    assert len(report["dataset"]["folds"]) == 2
    assert "--fold" in refusal("train", *options)
